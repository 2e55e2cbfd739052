"""The machine of a leader, event by event: its high watermark and the changes of the ISR that it asks for."""

from __future__ import annotations

from odradek.broker.replication.leadership import IsrChange, Leadership, Role

LAG_MS = 1000


def leadership(isr: tuple[int, ...] = (1, 2, 3), min_isr: int = 1, end: int = 10, mark: int = 8) -> Leadership:
    role = Role(1, 5, isr, 20, (1, 2, 3))
    return Leadership(1, role, end, mark, min_isr, LAG_MS, now_ms=0)


def test_the_high_watermark_is_the_least_that_the_isr_has() -> None:
    leader = leadership()
    assert leader.high_watermark == 8
    leader.fetched(2, 10, 1)
    assert leader.high_watermark == 8
    leader.fetched(3, 9, 1)
    assert leader.high_watermark == 9
    assert leader.appended(12) == 9
    leader.fetched(3, 12, 2)
    assert leader.high_watermark == 10


def test_a_leader_alone_commits_what_it_appends() -> None:
    leader = leadership(isr=(1,))
    assert leader.high_watermark == 10
    assert leader.appended(11) == 11


def test_under_the_minimum_nothing_is_committed() -> None:
    leader = leadership(isr=(1,), min_isr=2)
    assert leader.is_under_min_isr
    assert leader.appended(11) == 8
    leader.configured(1, LAG_MS)
    assert leader.high_watermark == 11
    # More than there are replicas cannot be asked for.
    leader.configured(9, LAG_MS)
    assert leader.effective_min_isr == 3


def test_a_follower_joins_once_it_has_what_is_committed_and_the_epochs_beginning() -> None:
    leader = leadership(isr=(1, 2))
    leader.fetched(2, 10, 1)
    assert leader.fetched(3, 9, 1) is None
    assert leader.fetched(3, 10, 1) == IsrChange(5, 20, (1, 2, 3))
    # Only one change is under way.
    assert leader.fetched(3, 10, 1) is None


def test_until_the_answer_both_isrs_count() -> None:
    leader = leadership(isr=(1, 2))
    leader.fetched(2, 10, 1)
    leader.fetched(3, 10, 1)
    leader.appended(12)
    leader.fetched(2, 12, 2)
    assert leader.high_watermark == 10
    leader.confirmed((1, 2, 3), 21)
    assert (leader.isr, leader.pending, leader.high_watermark) == ((1, 2, 3), None, 10)


def test_a_follower_leaves_when_it_has_lagged_for_too_long() -> None:
    leader = leadership()
    leader.fetched(2, 10, 900)
    leader.fetched(3, 9, 900)
    assert leader.tick(LAG_MS) is None
    assert leader.tick(LAG_MS + 1) == IsrChange(5, 20, (1, 2))
    # It still counts.
    assert leader.high_watermark == 9
    leader.confirmed((1, 2), 21)
    assert leader.high_watermark == 10


def test_a_follower_that_keeps_up_with_a_busy_leader_stays() -> None:
    leader = leadership()
    for now_ms in range(0, 10 * LAG_MS, 100):
        leader.appended(leader.log_end_offset + 5)
        # Each time it has what was there at its last fetch.
        leader.fetched(2, leader.log_end_offset - 5, now_ms)
        leader.fetched(3, leader.log_end_offset - 5, now_ms)
        assert leader.tick(now_ms) is None


def test_an_older_answer_changes_nothing() -> None:
    leader = leadership()
    assert not leader.confirmed((1,), 19)
    assert leader.isr == (1, 2, 3)


def test_an_answer_that_comes_again_leaves_the_next_change_under_way() -> None:
    leader = leadership(isr=(1, 2))
    leader.fetched(2, 10, 1)
    leader.confirmed((1, 2), 21)
    change = leader.fetched(3, 10, 1)
    leader.confirmed((1, 2), 21)
    assert leader.pending == change
    leader.appended(12)
    leader.fetched(2, 12, 2)
    assert leader.high_watermark == 10


def test_a_rejected_change_no_longer_counts() -> None:
    leader = leadership(isr=(1, 2))
    leader.fetched(2, 10, 1)
    change = leader.fetched(3, 10, 1)
    assert change is not None
    leader.appended(12)
    leader.fetched(2, 12, 2)
    leader.rejected(change, 3)
    assert leader.high_watermark == 12


def test_a_change_that_was_asked_for_twice_counts_on_after_a_rejection() -> None:
    leader = leadership(isr=(1, 2))
    leader.fetched(2, 10, 1)
    change = leader.fetched(3, 10, 1)
    assert change is not None
    leader.repeated(change)
    leader.appended(12)
    leader.fetched(2, 12, 2)
    leader.rejected(change, 3)
    # The first request may still reach the controller, and 3 the ISR.
    assert leader.high_watermark == 10
    leader.tick(3 + LAG_MS)
    assert leader.high_watermark == 12


def test_a_reassignment_brings_new_followers_and_takes_others() -> None:
    leader = leadership()
    leader.fetched(2, 10, 1)
    leader.updated(Role(1, 5, (1, 2), 22, (1, 2, 4)), 5)
    assert set(leader.followers) == {2, 4}
    assert leader.isr == (1, 2)
    assert leader.fetched(4, 10, 6) == IsrChange(5, 22, (1, 2, 4))


def test_readers_have_the_offset_and_are_in_the_isr() -> None:
    leader = leadership(isr=(1, 2, 3))
    leader.fetched(2, 9, 1)
    leader.fetched(3, 10, 1)
    assert leader.readers(9) == [3, 2]
    assert leader.readers(10) == [3]
