"""A broker of the test's process: what a test puts in, sees and removes."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Message
from confluent_kafka import Producer as ConfluentProducer
from odradek import testing
from odradek.broker import Broker, server
from odradek.broker.configs.definition import ConfigError
from odradek.broker.configs.description import ConfigSource
from odradek.client import ConfigResource, Consumer, KafkaError, Producer
from odradek.client.blocking import Admin
from odradek.testing import KafkaProcess, LocalKafka, Record
from odradek.testing.errors import Unavailable


def read_all(kafka: LocalKafka, topic: str, count: int, group: str = "readers") -> list[bytes | None]:
    """Read with librdkafka, commit, and leave the group."""
    options = {"bootstrap.servers": kafka.address, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = ConfluentConsumer(options)
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    while len(found) < count:
        found += [each.value() for each in consumer.consume(count, 0.1)]
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


def test_a_test_sees_what_a_client_wrote(kafka: LocalKafka) -> None:
    kafka.create_topic("orders", partitions=3)
    producer = ConfluentProducer({"bootstrap.servers": kafka.address})
    producer.produce("orders", b"one", key=b"k", partition=2)
    assert producer.flush(10) == 0
    (record,) = kafka.records("orders")
    assert (record.partition, record.key, record.value) == (2, b"k", b"one")


def test_no_config_of_a_new_topic_differs_from_its_default(kafka: LocalKafka) -> None:
    resource = ConfigResource.topic(kafka.create_topic("orders"))
    with Admin(kafka.address) as admin:
        found = admin.describe_configs([resource])[resource].values()
    assert {each.name for each in found if each.source != ConfigSource.DEFAULT_CONFIG} == set()


async def test_a_broker_that_keeps_nothing_does_not_say_what_is_not_on_disk(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setattr(server, "CLOSE_DEADLINE_S", 0)
    async with Broker.ephemeral():
        pass
    assert "not all is on disk" not in caplog.text
    async with Broker.ephemeral({"log.dirs": str(tmp_path)}):
        pass
    assert "not all is on disk" in caplog.text


def test_the_last_requests_can_be_told_after_the_end() -> None:
    with testing.kafka() as kafka:
        kafka.put("orders", ["v"])
        assert read_all(kafka, "orders", 1) == [b"v"]
    # Newer versions of Fetch name the topic by its id.
    assert any(" Fetch v" in each for each in kafka.recent_requests())


def test_a_client_reads_what_a_test_put_in(kafka: LocalKafka) -> None:
    kafka.put("orders", ["v1", ("k", "v2"), Record(b"v3", timestamp=1_000_000_000_000, headers={"h": b"1"})])
    assert read_all(kafka, "orders", 3) == [b"v1", b"v2", b"v3"]
    last = kafka.records("orders")[2]
    assert (last.timestamp_ms, list(last.headers)) == (1_000_000_000_000, [("h", b"1")])


async def test_asyncio_clients_use_it_too(kafka: LocalKafka) -> None:
    async with Producer(kafka.address) as producer:
        await (await producer.send("orders", b"v"))
    async with Consumer("orders", bootstrap_servers=kafka.address, auto_offset_reset="earliest") as consumer:
        assert (await consumer.getone()).value == b"v"


def test_the_lag_of_a_group_is_what_it_has_not_read(kafka: LocalKafka) -> None:
    kafka.put("orders", ["1", "2"])
    read_all(kafka, "orders", 2)
    assert kafka.committed("readers") == {("orders", 0): 2}
    assert kafka.lag("readers") == {("orders", 0): 0}
    kafka.put("orders", ["3"])
    assert kafka.lag("readers") == {("orders", 0): 1}
    assert kafka.members("readers") == []


def test_records_of_an_aborted_transaction_show_only_uncommitted(kafka: LocalKafka) -> None:
    kafka.put("orders", ["committed"], transactional_id="t")
    producer = ConfluentProducer({"bootstrap.servers": kafka.address, "transactional.id": "u"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("orders", b"open")
    producer.flush()
    assert kafka.abort_open_transactions() == ["u"]
    assert [each.value for each in kafka.records("orders")] == [b"committed"]
    assert [each.value for each in kafka.records("orders", isolation="read_uncommitted")] == [b"committed", b"open"]


def test_a_reset_leaves_nothing(kafka: LocalKafka) -> None:
    kafka.put("orders", ["1"], transactional_id="t")
    read_all(kafka, "orders", 1)
    kafka.configure({"log.retention.ms": 1000})
    kafka.reset()
    assert (kafka.topics(), kafka.groups()) == ([], [])
    assert kafka.broker.config.log_retention_ms != 1000
    kafka.put("orders", ["2"], transactional_id="t")
    assert [each.value for each in kafka.records("orders")] == [b"2"]
    assert read_all(kafka, "orders", 1) == [b"2"]


def test_a_wait_says_what_is_there_instead(kafka: LocalKafka) -> None:
    kafka.put("paid", [("k", "v")])
    assert len(kafka.wait_for(records=1, topic="paid")) == 1
    with pytest.raises(AssertionError, match=r"has 1 of 3 records, by partition \{0: 1\}\n  0@0 b'k': b'v'"):
        kafka.wait_for(records=3, topic="paid", within=0)
    with pytest.raises(AssertionError, match="no topic 'payd' \\(did you mean paid\\?\\)"):
        kafka.wait_for(records=1, topic="payd", within=0)


def test_unknown_names_come_with_the_nearest(kafka: LocalKafka) -> None:
    kafka.create_topic("orders")
    with pytest.raises(KafkaError, match="did you mean orders"):
        kafka.records("order")
    with pytest.raises(KafkaError, match="there is no group 'g'"):
        kafka.lag("g")
    with pytest.raises(ConfigError, match=r"did you mean log\.retention\.ms"):
        LocalKafka({"log.retentionn.ms": 1})


def test_a_snapshot_brings_back_what_was_there(kafka_factory: Callable[..., LocalKafka]) -> None:
    kafka = kafka_factory()
    address = kafka.address
    kafka.put("orders", ["1"])
    snapshot = kafka.snapshot()
    kafka.put("orders", ["2"])
    kafka.restore(str(snapshot))
    assert [each.value for each in kafka.records("orders")] == [b"1"]
    assert kafka.address == address


def test_each_snapshot_is_one_of_its_own(kafka_factory: Callable[..., LocalKafka]) -> None:
    kafka = kafka_factory()
    kafka.put("orders", ["1"])
    first = kafka.snapshot()
    kafka.put("orders", ["2"])
    second = kafka.snapshot()
    for snapshot, values in ((first, [b"1"]), (None, [b"1", b"2"]), (first, [b"1"]), (second, [b"1", b"2"])):
        kafka.restore(snapshot)
        assert [each.value for each in kafka.records("orders")] == values


def test_a_snapshot_that_fails_changes_nothing(
    kafka_factory: Callable[..., LocalKafka], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    kafka = kafka_factory()
    kafka.put("orders", ["1"])
    kafka.snapshot()
    kafka.put("orders", ["2"])
    with monkeypatch.context() as patched, pytest.raises(OSError, match="full"):
        patched.setattr(shutil, "copytree", fail)
        kafka.snapshot()
    assert [each.value for each in kafka.records("orders")] == [b"1", b"2"]
    kafka.restore()
    assert [each.value for each in kafka.records("orders")] == [b"1"]


def test_a_snapshot_during_writes_has_what_was_acknowledged_before(kafka_factory: Callable[..., LocalKafka]) -> None:
    kafka = kafka_factory()
    kafka.create_topic("orders")
    acknowledged: list[bytes] = []
    producer = ConfluentProducer({"bootstrap.servers": kafka.address, "linger.ms": 0, "enable.idempotence": True})

    def note(_: object, record: Message) -> None:
        acknowledged.append(record.value() or b"")

    def write(producer: ConfluentProducer, numbers: range) -> None:
        for number in numbers:
            producer.produce("orders", b"%d" % number, on_delivery=note)
            producer.poll(0)

    write(producer, range(500))
    while not acknowledged:
        producer.poll(0.1)
    before = list(acknowledged)
    kafka.snapshot()
    write(producer, range(500, 1000))
    assert producer.flush(60) == 0
    assert [each.value for each in kafka.records("orders")] == [b"%d" % number for number in range(1000)]
    # It would go on with a producer id and a sequence number that the older files do not know.
    del producer
    kafka.restore()
    restored = [each.value for each in kafka.records("orders")]
    assert restored == [b"%d" % number for number in range(len(restored))] and len(restored) >= len(before)


@pytest.mark.parametrize("kind", [LocalKafka, KafkaProcess, Broker.ephemeral])
def test_a_directory_that_a_test_names_stays_at_the_end(kind: Callable[..., Any], tmp_path: Path) -> None:
    with kind({"log.dirs": str(tmp_path / "data")}) as broker:
        pass
    assert (tmp_path / "data" / "meta.properties").exists()
    if not isinstance(broker, Broker):
        for call in (broker.restart, broker.reset):
            with pytest.raises(Unavailable, match="this Kafka is closed"):
                call()


def test_several_directories_have_no_snapshot(tmp_path: Path) -> None:
    with LocalKafka({"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}) as kafka:
        with pytest.raises(Unavailable, match=r"several log\.dirs"):
            kafka.snapshot()
        assert kafka.is_alive


def test_another_broker_has_configs_of_its_own(kafka: LocalKafka, kafka_factory: Callable[..., LocalKafka]) -> None:
    other = kafka_factory(num_partitions=4)
    other.put("t", ["v"])
    assert len(other.broker.config.listeners) == 1
    assert kafka.topics() == []
    assert other.broker.config.num_partitions == 4


def test_nothing_is_left_behind() -> None:
    before = set(threading.enumerate())
    with testing.kafka() as kafka:
        kafka.put("t", ["v"])
        directory = Path(kafka.broker.config.data_dirs[0])
        assert directory.exists()
        kafka.snapshot()
    assert not list(directory.parent.glob(f"{directory.name}*"))
    assert {each for each in threading.enumerate() if each.name == "odradek-broker"} <= before


def test_an_ephemeral_broker_needs_no_config() -> None:
    with Broker.ephemeral() as broker:
        directory = broker.config.data_dirs[0]
        producer = ConfluentProducer({"bootstrap.servers": broker.address})
        producer.produce("t", b"v")
        assert producer.flush(10) == 0
    assert not directory.exists()


def test_a_reset_forgets_the_requests_of_the_test_before(kafka: LocalKafka) -> None:
    producer = ConfluentProducer({"bootstrap.servers": kafka.address, "client.id": "before"})
    producer.produce("t", b"v")
    assert producer.flush(20) == 0
    assert any("before" in line for line in kafka.recent_requests())
    del producer
    kafka.reset()
    assert not any("Produce" in line for line in kafka.recent_requests())
