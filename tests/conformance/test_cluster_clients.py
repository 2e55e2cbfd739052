"""Other people's clients over three brokers that are killed and come back: librdkafka, kafka-python, Java, kcat.

Each client writes numbers with acks=all and reads them in a group while brokers go. Java needs Kafka 3.9.1's jars.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from odradek.tests.support.clusters.cluster import ClusterProcesses, cluster_processes
from odradek.tests.support.clusters.zookeeper import why_missing

pytestmark = [
    pytest.mark.skipif(bool(why_missing()), reason=why_missing() or "ZooKeeper is here"),
    # The collector may come earlier, too.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

COUNT = 300
WAIT_S = 120


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with cluster_processes(tmp_path_factory.mktemp("cluster")) as running:
        yield running
    # kafka-python leaves sockets of brokers that were killed to the collector. Its log lines keep them until here.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def create(cluster: ClusterProcesses, topic: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": cluster.addresses})
    admin.create_topics([NewTopic(topic, 3, 3)])[topic].result(WAIT_S)


def restart(cluster: ClusterProcesses, number: int) -> None:
    """Kill a broker, and start it again once the others have taken over."""
    cluster.brokers[number].kill()
    time.sleep(3)
    cluster.brokers[number].start()


def with_librdkafka(cluster: ClusterProcesses, topic: str, restarts: Callable[[int], None]) -> list[int]:
    from confluent_kafka import Consumer, Producer

    base: dict[str, Any] = {"bootstrap.servers": cluster.addresses, "log_level": 0}
    producer = Producer({**base, "enable.idempotence": True})
    for number in range(COUNT):
        producer.produce(topic, str(number))
        restarts(number)
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer({**base, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[int] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < COUNT and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append(int(message.value() or b""))
            restarts(COUNT + len(found))
    consumer.close()
    return found


def with_kafka_python(cluster: ClusterProcesses, topic: str, restarts: Callable[[int], None]) -> list[int]:
    kafka = pytest.importorskip("kafka", reason="kafka-python is not installed")
    servers = cluster.addresses.split(",")
    producer = kafka.KafkaProducer(bootstrap_servers=servers, acks="all", retries=1000)
    for number in range(COUNT):
        producer.send(topic, str(number).encode())
        restarts(number)
    producer.flush(WAIT_S)
    producer.close()
    consumer = kafka.KafkaConsumer(topic, bootstrap_servers=servers, group_id=topic, auto_offset_reset="earliest")
    found: list[int] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < COUNT and time.monotonic() < deadline:
        for messages in consumer.poll(1000, max_records=50).values():
            for message in messages:
                found.append(int(message.value))
                restarts(COUNT + len(found))
    consumer.close()
    return found


def java(cluster: ClusterProcesses, tool: str, *arguments: str) -> list[dict[str, Any]]:
    """Run a tool of Kafka that prints JSON lines."""
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{os.environ['KAFKA39_LIB']}/*"]
    command += [f"org.apache.kafka.tools.{tool}", "--bootstrap-server", cluster.addresses, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_S)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def with_java(cluster: ClusterProcesses, topic: str, restarts: Callable[[int], None]) -> list[int]:
    if not os.environ.get("KAFKA39_LIB"):
        pytest.skip("set KAFKA39_LIB to a folder with the jars of Kafka 3.9.1")
    sent = java(cluster, "VerifiableProducer", "--topic", topic, "--max-messages", str(COUNT), "--acks", "-1")
    assert sum(each["name"] == "producer_send_success" for each in sent) == COUNT
    restarts(COUNT)
    group = ("--group-id", topic, "--max-messages", str(COUNT), "--verbose", "--reset-policy", "earliest")
    read = java(cluster, "VerifiableConsumer", "--topic", topic, *group)
    return [int(each["value"]) for each in read if each["name"] == "record_data"]


@pytest.mark.parametrize("client", [with_librdkafka, with_kafka_python, with_java])
def test_a_client_goes_on_when_brokers_are_restarted(
    cluster: ClusterProcesses, client: Callable[..., list[int]]
) -> None:
    topic = client.__name__
    create(cluster, topic)
    # While it writes, and while it reads.
    due = {COUNT // 2: 1, COUNT + 1: 2, COUNT: 3 if client is with_java else 0}

    def restarts(at: int) -> None:
        number = due.pop(at, 0)
        if number:
            restart(cluster, number)

    found = client(cluster, topic, restarts)
    assert sorted(set(found)) == list(range(COUNT))


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_kcat_lists_brokers_leaders_and_replicas(cluster: ClusterProcesses) -> None:
    create(cluster, "listed")
    deadline = time.monotonic() + WAIT_S
    while True:
        command = ["kcat", "-b", cluster.addresses, "-L", "-J", "-t", "listed"]
        found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=WAIT_S).stdout)
        partitions = found["topics"][0]["partitions"]
        if len(partitions) == 3 and all(len(each["isrs"]) == 3 for each in partitions):
            break
        assert time.monotonic() < deadline, found
        time.sleep(0.2)
    addresses = {each["id"]: each["name"] for each in found["brokers"]}
    assert addresses == {number: each.address for number, each in cluster.brokers.items()}
    assert found["controllerid"] in addresses
    for each in partitions:
        assert {replica["id"] for replica in each["replicas"]} == {1, 2, 3}
        assert each["leader"] in addresses
