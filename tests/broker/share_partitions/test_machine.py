"""The share partition: limits, locks, the two steps of a change, and its start."""

from __future__ import annotations

import pytest
from odradek.broker.coordination.share_states.share_state import StateBatch
from odradek.broker.share_partitions.machine import (
    Acknowledgement,
    AcknowledgeType,
    Acquired,
    Change,
    Limits,
    SharePartition,
    Span,
    Wish,
)
from odradek.broker.share_partitions.stretches import RecordState
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.tests.support.brokers.call_count import calls_of
from odradek.tests.support.histories.share_history import acknowledge

MANY = Limits(lock_ms=1000, max_deliveries=5, max_locks=10_000, may_renew=True)
LIMITS = Limits(lock_ms=1000, max_deliveries=5, max_locks=100, may_renew=True)


def take(
    partition: SharePartition, *spans: Span, member: str = "ann", limits: Limits = LIMITS, **rest: int
) -> list[Acquired]:
    wish = Wish(member, rest.get("records", 500), rest.get("batch_size", 500), bool(rest.get("strict", 0)))
    return partition.acquire(wish, partition.next_fetch_offset(), spans, limits, rest.get("now_ms", 0))


def say(partition: SharePartition, first: int, last: int, kind: AcknowledgeType, member: str = "ann") -> None:
    partition.keep(acknowledge(partition, member, [Acknowledgement(first, last, (kind,))], LIMITS, 0))


def states(partition: SharePartition) -> list[tuple[int, int, RecordState, int]]:
    return [(stretch.first, stretch.last, stretch.state, stretch.delivery_count) for stretch in partition.stretches()]


def test_no_more_records_are_in_flight_than_may_be() -> None:
    limits = LIMITS._replace(max_locks=10)
    partition = SharePartition(0)
    assert take(partition, Span(0, 3), Span(4, 7), Span(8, 15), limits=limits) == [Acquired(0, 15, 1)]
    assert not partition.can_acquire(limits)
    assert take(partition, Span(16, 20), limits=limits) == []
    say(partition, 4, 4, AcknowledgeType.RELEASE)
    assert partition.can_acquire(limits)
    assert take(partition, Span(4, 7), Span(8, 15), Span(16, 20), limits=limits) == [Acquired(4, 4, 2)]


def test_a_strict_limit_leaves_the_rest_of_a_batch_to_others() -> None:
    partition = SharePartition(0)
    assert take(partition, Span(0, 9), records=3, strict=1) == [Acquired(0, 2, 1)]
    assert take(partition, Span(0, 9), member="bob", records=3, strict=1) == [Acquired(3, 5, 1)]
    assert take(partition, Span(0, 9), member="cat") == [Acquired(6, 9, 1)]


@pytest.mark.parametrize("batch_size", [1, 0, -1])
def test_pieces_have_a_record_however_small_they_are_wanted(batch_size: int) -> None:
    partition = SharePartition(0)
    found = take(partition, Span(0, 4), Span(5, 9), batch_size=batch_size)
    assert found == [Acquired(0, 4, 1), Acquired(5, 9, 1)]


def test_a_hole_in_the_log_is_archived() -> None:
    partition = SharePartition(0)
    assert take(partition, Span(5, 6)) == [Acquired(5, 6, 1)]
    assert (partition.start_offset, partition.delivery_complete_count) == (5, 0)


def test_the_start_moves_over_what_is_done_with_once_that_is_written() -> None:
    partition = SharePartition(0)
    take(partition, Span(0, 9))
    say(partition, 5, 9, AcknowledgeType.ACCEPT)
    change = acknowledge(partition, "ann", [Acknowledgement(0, 4, (AcknowledgeType.REJECT,))], LIMITS, 0)
    assert (partition.start_offset, partition.delivery_complete_count) == (0, 10)
    assert change.batches() == [StateBatch(0, 4, RecordState.ARCHIVED, 1)]
    partition.keep(change)
    assert (partition.start_offset, states(partition)) == (10, [])


def test_a_change_that_is_taken_back_leaves_the_lock() -> None:
    partition = SharePartition(0)
    take(partition, Span(0, 4))
    change = acknowledge(partition, "ann", [Acknowledgement(0, 4, (AcknowledgeType.RELEASE,))], LIMITS, 500)
    assert take(partition, Span(0, 4), member="bob") == []
    partition.undo(change)
    assert partition.next_deadline_ms() == 1000
    assert partition.expire(LIMITS, 999).stretches == []
    assert partition.expire(LIMITS, 1000).batches() == [StateBatch(0, 4, RecordState.AVAILABLE, 1)]


