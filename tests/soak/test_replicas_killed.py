"""Three brokers as processes and a ZooKeeper: brokers are killed under load, and no acknowledged record is lost.

The producer is librdkafka's, idempotent, with acks=all. In the end every acknowledged record is there once, in the
order of its key, where it was acknowledged, and the logs of all replicas are equal to the byte.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from threading import Event, Thread

import pytest
from odradek.tests.support.clusters.cluster import ClusterProcesses, cluster_processes
from odradek.tests.support.clusters.zookeeper import why_missing

confluent_kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
admin = pytest.importorskip("confluent_kafka.admin", reason="confluent-kafka is not installed")

pytestmark = pytest.mark.skipif(bool(why_missing()), reason=why_missing() or "ZooKeeper is here")

PARTITIONS = 3
KEYS = 7
KILLS = 3
SETTLED_WITHIN_S = 60


class Load:
    """Numbered records, sent until `stop`."""

    def __init__(self, bootstrap: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 2}
        self.producer = confluent_kafka.Producer({**settings, "message.timeout.ms": 120_000})
        # Record number -> (partition, offset).
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self.errors: list[str] = []
        self.stop = Event()
        self.thread = Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        number = 0
        while not self.stop.wait(0.002):
            self.producer.produce("t", value=str(number), key=str(number % KEYS), on_delivery=self._note)
            self.producer.poll(0)
            number += 1

    def _note(self, error: object, message: object) -> None:
        if error is not None:
            self.errors.append(str(error))
        else:
            self.acknowledged[int(message.value())] = message.partition(), message.offset()  # type: ignore[attr-defined]

    def finish(self) -> None:
        self.stop.set()
        self.thread.join()
        assert self.producer.flush(SETTLED_WITHIN_S) == 0


def consumed(bootstrap: str, count: int) -> list[tuple[bytes, int, tuple[int, int]]]:
    """Key, number and place of each record, partition by partition in order; at least `count`."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    consumer.assign([confluent_kafka.TopicPartition("t", index, 0) for index in range(PARTITIONS)])
    found: list[tuple[bytes, int, tuple[int, int]]] = []
    quiet = 0
    while quiet < 3 or len(found) < count:
        message = consumer.poll(1.0)
        quiet = quiet + 1 if message is None else 0
        assert quiet < SETTLED_WITHIN_S, f"{len(found)} of {count} acknowledged records can be read"
        if message is not None and message.error() is None:
            found.append((message.key(), int(message.value()), (message.partition(), message.offset())))
    consumer.close()
    return found


def logs(cluster: ClusterProcesses, index: int) -> set[bytes]:
    """The bytes of one partition, from each broker."""
    folders = [broker.data_dir / f"t-{index}" for broker in cluster.brokers.values()]
    return {b"".join(path.read_bytes() for path in sorted(folder.glob("*.log"))) for folder in folders}


@pytest.mark.parametrize("seed", range(5))
def test_acknowledged_records_outlive_killed_brokers(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with cluster_processes(tmp_path) as cluster:
        client = admin.AdminClient({"bootstrap.servers": cluster.addresses})
        for made in client.create_topics([admin.NewTopic("t", PARTITIONS, 3)]).values():
            made.result(SETTLED_WITHIN_S)
        load = Load(cluster.addresses)
        for _ in range(KILLS):
            time.sleep(chance.uniform(1, 3))
            victim = chance.choice(list(cluster.brokers.values()))
            victim.kill()
            # Sometimes it is back before anybody has missed it.
            time.sleep(chance.choice([0, 1, 5]))
            victim.start()
            time.sleep(chance.uniform(1, 3))
        load.finish()
        assert not load.errors
        found = consumed(cluster.addresses, len(load.acknowledged))
        places = {number: place for _, number, place in found}
        assert len(places) == len(found)
        assert {number: places.get(number) for number in load.acknowledged} == load.acknowledged
        by_key: dict[bytes, list[int]] = {}
        for key, number, _ in found:
            by_key.setdefault(key, []).append(number)
        assert all(numbers == sorted(numbers) for numbers in by_key.values())
        deadline = time.monotonic() + SETTLED_WITHIN_S
        while any(len(logs(cluster, index)) > 1 for index in range(PARTITIONS)) and time.monotonic() < deadline:
            time.sleep(0.5)
        assert [len(logs(cluster, index)) for index in range(PARTITIONS)] == [1] * PARTITIONS
