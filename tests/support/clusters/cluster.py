"""Several brokers as processes and the ZooKeeper that holds them together."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from odradek.tests.support.brokers.lines import Lines
from odradek.tests.support.brokers.process import BrokerProcess, free_port
from odradek.tests.support.clusters import skewed_broker
from odradek.tests.support.clusters.kafka39 import Kafka39Process
from odradek.tests.support.clusters.links import ZOOKEEPER, Links
from odradek.tests.support.clusters.zookeeper import ZooKeeperProcess, zookeeper

# What a broker of a test has: quick to notice the death of another.
SETTINGS: dict[str, object] = {
    "zookeeper_session_timeout_ms": 2000,
    # A start on a machine that does much else may take longer than a session.
    "zookeeper_connection_timeout_ms": 30_000,
    "default_replication_factor": 3,
    "min_insync_replicas": 2,
    "offsets_topic_num_partitions": 3,
    "transaction_state_log_num_partitions": 3,
    "group_initial_rebalance_delay_ms": 0,
    "replica_lag_time_max_ms": 2000,
    "replica_fetch_backoff_ms": 100,
    "controlled_shutdown_retry_backoff_ms": 100,
    "log_segment_delete_delay_ms": 100,
}


class ClusterBroker(BrokerProcess):
    """A broker that waits at its start for its own last session to expire, and for a controller."""

    ready_within_s = 60.0


class LinkedBroker(ClusterBroker):
    """A broker that other brokers, and it ZooKeeper, reach through gates; clients connect to it directly."""

    def __init__(self, number: int, links: Links, ensemble: ZooKeeperProcess, folder: Path, **settings: object) -> None:
        inner, outer = free_port(), free_port()
        connect = str(settings["zookeeper_connect"]).partition("/")[2]
        links_to = links.gate(number, inner)
        wires = {
            "zookeeper_connect": f"127.0.0.1:{links.gate(ZOOKEEPER, ensemble.port, number)}/{connect}",
            "listeners": f"INNER://127.0.0.1:{inner},PLAINTEXT://127.0.0.1:{outer}",
            "advertised_listeners": f"INNER://127.0.0.1:{links_to},PLAINTEXT://127.0.0.1:{outer}",
            "listener_security_protocol_map": "INNER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        }
        super().__init__(folder, **{**settings, **wires})
        self.address = self._outer = f"127.0.0.1:{outer}"

    def command(self) -> list[str]:
        command = super().command()
        at = command.index("--listen")
        return command[:at] + command[at + 2 :]

    def wait_until_ready(self, process: subprocess.Popen[str], lines: Lines) -> str:
        super().wait_until_ready(process, lines)
        return self._outer


class ClusterProcesses:
    """Brokers by number, in one cluster. With `links` there is a proxy on each wire between them."""

    def __init__(
        self,
        folder: Path,
        ensemble: ZooKeeperProcess,
        chroot: str,
        numbers: Iterable[int],
        links: Links | None = None,
        program: list[str] | None = None,
        kafka: Iterable[int] = (),
        skews_ms: Mapping[int, int] | None = None,
    ) -> None:
        """`program` is what Python runs in the place of the broker, such as one with a planted bug.

        `skews_ms` is how far the clocks of brokers are ahead. The brokers `kafka` are Apache Kafka 3.9.1.
        """
        self._kafka = set(kafka)
        self.ensemble = ensemble
        self.links = links
        self.connect = f"{ensemble.address}/{chroot}"
        self.brokers = {number: self.broker(folder / f"broker-{number}", number) for number in numbers}
        for each in self.brokers.values():
            if program is not None:
                each.program = lambda: program  # type: ignore[method-assign]
        for number, ahead_ms in (skews_ms or {}).items():
            self.brokers[number].program = partial(skewed_broker.program, ahead_ms)  # type: ignore[method-assign]

    def broker(self, folder: Path, number: int | None, **settings: object) -> BrokerProcess:
        """Return a broker of this cluster, not started."""
        folder.mkdir(parents=True, exist_ok=True)
        own = {} if number is None else {"broker_id": number, "broker_rack": f"r{number}"}
        # The underscore keeps Kafka's names apart from Python's.
        given = {"zookeeper_connect": self.connect, **SETTINGS, **own, **settings}
        if number in self._kafka:
            return Kafka39Process(folder, **given)
        if self.links is not None and number is not None:
            return LinkedBroker(number, self.links, self.ensemble, folder, **given)
        return ClusterBroker(folder, **given)

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
def linked_processes(
    folder: Path, program: list[str] | None = None, skews_ms: Mapping[int, int] | None = None
) -> Iterator[ClusterProcesses]:
    """Yield a running cluster of three with a proxy on every wire."""
    with zookeeper(folder / "zookeeper") as ensemble, Links() as links:
        cluster = ClusterProcesses(folder, ensemble, "kafka", (1, 2, 3), links, program, skews_ms=skews_ms)
        try:
            yield cluster.start()
        finally:
            cluster.close()


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