def test_overlapping_acknowledgements_fail_while_one_is_written() -> None:
    partition = SharePartition(0)
    take(partition, Span(0, 4))
    acknowledge(partition, "ann", [Acknowledgement(0, 2, (AcknowledgeType.ACCEPT,))], LIMITS, 0)
    with pytest.raises(KafkaError) as rejected:
        acknowledge(partition, "ann", [Acknowledgement(2, 4, (AcknowledgeType.ACCEPT,))], LIMITS, 0)
    assert rejected.value.code is ErrorCode.INVALID_RECORD_STATE


def test_the_start_of_the_log_may_pass_a_change_under_way() -> None:
    partition = SharePartition(0)
    take(partition, Span(0, 9))
    change = acknowledge(partition, "ann", [Acknowledgement(0, 9, (AcknowledgeType.RELEASE,))], LIMITS, 0)
    partition.advance_start(5)
    partition.keep(change)
    assert states(partition) == [(5, 9, RecordState.AVAILABLE, 1)]
    assert take(partition, Span(0, 9)) == [Acquired(5, 9, 2)]


def test_the_start_of_the_log_may_pass_an_acknowledgement_between_two_steps() -> None:
    partition, change = SharePartition(0), Change()
    take(partition, Span(0, 9))
    kinds = (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE) * 5
    steps = partition.acknowledge("ann", [Acknowledgement(0, 9, kinds)], LIMITS, 0, change)
    next(steps)
    partition.advance_start(8)
    assert list(steps) == [None, None]
    partition.keep(change)
    assert states(partition) == [(9, 9, RecordState.AVAILABLE, 1)]


def test_a_renewal_that_is_taken_back_leaves_the_lock_of_who_got_the_record_meanwhile() -> None:
    partition = SharePartition(0)
    take(partition, Span(0, 1))
    said = [Acknowledgement(0, 0, (AcknowledgeType.RENEW,)), Acknowledgement(1, 1, (AcknowledgeType.ACCEPT,))]
    steps = partition.acknowledge("ann", said, LIMITS, 0, Change())
    next(steps)
    partition.keep(partition.release("ann", LIMITS))
    assert take(partition, Span(0, 1), member="bob", now_ms=900) == [Acquired(0, 1, 2)]
    with pytest.raises(KafkaError):
        list(steps)
    assert partition.next_deadline_ms() == 900 + LIMITS.lock_ms


def test_a_state_that_was_read_has_gaps_which_are_delivered() -> None:
    partition = SharePartition(2, [StateBatch(0, 3, 2, 1), StateBatch(5, 6, 0, 2), StateBatch(9, 9, 4, 5)])
    assert (partition.start_offset, partition.end_offset, partition.next_fetch_offset()) == (4, 9, 4)
    assert take(partition, Span(4, 11)) == [
        Acquired(4, 4, 1),
        Acquired(5, 6, 3),
        Acquired(7, 8, 1),
        Acquired(10, 11, 1),
    ]


@pytest.mark.parametrize("batch_size", [1, 500])
def test_aborted_batches_cost_no_more_than_their_number(batch_size: int) -> None:
    def work(count: int) -> int:
        partition, spans = SharePartition(0), [Span(at, at, bool(at % 2)) for at in range(count)]
        return calls_of(lambda: take(partition, *spans, records=count, batch_size=batch_size, limits=MANY))

    assert work(800) < 3 * work(400)


def test_what_is_left_of_a_batch_is_looked_at_once() -> None:
    def work(count: int) -> int:
        partition = SharePartition(0)
        take(partition, Span(0, count - 1), records=count, limits=MANY)
        kinds = [
            AcknowledgeType.RELEASE,
            *(AcknowledgeType.ACCEPT if at % 2 else AcknowledgeType.REJECT for at in range(1, count)),
        ]
        partition.keep(acknowledge(partition, "ann", [Acknowledgement(0, count - 1, kinds)], LIMITS, 0))
        spans = Span(0, count - 1), Span(count, count)
        again = [Acquired(0, 0, 2), Acquired(count, count, 1)]

        def acquire() -> None:
            assert take(partition, *spans, records=count, limits=MANY) == again

        return calls_of(acquire)

    assert work(800) < 3 * work(400)


def test_suspects_are_acquired_no_more_at_once_than_others(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = SharePartition(0)
    for _ in range(LIMITS.suspect_deliveries):
        take(partition, Span(0, 19))
        for record in range(20):
            say(partition, record, record, AcknowledgeType.RELEASE)
    monkeypatch.setattr("odradek.broker.share_partitions.machine.MAX_ACQUIRED", 4)
    assert take(partition, Span(0, 19)) == [Acquired(0, 3, LIMITS.suspect_deliveries + 1)]
