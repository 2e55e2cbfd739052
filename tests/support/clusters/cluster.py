"""Several brokers as processes and the ZooKeeper that holds them together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from odradek.tests.support.brokers.process import BrokerProcess
from odradek.tests.support.clusters.kafka39 import Kafka39Process
from odradek.tests.support.clusters.zookeeper import ZooKeeperProcess, zookeeper

# What a broker of a test has: quick to notice the death of another.
SETTINGS: dict[str, object] = {
    "zookeeper_session_timeout_ms": 2000,
    # A start on a machine that does much else may take longer than a session.
    "zookeeper_connection_timeout_ms": 30_000,
    "default_replication_factor": 3,
    "min_insync_replicas": 2,
    "group_initial_rebalance_delay_ms": 0,
    "replica_lag_time_max_ms": 2000,
    "replica_fetch_backoff_ms": 100,
    "controlled_shutdown_retry_backoff_ms": 100,
    "log_segment_delete_delay_ms": 100,
}


class ClusterProcesses:
    """Brokers by number, in one cluster. The brokers `kafka` are Apache Kafka 3.9.1."""

    def __init__(
        self, folder: Path, ensemble: ZooKeeperProcess, chroot: str, numbers: Iterable[int], kafka: Iterable[int] = ()
    ) -> None:
        self._kafka = set(kafka)
        self.ensemble = ensemble
        self.connect = f"{ensemble.address}/{chroot}"
        self.brokers = {number: self.broker(folder / f"broker-{number}", number) for number in numbers}

    def broker(self, folder: Path, number: int | None, **settings: object) -> BrokerProcess:
        """Return a broker of this cluster, not started."""
        folder.mkdir(parents=True, exist_ok=True)
        own = {} if number is None else {"broker_id": number, "broker_rack": f"r{number}"}
        # The underscore keeps Kafka's names apart from Python's.
        given = {"zookeeper_connect": self.connect, **SETTINGS, **own, **settings}
        if number in self._kafka:
            return Kafka39Process(folder, **given)
        return BrokerProcess(folder, **given)

    @property
    def addresses(self) -> str:
        """The bootstrap servers."""
        return ",".join(each.address for each in self.brokers.values())

    def start(self) -> ClusterProcesses:
        """Start every broker, all at the same time."""
        with ThreadPoolExecutor(len(self.brokers)) as threads:
            list(threads.map(BrokerProcess.start, self.brokers.values()))
        return self

    def close(self) -> None:
        """End every broker that runs, without a controlled shutdown."""
        for each in self.brokers.values():
            if each.is_running:
                each.kill()


@contextmanager
def cluster_processes(
    folder: Path, chroot: str = "kafka", numbers: Iterable[int] = (1, 2, 3), kafka: Iterable[int] = ()
) -> Iterator[ClusterProcesses]:
    """Yield a running cluster with a ZooKeeper of its own. The brokers `kafka` are Apache Kafka 3.9.1."""
    with zookeeper(folder / "zookeeper") as ensemble:
        cluster = ClusterProcesses(folder, ensemble, chroot, numbers, kafka=kafka)
        try:
            yield cluster.start()
        finally:
            cluster.close()
