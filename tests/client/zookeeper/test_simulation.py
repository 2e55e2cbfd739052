"""Groups in ZooKeeper under faults, by seed: one reader a partition, no record skipped, work goes on by itself."""

from __future__ import annotations

import pytest
from odradek.client import TopicPartition
from odradek.client.zookeeper.offsets import store_offsets
from odradek.client.zookeeper.registry import Subscription
from odradek.tests.support.seeds import seeds
from odradek.tests.support.simulations.registry_simulation import Simulation, begin, live_through_faults

BOTH = Subscription({"a": 1, "b": 1})


def group_of(seed: int, members: int = 1) -> Simulation:
    """Return a group whose members host:0, host:1... have begun to read a and b."""
    simulation = begin(seed)
    for number in range(members):
        simulation.start(f"host:{number}", BOTH)
    return simulation


def check_all_are_read(simulation: Simulation) -> None:
    simulation.settle()
    simulation.check_history()
    simulation.check_complete({"a": 7, "b": 4})


@pytest.mark.parametrize("seed", seeds(range(6), range(1_000, 3_000)))
def test_no_partition_has_two_owners_and_no_record_is_skipped_whatever_happens(seed: int) -> None:
    live_through_faults(seed)


# A member of two makes so many requests from its start until it has its part, and more where it must retry.
REQUESTS = 18


@pytest.mark.parametrize("member", ["host:0", "host:1"], ids=["of a member", "of the one that joins"])
@pytest.mark.parametrize("is_sent_again", [False, True])
def test_a_session_may_expire_before_each_request_of_the_rebalance(is_sent_again: bool, member: str) -> None:
    for request in range(REQUESTS):
        simulation = group_of(request)
        simulation.settle()
        simulation.run(500)
        simulation.expiry = (member, request, is_sent_again)
        simulation.start("host:1", BOTH)
        simulation.settle()
        assert member == "host:0" or simulation.expiry is None, f"there is no request {request}"
        check_all_are_read(simulation)


def test_a_group_whose_attempts_have_all_failed_tries_again_by_itself() -> None:
    simulation = begin(1)
    simulation.failing_loads = 9
    simulation.start("host:0", BOTH)
    simulation.settle()
    assert simulation.reports == 2
    simulation.check_complete({"a": 7, "b": 4})


def test_a_dead_member_holds_its_partitions_until_its_session_ends_and_the_others_retry_until_then() -> None:
    simulation = group_of(2, 3)
    simulation.settle()
    simulation.kill("host:1")
    simulation.run(1)
    assert len(simulation.zookeeper.children_of("/consumers/g/ids")) == 3
    check_all_are_read(simulation)


def test_a_member_that_leaves_has_committed_and_given_everything_back() -> None:
    simulation = group_of(3)
    simulation.settle()
    simulation.run(1000)
    simulation.stop("host:0")
    simulation.settle()
    assert simulation.zookeeper.children_of("/consumers/g/ids") == []
    assert simulation.zookeeper.children_of("/consumers/g/owners/a") == []
    for place, offset in simulation.consumed.items():
        assert simulation.zookeeper.get(f"/consumers/g/offsets/{place.topic}/{place.partition}") == b"%d" % offset


def test_a_consumer_whose_znode_an_operator_removes_registers_again() -> None:
    simulation = group_of(4)
    simulation.settle()
    simulation.zookeeper.delete_by_hand("/consumers/g/ids/host:0")
    simulation.settle()
    assert simulation.zookeeper.children_of("/consumers/g/ids") == ["host:0"]
    simulation.check_complete({"a": 7, "b": 4})


def test_zookeeper_may_be_away_for_long_and_work_goes_on_by_itself() -> None:
    simulation = group_of(5, 3)
    simulation.run(30)
    simulation.stop_zookeeper(5_000)
    simulation.run(1_000)
    simulation.expire("host:1")
    check_all_are_read(simulation)


def test_a_consumer_that_starts_again_under_its_name_waits_for_the_end_of_its_old_session() -> None:
    simulation = group_of(6)
    simulation.settle()
    simulation.kill("host:0")
    simulation.start("host:0", BOTH)
    check_all_are_read(simulation)


def test_offsets_are_not_written_for_a_consumer_that_is_not_registered() -> None:
    simulation = begin(7)
    session = simulation.zookeeper.connect()
    simulation.zookeeper.make("/consumers/g/offsets")
    place = TopicPartition("a", 0)

    def store(member: str) -> bool:
        steps, result = store_offsets("g", member, {place: 5}), None
        while True:
            try:
                result = simulation.zookeeper.run(session, steps.send(result))
            except StopIteration as end:
                return end.value

    assert not store("/consumers/g/ids/gone")
    assert simulation.zookeeper.get("/consumers/g/offsets/a/0") is None
    simulation.zookeeper.make("/consumers/g/ids/host:0")
    assert store("/consumers/g/ids/host:0")
    assert simulation.zookeeper.get("/consumers/g/offsets/a/0") == b"5"
