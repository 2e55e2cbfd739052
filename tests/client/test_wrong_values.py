"""Values of the wrong kind, as people write them who come from other clients: a message, and the client goes on.

One value must not harm others: a record that cannot be encoded would break the task that sends for everyone, and the
name of a topic that is no str would be in every later request for metadata.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from odradek.broker import Broker
from odradek.client import (
    Admin,
    ConfigResource,
    Consumer,
    NewTopic,
    Producer,
    RangeAssignor,
    SimpleConsumer,
    TopicPartition,
)
from odradek.client.core.options import _NOT_NEEDED
from odradek.client.errors import KafkaError
from odradek.tests.support.brokers.compiled_kernel import records_by
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.fake_log import write

T0 = TopicPartition("t", 0)
Call = Callable[[Any], Any]
Case = tuple[Call, str]


async def said_by(call: Callable[[], Any]) -> str:
    """Return what a call raises."""
    with pytest.raises((TypeError, KafkaError)) as caught:
        made = call()
        if isinstance(made, Awaitable):
            await made
    return str(caught.value)


def half(*_: object) -> Any:
    return 0.5


SENDS: list[Case] = [
    (lambda p: p.send("t", b"x", timestamp_ms=1e12), "timestamp_ms must be an int, not float"),
    (lambda p: p.send_values("t", [b"x"], timestamp_ms=1e12), "must be an int, not float"),
    (lambda p: p.send("t", b"x", partition=0.0), "partition must be an int, not float"),
    (lambda p: p.send_many("t", [(None, b"x")], partition=0.0), "must be an int, not float"),
    (lambda p: p.send_values("t", [b"x"], partition=0.0), "must be an int, not float"),
    (lambda p: p.send("t", b"x", partition="0"), "partition must be an int, not str"),
    (lambda p: p.send(b"t", b"x"), "the name of a topic is a str, not bytes"),
    (lambda p: p.send_many(b"t", [(None, b"x")]), "the name of a topic is a str, not bytes"),
    (lambda p: p.send_many("t", [b"x"]), "takes pairs of key and value, not b'x'; send_values"),
    (lambda p: p.send_many("t", [(b"a", b"b", b"c")]), "send_many takes pairs of key and value"),
]


@pytest.mark.parametrize("code", ["Python", "kernel"])
@pytest.mark.parametrize(("call", "text"), SENDS)
async def test_a_record_of_wrong_values_is_refused_and_the_producer_goes_on(call: Call, text: str, code: str) -> None:
    async with FakeCluster({"t": 2}) as cluster, Producer(cluster.address) as producer:
        with records_by(code):
            await producer.send_and_wait("t", b"x")
            assert text in await said_by(lambda: call(producer))
            assert (await producer.send_and_wait("t", b"x")).topic == "t"


async def test_a_partitioner_that_returns_no_int_fails_its_records_alone() -> None:
    async with FakeCluster({"t": 2}) as cluster, Producer(cluster.address, partitioner=half) as producer:
        assert "partition must be an int, not float" in await said_by(lambda: producer.send("t", b"x"))
        assert (await producer.send_and_wait("t", b"x", partition=0)).offset == 0


READS: list[Case] = [
    (lambda c: c.seek("t", 0), "takes TopicPartition(topic, number), from odradek.client"),
    (lambda c: c.seek(T0, 1 << 63), "an offset is from 0 to 2^63 - 1, not 92233720"),
    (lambda c: c.offsets_for_times({T0: 1 << 63}), "a value does not fit the request: ListOffsetsRequest"),
    (lambda c: c.seek(T0, 1.5), "an offset must be an int, not float"),
    (lambda c: c.seek(T0, -1), "an offset is from 0 to 2^63 - 1, not -1"),
    (lambda c: c.commit([T0]), "commit takes a dict of TopicPartition and the offset of the next record"),
    (lambda c: c.commit({T0: -1}), "an offset is from 0 to 2^63 - 1, not -1"),
    (lambda c: c.commit({T0: 1.5}), "an offset must be an int, not float"),
    (lambda c: c.subscribe(b"t"), "subscribe takes names as str, not bytes"),
    (lambda c: c.partitions_for(b"t"), "the name of a topic is a str, not bytes"),
    (lambda c: c.offsets_for_times({T0: 1e12}), "must be an int, not float"),
]


@pytest.mark.parametrize(("call", "text"), READS)
async def test_a_consumer_refuses_wrong_values_and_goes_on(cluster: FakeCluster, call: Call, text: str) -> None:
    write(cluster.log("t"), 5)
    options: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    async with Consumer("t", bootstrap_servers=cluster.address, **options) as consumer:
        assert await consumer.getone()
        assert text in await said_by(lambda: call(consumer))
        assert await consumer.getone()
        assert (await consumer.committed(T0))[T0] is None


async def test_assign_takes_partitions_alone() -> None:
    wrong: list[Any] = [["t"], [("t", "0")], [(b"t", 0)], [0]]
    for each in wrong:
        with pytest.raises(TypeError, match=r"assign takes TopicPartition\(topic, number\)"):
            Consumer().assign(each)


ADMIN: list[Case] = [
    (lambda a: a.create_topics([NewTopic("u", configs={"retention.ms": 1})]), "'retention.ms' is a str, not int"),
    (lambda a: a.describe_configs([ConfigResource("topic", "t")]), "use ConfigResource.topic(name)"),
    (lambda a: a.alter_configs({ConfigResource.topic("t"): {"retention.ms": 1}}), "is a str, not int"),
    (lambda a: a.alter_configs([ConfigResource.topic("t")]), "takes a dict of ConfigResource"),
    (lambda a: a.create_partitions([("t", 3)]), "takes a dict of topic and number"),
    (lambda a: a.create_topics(["u"]), "create_topics takes NewTopic(...), from odradek.client"),
    (lambda a: a.create_topics([NewTopic("u", "3")]), "num_partitions must be an int, not str"),
    (lambda a: a.create_partitions({"t": "3"}), "a number of partitions must be an int, not str"),
    (lambda a: a.create_acls("User:alice"), "create_acls takes Acl(...), from odradek.client"),
    (lambda a: a.delete_records([T0]), "takes a dict of TopicPartition and offset, not a list"),
    (lambda a: a.alter_group_offsets("g", {"t": 0}), "takes TopicPartition(topic, number)"),
    (lambda a: a.alter_group_offsets("g", {T0: "0"}), "an offset must be an int, not str"),
    (lambda a: a.list_offsets({T0: "latest"}), "LATEST or EARLIEST, must be an int, not str"),
]


@pytest.mark.parametrize(("call", "text"), ADMIN)
async def test_the_admin_client_refuses_wrong_values(call: Call, text: str) -> None:
    async with FakeCluster({"t": 1}) as cluster, Admin(cluster.address) as admin:
        assert text in await said_by(lambda: call(admin))
        assert await admin.list_topics() == ["t"]


CONSTRUCTORS: list[tuple[Callable[[], Any], str]] = [
    (lambda: Producer({"bootstrap.servers": "h"}), "not a dict: options are given by name"),  # type: ignore[arg-type]
    (lambda: Consumer({"group.id": "g"}), "Consumer takes options by name, not in a dict"),  # type: ignore[arg-type]
    (lambda: Admin({"bootstrap.servers": "h"}), "not a dict: options are given by name"),  # type: ignore[arg-type]
    (lambda: Producer(compression_type=None), "compression_type must be one of none, gzip"),  # type: ignore[arg-type]
    (lambda: Consumer(partition_assignment_strategy=["range"]), "takes classes, such as [RangeAssignor], not 'range'"),  # type: ignore[list-item]
    (lambda: Consumer(partition_assignment_strategy=[RangeAssignor()]), "takes classes, such as [RangeAssignor]"),  # type: ignore[list-item]
    (lambda: Producer(**{"linger.ms": 5}), "has no option 'linger.ms': options have underscores, such as linger_ms"),  # type: ignore[arg-type]
    (
        lambda: Consumer(auto_offset_rest="latest"),
        "Consumer has no option 'auto_offset_rest': did you mean auto_offset_reset?",
    ),  # type: ignore[call-arg]
    (lambda: Admin(bootstrap_server="h"), "Admin has no option 'bootstrap_server': did you mean bootstrap_servers?"),  # type: ignore[call-arg]
    (lambda: Producer(group_ids="g"), "Producer has no option 'group_ids'"),  # type: ignore[call-arg]
    (lambda: SimpleConsumer("h", ssl_cafiles="x"), "'ssl_cafiles': did you mean ssl_cafile?"),  # type: ignore[call-arg]
    (lambda: Consumer(rebalance_timeout_ms=5), "no option 'rebalance_timeout_ms': it is max_poll_interval_ms here"),  # type: ignore[call-arg]
]


@pytest.mark.parametrize(("make", "text"), CONSTRUCTORS)
async def test_options_as_other_clients_take_them_are_told_what_to_write(make: Callable[[], Any], text: str) -> None:
    assert text in await said_by(make)


def test_options_that_are_told_of_are_those_of_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs/from-other-clients.md").read_text()
    table = page.partition("## Options")[2].partition("\n## ")[0]
    named = {
        name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1] if "|" in row else "")
    }
    assert set(_NOT_NEEDED) <= named
    own = {name for kind in (Consumer, Producer, Admin) for name in inspect.signature(kind.__init__).parameters}
    assert set(_NOT_NEEDED) & own <= {
        "allow_auto_create_topics",
        "max_in_flight_requests_per_connection",
    }  # of one kind


async def test_a_dict_of_configs_sets_and_resets(broker: Broker) -> None:
    resource = ConfigResource.topic("t")
    async with Admin(broker.address) as admin:
        await admin.create_topics([NewTopic("t", 1)])
        before = (await admin.describe_configs([resource]))[resource]["retention.ms"].value
        await admin.alter_configs({resource: {"retention.ms": "5"}})
        assert (await admin.describe_configs([resource]))[resource]["retention.ms"].value == "5"
        await admin.alter_configs({resource: {"retention.ms": None}})
        assert (await admin.describe_configs([resource]))[resource]["retention.ms"].value == before


async def test_a_pair_stands_for_a_partition_and_an_int_for_an_offset(broker: Broker) -> None:
    pair: Any = ("t", 0)
    async with Admin(broker.address) as admin:
        await admin.create_topics([NewTopic("t", 1)])
        assert (await admin.list_offsets({pair: -1}))[T0].offset == 0
        assert await admin.delete_records({pair: 0}) == {T0: 0}
        assert await admin.describe_producers(pair) == {T0: []}
        offsets: Any = {pair: 7}
        await admin.alter_group_offsets("g", offsets)
        assert (await admin.list_group_offsets("g"))[T0].offset == 7
