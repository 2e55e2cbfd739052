"""A broker that plays an older one: what it offers, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from odradek.client import Producer
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.testing import KafkaCluster, KafkaProcess, LocalKafka
from odradek.testing.errors import Unavailable
from odradek.testing.releases import Release
from odradek.tests.support.raw import Raw

Factory = Callable[..., LocalKafka]
# What brokers and controllers ask each other, which this broker does not offer to clients; and what needs KRaft.
INTERNAL = {4, 5, 6, 7, 55, 56, 58, 64, 67, 80, 81, 83, 84, 85, 86, 87}


@pytest.mark.parametrize("versions", ["0.10.2", "0.11", "1.1", "2.4", "2.8", "3.9", "4.3.1"])
def test_clients_work_with_an_older_broker(kafka_factory: Factory, versions: str) -> None:
    kafka = kafka_factory(versions=versions)
    # Kafka has transactions and idempotent producers since 0.11.
    options = {"bootstrap.servers": kafka.address, "enable.idempotence": versions != "0.10.2"}
    producer = ConfluentProducer(options)
    producer.produce("orders", b"v")
    assert producer.flush(20) == 0
    options = {"bootstrap.servers": kafka.address, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = ConfluentConsumer(options)
    consumer.subscribe(["orders"])
    found: list[Any] = []
    while not found:
        found = consumer.consume(1, 0.1)
    consumer.close()
    assert found[0].value() == b"v"
    assert kafka.members("g") == []


async def test_a_client_takes_versions_that_an_older_broker_serves(kafka_factory: Factory) -> None:
    kafka = kafka_factory(versions="2.8")
    with kafka.requests() as seen:
        async with Producer(kafka.address) as producer:
            await (await producer.send("orders", b"v"))
    release = Release("2.8")
    assert {each.version for each in seen.of("Produce")} == {9}
    assert all(release.serves(ApiKey.METADATA, each.version) for each in seen.of("Metadata"))


async def test_what_an_older_broker_does_not_serve_ends_the_connection(kafka_factory: Factory) -> None:
    kafka = kafka_factory(versions="2.8")
    async with await Raw.connect(kafka.address) as raw:
        assert (await raw.ask(ApiKey.METADATA, 11, MetadataRequest())).brokers
        raw.send(ApiKey.METADATA, 12, MetadataRequest())
        assert await raw.is_closed()


@pytest.mark.parametrize(("versions", "ranges"), [("2.3", []), ("2.8", [(18, 0, 3)])])
async def test_the_versions_of_api_versions_are_named_since_2_4(
    kafka_factory: Factory, versions: str, ranges: list[tuple[int, int, int]]
) -> None:
    kafka = kafka_factory(versions=versions)
    async with await Raw.connect(kafka.address) as raw:
        raw.send(ApiKey.API_VERSIONS, 4, ApiVersionsRequest("x", "1"))
        answer = await raw.receive(ApiKey.API_VERSIONS, 0)
    assert answer.error_code == 35
    assert [(each.api_key, each.min_version, each.max_version) for each in answer.api_keys] == ranges


@pytest.mark.kafka(topics={"orders": 1}, versions="2.8")
async def test_processes_and_clusters_play_an_older_broker(
    kafka_process: KafkaProcess, kafka_cluster: KafkaCluster
) -> None:
    for kafka in (kafka_process, kafka_cluster):
        async with Producer(kafka.address) as producer:
            await (await producer.send("orders", b"v"))
        assert len(kafka.records("orders")) == 1
        async with await Raw.connect(kafka.address.partition(",")[0]) as raw:
            raw.send(ApiKey.METADATA, 12, MetadataRequest())
            assert await raw.is_closed()


def test_features_came_with_kafka_4() -> None:
    assert [Release(each).has_features for each in ("3.9", "4.0")] == [False, True]


def test_an_unknown_release_names_the_nearest(kafka_factory: Factory) -> None:
    with pytest.raises(Unavailable, match=r"no release '2\.88' .*did you mean 2\.8\?"):
        kafka_factory(versions="2.88")


@pytest.mark.parametrize(("folder", "versions"), [("KAFKA39_LIB", "3.9"), ("KAFKA_LIB", "4.3")])
def test_the_table_is_what_kafkas_specifications_say(folder: str, versions: str) -> None:
    if folder not in os.environ:
        pytest.skip(f"{folder} names no jars of Kafka {versions}")
    release, said = Release(versions), served_by(Path(os.environ[folder]))
    differing = {key: (release.versions(key), each) for key, each in said.items() if release.versions(key) != each}
    assert differing == {}


def served_by(folder: Path) -> dict[int, range]:
    """Return the versions of each API of clients, by the specifications in Kafka's jars."""
    (jar,) = folder.glob("kafka-clients-*.jar")
    found: dict[int, range] = {}
    with zipfile.ZipFile(jar) as files:
        for name in files.namelist():
            if not re.fullmatch(r"common/message/\w+Request\.json", name):
                continue
            lines = files.read(name).decode().splitlines()
            said = json.loads("\n".join(line for line in lines if not line.strip().startswith("//")))
            first, _, last = said["validVersions"].partition("-")
            if first == "none":
                continue
            most = int(last or first) - said.get("latestVersionUnstable", False)
            is_for_clients = {"broker", "zkBroker"} & {*said.get("listeners", ())} and said["apiKey"] not in INTERNAL
            if is_for_clients and most >= int(first):
                found[said["apiKey"]] = range(int(first), most + 1)
    return found


def test_a_release_is_a_text() -> None:
    with pytest.raises(Unavailable, match=r"versions is a text: versions='2\.8', not 2\.8"):
        Release(2.8)  # pyright: ignore[reportArgumentType]
