"""The checkers of a cluster's runs find bugs that are planted into its brokers, with the faults that each bug needs."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from odradek.tests.support.clusters.cluster import linked_processes
from odradek.tests.support.clusters.cluster_chaos import TOPIC, Chaos
from odradek.tests.support.clusters.planted_replica_broker import BUGS, program
from odradek.tests.support.clusters.zookeeper import why_missing

pytestmark = pytest.mark.skipif(bool(why_missing()), reason=why_missing() or "ZooKeeper is here")


class Isolation(Chaos):
    """Cuts the leader of a partition from its followers while clients write to it, and kills it."""

    def _do_fault(self) -> None:
        links = self.cluster.links
        assert links is not None
        leader, *followers = self.in_order()
        for each in followers:
            links.cut(leader, each)
        # These records are in no other log, and nobody was promised that they stay.
        producer = Producer({"bootstrap.servers": self.cluster.addresses, "acks": 1, "log_level": 0})
        for _ in range(10):
            producer.produce(TOPIC, str(10**9), partition=0)
        producer.flush(5)
        # Less than replica.lag.time.max.ms: the ISR is what it was.
        time.sleep(0.5)
        self.cluster.brokers[leader].kill()
        links.heal()
        # The next leader takes records at the same offsets.
        time.sleep(4)
        self.cluster.brokers[leader].start()

    def in_order(self) -> list[int]:
        """Return the brokers, the leader of partition 0 first."""
        leader = next(number for number, each in self.cluster.brokers.items() if each is self._broker("leader"))
        return [leader, *(each for each in self.cluster.brokers if each != leader)]


class Starvation(Isolation):
    """Lets a follower fall behind until it leaves the ISR, and kills all others."""

    def _do_fault(self) -> None:
        links = self.cluster.links
        assert links is not None
        leader, other, behind = self.in_order()
        if behind == self.admin.list_topics(timeout=30).controller_id:
            # The leader must reach the controller to change the ISR.
            other, behind = behind, other
        links.cut(leader, behind)
        links.cut(other, behind)
        time.sleep(6)
        for each in (leader, other):
            self.cluster.brokers[each].kill()
        links.heal()
        time.sleep(6)
        for each in (leader, other):
            self.cluster.brokers[each].start()


SCRIPTS = {"early": Isolation, "untruncated": Isolation, "unclean": Starvation}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(tmp_path: Path, bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A follower that never gets in sync again is found, too.
    monkeypatch.setattr("odradek.tests.support.clusters.cluster_chaos.WAIT_S", 30.0)
    with linked_processes(tmp_path, program(bug)) as cluster, pytest.raises(AssertionError):
        SCRIPTS[bug](cluster).run([1], 1)


@pytest.mark.parametrize("script", [Isolation, Starvation])
def test_a_correct_broker_passes_the_same_faults(tmp_path: Path, script: type[Chaos]) -> None:
    with linked_processes(tmp_path) as cluster:
        script(cluster).run([1], 1)
