"""Clusters of Apache Kafka 3.9.1 and Odradek: each leads, follows and controls beside the other.

The same faults go over three Kafkas, so that the test itself is known to ask for nothing that Kafka does not promise.

Needs Java and the jars of Kafka 3.9.1 (KAFKA39_LIB).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic
from odradek.tests.support.clusters.cluster import cluster_processes
from odradek.tests.support.clusters.cluster_chaos import (
    PARTITIONS,
    TOPIC,
    WAIT_S,
    Chaos,
    Load,
    check,
    check_replicas,
    read_all,
)
from odradek.tests.support.clusters.zookeeper import why_missing

WITHOUT_JARS = why_missing() or ("" if os.environ.get("KAFKA39_LIB") else "set KAFKA39_LIB")
pytestmark = pytest.mark.skipif(bool(WITHOUT_JARS), reason=WITHOUT_JARS)


class Turns(Chaos):
    """Kills each broker in turn, so that each role passes through every broker."""

    def take_turns(self) -> None:
        self.admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(WAIT_S)
        load = Load(self.cluster.addresses)
        load.start()
        for number in (1, 2, 3):
            self.wait_for_progress(load)
            self.faults.append(f"kill {number}")
            self.cluster.brokers[number].kill()
            self.wait_for_progress(load)
            self.cluster.brokers[number].start()
            self._wait_until_whole()
        history = load.finish()
        check(history, read_all(self.cluster.addresses))
        check_replicas([each.data_dir for each in self.cluster.brokers.values()])

    def wait_for_progress(self, load: Load) -> None:
        """Wait until more records of every partition are acknowledged."""
        before = [len(each) for each in load.history.acknowledged]
        self._wait(
            f"nothing is acknowledged any more ({load.history.errors[:3]})",
            lambda: all(len(now) > then for now, then in zip(load.history.acknowledged, before, strict=True)),
        )


@pytest.mark.parametrize("kafka", [(3,), (1, 2), (1, 2, 3)], ids=["two-and-one", "one-and-two", "kafka-alone"])
def test_each_leads_and_follows_the_other(tmp_path: Path, kafka: tuple[int, ...]) -> None:
    with cluster_processes(tmp_path, kafka=kafka) as cluster:
        Turns(cluster).take_turns()
