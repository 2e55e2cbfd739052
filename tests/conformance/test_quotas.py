"""Quotas with other people's programs: Kafka's own `kafka-configs` sets them, and clients learn how long they wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import confluent_kafka
import pytest
from odradek.client import DEFAULT_ENTITY, Admin, NewTopic, QuotaEntity
from odradek.tests.support.brokers.process import BrokerProcess
from odradek.tests.support.clients.kafka_tools import config_command, kafka_tool
from odradek.tests.support.clients.others import require

CONFIGS = config_command()
PRODUCER = "org.apache.kafka.tools.ProducerPerformance"
CONSUMER = "org.apache.kafka.tools.ConsumerPerformance"
# Ten seconds of it may be used in a moment: a million bytes.
RATE = 100_000.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    process = BrokerProcess(tmp_path_factory.mktemp("broker")).start()
    yield process.address
    process.close()


async def limit(broker: str, client_id: str, **quotas: float | None) -> None:
    async with Admin(broker) as admin:
        await admin.alter_client_quotas({QuotaEntity(client_id=client_id): quotas})


async def new_topic(broker: str) -> str:
    topic = f"quota-{uuid4().hex}"
    async with Admin(broker) as admin:
        await admin.create_topics([NewTopic(topic, 1)])
    return topic


def configs(broker: str, *arguments: str) -> str:
    return kafka_tool(CONFIGS, "--bootstrap-server", broker, *arguments)


@pytest.mark.parametrize(
    ("entity", "wanted", "known"),
    [
        (("users", "alice"), "producer_byte_rate=1024,request_percentage=12.5", QuotaEntity("alice")),
        (("users", None), "consumer_byte_rate=2048", QuotaEntity(DEFAULT_ENTITY)),
        (("clients", "importer"), "controller_mutation_rate=3", QuotaEntity(client_id="importer")),
        (("ips", "10.1.2.3"), "connection_creation_rate=20", QuotaEntity(ip="10.1.2.3")),
    ],
)
async def test_kafka_configs_sets_describes_and_deletes(
    broker: str, entity: tuple[str, str | None], wanted: str, known: QuotaEntity
) -> None:
    require("java")
    kind, name = entity
    who = ("--entity-type", kind, *(("--entity-default",) if name is None else ("--entity-name", name)))
    assert "Completed updating" in configs(broker, "--alter", *who, "--add-config", wanted)
    async with Admin(broker) as admin:
        expected = {key: float(value) for key, value in (pair.split("=") for pair in wanted.split(","))}
        assert (await admin.describe_client_quotas())[known] == expected
        described = configs(broker, "--describe", *who)
        assert all(f"{key}={value}" in described for key, value in expected.items()), described
        configs(broker, "--alter", *who, "--delete-config", ",".join(expected))
        assert known not in await admin.describe_client_quotas()


async def test_librdkafka_learns_how_long_it_waits(broker: str) -> None:
    topic, throttled = await new_topic(broker), []
    await limit(broker, "slow-rd", producer_byte_rate=RATE)
    options: dict[str, Any] = {"bootstrap.servers": broker, "client.id": "slow-rd", "throttle_cb": throttled.append}
    producer = confluent_kafka.Producer(options)
    for _ in range(12):
        producer.produce(topic, b"x" * 100_000)
        producer.flush(30)
    producer.poll(1)
    assert max(each.throttle_time for each in throttled) > 0


async def test_javas_clients_are_slowed_down_and_say_so(broker: str) -> None:
    require("java")
    topic = await new_topic(broker)
    for client_id, quota in (("slow-p", "producer_byte_rate"), ("slow-c", "consumer_byte_rate")):
        await limit(broker, client_id, **{quota: RATE})
    rate = ("--num-records", "130", "--record-size", "10000", "--throughput", "-1", "--print-metrics")
    props = ("--producer-props", f"bootstrap.servers={broker}", "client.id=slow-p", "batch.size=1")
    assert metric(kafka_tool(PRODUCER, "--topic", topic, *rate, *props), "produce-throttle-time-max") > 0
    said = kafka_tool(
        *(CONSUMER, "--bootstrap-server", broker, "--topic", topic, "--num-records", "130", "--print-metrics"),
        *("--command-property", "client.id=slow-c", "--command-property", "max.partition.fetch.bytes=50000"),
        *("--timeout", "60000"),
    )
    assert metric(said, "fetch-throttle-time-max") > 0


def metric(said: str, name: str) -> float:
    """The largest value of a metric that one of Kafka's tools has printed."""
    lines = [line for line in said.splitlines() if f":{name}:" in line]
    assert lines, said[-2000:]
    return max(float(line.rpartition(":")[2]) for line in lines)
