"""What the metrics of three brokers tell: leaders, replicas in sync, the controller, and a broker that was killed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from odradek.client import Admin, NewTopic
from odradek.tests.support.brokers.http import get
from odradek.tests.support.brokers.process import free_port
from odradek.tests.support.clusters.cluster import ClusterProcesses
from odradek.tests.support.clusters.zookeeper import ZooKeeperProcess
from prometheus_client.parser import text_string_to_metric_families

WITHIN_S = 60
# On both pages, under both names.
NAMES = {
    "odradek_active_controller": "kafka_controller_kafkacontroller_activecontrollercount",
    "odradek_leaders": "kafka_server_replicamanager_leadercount",
    "odradek_partitions": "kafka_server_replicamanager_partitioncount",
    "odradek_partitions_offline": "kafka_server_replicamanager_offlinereplicacount",
    "odradek_partitions_under_replicated": "kafka_server_replicamanager_underreplicatedpartitions",
    "odradek_partitions_under_min_isr": "kafka_server_replicamanager_underminisrpartitioncount",
}
Numbers = dict[str, list[float]]


class Scraped:
    """Three brokers and their pages."""

    def __init__(self, processes: ClusterProcesses, ports: dict[int, int]) -> None:
        self.processes = processes
        self.ports = ports

    async def numbers(self, path: str) -> Numbers:
        """Return each metric of the brokers that run, by its own name, as a page has it."""
        found: Numbers = {name: [] for name in NAMES}
        for number, broker in self.processes.brokers.items():
            if not broker.is_running:
                continue
            text = (await get(f"127.0.0.1:{self.ports[number]}", path)).text
            samples = {each.name: each.samples for each in text_string_to_metric_families(text)}
            for name, kafka in NAMES.items():
                (one,) = samples[kafka if path == "/metrics/kafka" else name]
                found[name].append(one.value)
        return found

    async def until(self, holds: Callable[[Numbers], bool]) -> Numbers:
        """Wait until something holds on both pages."""
        async with asyncio.timeout(WITHIN_S):
            while not (holds(found := await self.numbers("/metrics")) and holds(await self.numbers("/metrics/kafka"))):
                await asyncio.sleep(0.05)
        return found


@pytest.fixture
def scraped(tmp_path: Path, ensemble: ZooKeeperProcess) -> Iterator[Scraped]:
    processes = ClusterProcesses(tmp_path, ensemble, tmp_path.name, ())
    ports = {number: free_port() for number in (1, 2, 3)}
    processes.brokers = {
        number: processes.broker(tmp_path / f"broker-{number}", number, http_listener=port)
        for number, port in ports.items()
    }
    try:
        processes.start()
        yield Scraped(processes, ports)
    finally:
        processes.close()


async def test_a_kill_is_seen_in_replicas_leaders_and_the_controller(scraped: Scraped) -> None:
    processes = scraped.processes
    async with Admin(processes.addresses) as admin:
        await admin.create_topics([NewTopic("t", 3, 3), NewTopic("loose", 1, 3, {"min.insync.replicas": "1"})])
        found = await scraped.until(lambda each: sum(each["odradek_leaders"]) == 4 == min(each["odradek_partitions"]))
        assert sum(found["odradek_active_controller"]) == 1
        assert found["odradek_partitions"] == [4, 4, 4] and found["odradek_partitions_offline"] == [0, 0, 0]
        assert sum(found["odradek_partitions_under_replicated"]) == sum(found["odradek_partitions_under_min_isr"]) == 0
        controller = (await admin.describe_cluster()).controller_id
        processes.brokers[controller].kill()
        # Each of the two others has its replicas, and one of them is the controller.
        found = await scraped.until(
            lambda each: sum(each["odradek_leaders"]) == sum(each["odradek_partitions_under_replicated"]) == 4
        )
        assert len(found["odradek_leaders"]) == 2
        await scraped.until(lambda each: sum(each["odradek_active_controller"]) == 1)
        (other,) = [each for each in processes.brokers if each != controller][:1]
        processes.brokers[other].kill()
        # What needs two replicas in sync rejects acks=all, what needs one does not.
        found = await scraped.until(lambda each: each["odradek_partitions_under_min_isr"] == [3])
        await scraped.until(lambda each: each["odradek_active_controller"] == [1])
        for number in (controller, other):
            processes.brokers[number].start()
        found = await scraped.until(lambda each: sum(each["odradek_partitions_under_replicated"]) == 0)
        assert sum(found["odradek_partitions_under_min_isr"]) == 0
