"""What docs/rebalancing.md says of the herd and of the split brain, counted for small groups."""

from __future__ import annotations

from odradek.benchmarks.rebalancing import at_the_coordinator, in_zookeeper


def test_one_join_fires_a_watch_at_every_consumer_and_the_reads_grow_with_the_square() -> None:
    small, large = in_zookeeper(10, 20, 1), in_zookeeper(50, 20, 1)
    assert (small["watches"], large["watches"]) == (9, 49)
    assert large["reads"] > 8 * small["reads"]


def test_a_join_costs_three_requests_a_member_at_the_coordinator() -> None:
    for size in (5, 20):
        counts = at_the_coordinator(size, 1)
        # The new member needs no heartbeat to learn of the rebalance.
        assert (counts["requests"], counts["generations"]) == (3 * size - 1, 1)


def test_late_watches_make_more_attempts_fail() -> None:
    assert in_zookeeper(20, 5_000, 1)["failed"] > in_zookeeper(20, 0, 1)["failed"]
