"""Measure three brokers with ZooKeeper, and three of Apache Kafka 3.9.1 where KAFKA39_LIB names its jars.

    python -m benchmarks.cluster             both in turn
    python -m benchmarks.cluster --mb 50     how much is written

Replication factor 3, acks=all, min.insync.replicas=2, clients of librdkafka but for the failover. All brokers and the
client share this machine, so that the figures compare two clusters and say little of either alone.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from odradek.client import Producer as AsyncProducer
from odradek.tests.support.clusters.cluster import ClusterProcesses, cluster_processes

PARTITIONS = 6
WAIT_S = 120.0
VALUE = b"x" * 1000
LATENCIES = 1000
FAILOVERS = 5


class Measurement:
    """One cluster and its topic."""

    def __init__(self, cluster: ClusterProcesses, megabytes: int) -> None:
        self.cluster = cluster
        self.count = megabytes * 1000
        self.settings = {"bootstrap.servers": cluster.addresses, "acks": "all", "log_level": 0}
        self.admin = AdminClient({"bootstrap.servers": cluster.addresses, "log_level": 0})
        self.admin.create_topics([NewTopic("bench", PARTITIONS, 3)])["bench"].result(WAIT_S)
        self._until(self._is_whole)

    def figures(self) -> dict[str, float]:
        """Return every figure by its name."""
        self._write()
        found = {"throughput, MB/s": self.count / 1000 / self._write()}
        median, slow = self._latencies()
        found |= {"latency, median ms": median, "latency, p99 ms": slow}
        found |= self._failover()
        found["catch-up of a follower, MB/s"] = self._catch_up()
        return found

    def _write(self) -> float:
        """Return how many seconds `count` records take."""
        producer = Producer({**self.settings, "linger.ms": 5, "batch.size": 500_000})
        began = time.monotonic()
        for number in range(self.count):
            while True:
                try:
                    producer.produce("bench", VALUE, partition=number % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.05)
        assert producer.flush(WAIT_S) == 0
        return time.monotonic() - began

    def _latencies(self) -> tuple[float, float]:
        """Return median and 99th percentile of single records, in milliseconds."""
        producer = Producer({**self.settings, "linger.ms": 0})
        took: list[float] = []
        for number in range(LATENCIES):
            began = time.monotonic()
            producer.produce("bench", VALUE[:100], partition=number % PARTITIONS)
            assert producer.flush(WAIT_S) == 0
            took.append((time.monotonic() - began) * 1000)
        return statistics.median(took), statistics.quantiles(took, n=100)[98]

    def _failover(self) -> dict[str, float]:
        """Return the medians of some failovers, and what remains of them without the wait for ZooKeeper.

        ZooKeeper ends the session of a killed broker up to half a second late, by chance, whatever the brokers do.
        """
        found = [asyncio.run(self._fail_over()) for _ in range(FAILOVERS)]
        return {
            "failover, s from kill -9 to the first write": statistics.median(whole for whole, _ in found),
            "failover, s from the session's end to the first write": statistics.median(rest for _, rest in found),
        }

    async def _fail_over(self) -> tuple[float, float]:
        """Kill a leader; return the seconds to the first write since then, and since ZooKeeper has ended its session.

        The client asks for the leader every 20 ms. librdkafka does once a second, which would hide what brokers take.
        """
        leader = self._partitions()[0].leader
        ended: list[float] = []
        zookeeper = KazooClient(self.cluster.connect)
        zookeeper.start()
        zookeeper.exists(f"/brokers/ids/{leader}", watch=lambda _: ended.append(time.monotonic()))
        pace = {"retry_backoff_ms": 20, "retry_backoff_max_ms": 20}
        async with AsyncProducer(self.cluster.addresses, acks="all", **pace) as producer:
            await producer.send_and_wait("bench", VALUE, partition=0)
            self.cluster.brokers[leader].kill()
            began = time.monotonic()
            await producer.send_and_wait("bench", VALUE, partition=0)
            done = time.monotonic()
        zookeeper.stop()
        zookeeper.close()
        self.cluster.brokers[leader].start()
        self._until(self._is_whole)
        return done - began, done - ended[0]

    def _catch_up(self) -> float:
        """Return MB/s at which a follower gets what was written without it."""
        self.cluster.brokers[3].stop()
        self._write()
        self.cluster.brokers[3].start()
        began = time.monotonic()
        self._until(self._is_whole)
        return self.count / 1000 / (time.monotonic() - began)

    def _partitions(self) -> dict[int, Any]:
        return self.admin.list_topics("bench", timeout=30).topics["bench"].partitions

    def _is_whole(self) -> bool:
        return all(len(each.isrs) == 3 for each in self._partitions().values())

    def _until(self, is_true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not is_true():
            assert time.monotonic() < deadline, "the replicas do not get in sync"
            time.sleep(0.02)


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=100, help="megabytes of one write")
    megabytes = parser.parse_args().mb
    found: dict[str, dict[str, float]] = {}
    kinds: dict[str, tuple[int, ...]] = {"Odradek": ()}
    if os.environ.get("KAFKA39_LIB"):
        kinds["Kafka 3.9.1"] = (1, 2, 3)
    for name, kafka in kinds.items():
        with tempfile.TemporaryDirectory(prefix="odradek-bench-") as folder:
            with cluster_processes(Path(folder), kafka=kafka) as cluster:
                found[name] = Measurement(cluster, megabytes).figures()
    for figure in found["Odradek"]:
        print(f"{figure}: " + ", ".join(f"{name} {each[figure]:.2f}" for name, each in found.items()))


if __name__ == "__main__":
    main()
