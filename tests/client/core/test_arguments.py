"""What a call is about: star-arguments or one list. Names of other clients: the error says what to write."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Coroutine
from importlib import import_module
from typing import Any, cast

import pytest
from odradek import client
from odradek.broker import Broker
from odradek.client import (
    Acl,
    AclFilter,
    Admin,
    ConfigResource,
    Consumer,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    ScramPassword,
    ShareRecord,
    TopicPartition,
    blocking,
)
from odradek.client.core import options
from odradek.client.core.metadata import TopicInfo
from odradek.client.errors import KafkaError
from odradek.tests.support.fakes.cluster_thread import cluster_in_thread
from odradek.tests.support.fakes.fake_cluster import FakeCluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TOPICS = [TopicInfo(name, bytes(16), ()) for name in ("t", "u")]
RECORDS = [ShareRecord("t", 0, offset, 0, 0, None, b"", (), 1) for offset in range(2)]
# What a call about several things takes, by the annotation of its star-argument.
THINGS: dict[str, list[Any]] = {
    "str": ["t", "u"],
    "int": [0, 1],
    "TopicPartition": [T0, T1],
    "TopicInfo": TOPICS,
    "NewTopic": [NewTopic("t"), NewTopic("u")],
    "ConfigResource": [ConfigResource.topic("t"), ConfigResource.topic("u")],
    "Acl": [Acl("User:a", "read", "topic", "t"), Acl("User:b", "read", "topic", "t")],
    "AclFilter": [AclFilter(), AclFilter("User:a")],
    "ScramPassword": [ScramPassword("a", password="x"), ScramPassword("b", password="y")],
    "ShareRecord[Any, Any]": RECORDS,
}
KINDS = [
    getattr(home, name)
    for home in (client, blocking)
    for name in ("Admin", "Consumer", "Producer", "ShareConsumer", "SimpleConsumer")
]
# Calls about a topic, with a stream of records for it.
ABOUT_A_TOPIC = {"send_many", "send_values"}


def things_of(method: Any) -> list[Any]:
    """What the star-argument of a method takes, nothing if it has none."""
    stars = [each for each in inspect.signature(method).parameters.values() if each.kind is each.VAR_POSITIONAL]
    return [one for each in stars for one in THINGS[each.annotation.split(" | ")[0]]]


CALLS = [
    (kind, name)
    for kind in KINDS
    for name, method in inspect.getmembers(kind, inspect.isfunction)
    if not name.startswith("_") and things_of(method)
]


def made(kind: Any, *topics: Any) -> Any:
    options = {"group_id": "g"} if kind.__name__ == "ShareConsumer" else {}
    return kind(*topics, **options)


def became_of(caller: Any, name: str, *arguments: Any) -> Any:
    """Return the things that a call of a client that is not started takes its arguments for, or raise its TypeError."""
    seen: list[Any] = []

    def see(*given: Any) -> list[Any]:
        seen.append(options.items_of(*given))
        return seen[-1]

    model = inspect.unwrap(getattr(getattr(client, type(caller).__name__), name))
    first = ["g"] if "group_id" in inspect.signature(model).parameters else []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_module(model.__module__), "items_of", see)
        try:
            called = getattr(caller, name)(*first, *arguments)
            if isinstance(called, Coroutine):
                asyncio.run(cast("Coroutine[Any, Any, Any]", called))
        except KafkaError:
            pass  # it is not started
    (things,) = seen
    return things


def test_the_calls_about_several_things_are_found() -> None:
    names = {name for _, name in CALLS}
    assert {"describe_topics", "create_topics", "assign", "pause", "committed", "accept", "fetch_offsets"} <= names


def test_no_call_takes_a_list_alone() -> None:
    for kind in KINDS:
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            if name.startswith("_") or name in ABOUT_A_TOPIC or things_of(method):
                continue
            for each in inspect.signature(method).parameters.values():
                is_list = re.match(r"(Iterable|Collection|Sequence|list)\[", str(each.annotation))
                assert not is_list or each.kind is each.KEYWORD_ONLY, name


def test_a_call_takes_things_as_star_arguments_or_as_one_list() -> None:
    for kind, name in CALLS:
        caller, things = made(kind), things_of(getattr(kind, name))
        for form in (things, [things], [tuple(things)], [iter(things)], [dict(enumerate(things)).values()]):
            assert became_of(caller, name, *form) == things, name
        for form in ([things[0]], [things[:1]]):
            assert became_of(caller, name, *form) == things[:1], name
        assert became_of(caller, name, []) == [], name


def test_a_thing_of_a_wrong_kind_is_refused_in_both_forms() -> None:
    for kind, name in CALLS:
        caller, things = made(kind), things_of(getattr(kind, name))
        for wrong in ([things[0], None], [[None]], [[things]], [things, things[0]], [[b"t"]], [1.5], [object()]):
            with pytest.raises(TypeError, match=f"^{name} takes |what {name} takes must be an int"):
                became_of(caller, name, *wrong)


@pytest.mark.parametrize("kind", [client.Consumer, client.ShareConsumer, blocking.Consumer, blocking.ShareConsumer])
def test_topics_of_a_constructor_too(kind: Any) -> None:
    for topics in (("t", "u"), (["t", "u"],), ({"t", "u"},), (iter("tu"),)):
        caller = made(kind, *topics)
        assert getattr(caller, "_inner", caller).subscription() == {"t", "u"}
    with pytest.raises(TypeError, match=f"{kind.__name__} takes names as str, not NoneType"):
        made(kind, [None])


def test_names_of_a_list_by_keyword_work_as_before() -> None:
    consumer = Consumer()
    assert became_of(consumer, "assign") == []
    consumer.assign(partitions=[T0])
    consumer.assign(partitions=T1)


def test_a_text_a_pair_and_a_named_tuple_are_one_thing() -> None:
    assert options.items_of("f", str, ["tu"]) == ["tu"]
    assert options.items_of("f", TopicPartition, [("t", 0)]) == [T0]
    assert options.items_of("f", TopicPartition, [[("t", 0), ("t", 1)]]) == [T0, T1]
    assert options.items_of("f", ShareRecord, RECORDS[:1]) == RECORDS[:1]
    with pytest.raises(TypeError, match=r"f takes TopicPartition\(topic, number\), from odradek.client, not 't'"):
        options.items_of("f", TopicPartition, ["t"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="f takes names as str, not TopicPartition"):
        options.items_of("f", str, [T0])  # type: ignore[list-item]


async def test_an_empty_list_is_about_nothing_where_no_argument_is_about_all() -> None:
    async with FakeCluster({"t": 2}) as cluster, Admin(cluster.address) as admin:
        assert list(await admin.describe_topics()) == ["t"]
        assert await admin.describe_topics([]) == {}
        assert await admin.describe_user_scram_credentials([]) == {}
        assert await admin.describe_log_dirs([]) == []
        assert await admin.elect_leaders([]) == []
        with pytest.raises(TypeError, match="elect_leaders takes"):
            await admin.elect_leaders(None, T0)


INSTEAD: dict[str, str] = vars(options)["_METHODS_INSTEAD"]
FACES = [getattr(home, name) for home in (client, blocking) for name in ("Admin", "Consumer", "Producer")]


@pytest.mark.parametrize("kind", FACES)
def test_a_method_of_another_client_is_told_what_to_call(kind: Any) -> None:
    for name in INSTEAD:
        if not hasattr(kind, name):
            why = re.escape(f"{kind.__name__!r} object has no attribute {name!r}: ")
            with pytest.raises(AttributeError, match=why):
                getattr(kind(), name)


def test_what_is_named_instead_exists() -> None:
    for name, instead in INSTEAD.items():
        for called in re.findall(r"(?:Admin\.)?\b([a-z_]+)\(", instead):
            assert any(hasattr(kind, called) for kind in FACES), (name, called)


async def pairs() -> AsyncIterator[tuple[None, bytes]]:
    yield None, b"x"


async def test_send_many_says_that_it_takes_no_async_generator_and_flush_no_timeout() -> None:
    timeout: Any = 10
    records: Any = pairs()
    async with FakeCluster({"t": 1}) as cluster, client.Producer(cluster.address) as producer:
        with pytest.raises(TypeError, match="not an async one: write `async for"):
            await producer.send_many("t", records)
        with pytest.raises(TypeError, match="flush takes no timeout"):
            await producer.flush(timeout)


def test_the_blocking_producer_says_so_too() -> None:
    timeout: Any = 10
    records: Any = pairs()
    with cluster_in_thread({"t": 1}) as cluster, blocking.Producer(cluster.address) as producer:
        with pytest.raises(TypeError, match="not an async one: write `async for"):
            producer.send_many("t", records)
        with pytest.raises(TypeError, match="flush takes no timeout"):
            producer.flush(timeout)


async def test_offsets_are_of_partitions_or_pairs_that_equal_them() -> None:
    pair: Any = ("t", 0)
    with Broker.ephemeral() as broker:
        async with Producer(broker.address, transactional_id="x") as producer:
            async with producer.transaction():
                await producer.send("t", b"v")
                await producer.send_offsets({pair: 1}, "h")
            with pytest.raises(TypeError, match="send_offsets takes TopicPartition"):
                await producer.send_offsets(cast("Any", {"t": 1}), "h")
        async with Consumer(
            "t", bootstrap_servers=broker.address, group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            await consumer.getone()
            await consumer.commit({pair: 1})
            assert await consumer.committed(pair) == {T0: OffsetAndMetadata(1)}
            assert await consumer.end_offsets([pair]) == {T0: 2}
            for wrong in (consumer.commit({"t": 1}), consumer.committed("t"), consumer.end_offsets(["t"])):  # type: ignore
                with pytest.raises(TypeError, match=r"takes TopicPartition\(topic, number\)"):
                    await wrong


async def test_configs_are_of_resources() -> None:
    with Broker.ephemeral() as broker:
        async with Admin(broker.address) as admin:
            for wrong in (admin.describe_configs(["t"]), admin.alter_configs({"t": {}})):  # type: ignore
                with pytest.raises(TypeError, match=r"_configs takes ConfigResource\.topic\(name\)"):
                    await wrong
