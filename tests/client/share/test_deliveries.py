"""What a share consumer holds: every record is handed out once, and settled once, by the session that acquired it."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.client import ShareRecord, TopicPartition
from odradek.client.errors import InvalidAcknowledgement
from odradek.client.share.deliveries import Acknowledgement, Deliveries, Source, acquired, runs

T0 = TopicPartition("t", 0)
SOURCE = Source(1, 1, b"t" * 16)
FAR_MS = 1e9


def record(offset: int) -> ShareRecord:
    return ShareRecord("t", 0, offset, 7, 0, None, b"%d" % offset, ())


def holding(count: int) -> Deliveries:
    deliveries = Deliveries()
    deliveries.add(map(record, range(count)), SOURCE, FAR_MS)
    return deliveries


def test_a_record_whose_lock_has_ended_is_not_handed_out() -> None:
    deliveries = Deliveries()
    deliveries.add([record(0)], SOURCE, 100)
    deliveries.add([record(1)], SOURCE, 300)
    assert [each.offset for each in deliveries.take(10, now_ms=200)] == [1]
    assert deliveries.take(10, now_ms=200) == []


def test_records_of_a_session_that_has_ended_are_dropped_before_they_are_handed_out() -> None:
    deliveries = holding(3)
    (first,) = deliveries.take(1, 0)
    deliveries.lose(SOURCE.node_id)
    assert deliveries.take(10, 0) == []
    deliveries.settle(first, Acknowledgement.ACCEPT, 0)
    assert deliveries.take_settled(1) == {SOURCE: {T0: {(0, 0): Acknowledgement.ACCEPT}}}


def test_a_record_is_settled_once() -> None:
    deliveries = holding(2)
    first, _ = deliveries.take(2, 0)
    deliveries.settle(first, Acknowledgement.RELEASE, 0)
    with pytest.raises(InvalidAcknowledgement, match="t-0 at offset 0: this consumer does not hold"):
        deliveries.settle(first, Acknowledgement.ACCEPT, 0)


def test_a_renewed_record_may_be_kept_past_a_poll() -> None:
    deliveries = holding(2)
    first, second = deliveries.take(2, 0)
    assert deliveries.open_record() is first
    deliveries.settle(second, Acknowledgement.ACCEPT, 0)
    held = deliveries.held(first)
    held.renewed, held.lock_ends_ms = True, 2 * FAR_MS
    assert deliveries.open_record() is None
    assert deliveries.lock_ends_ms(first) == 2 * FAR_MS
    deliveries.settle(first, Acknowledgement.ACCEPT, 0)
    assert len(deliveries) == 0


def test_records_that_are_put_back_are_handed_out_again_in_order() -> None:
    deliveries = holding(4)
    taken = deliveries.take(3, 0)
    deliveries.put_back(taken[1:])
    assert [each.offset for each in deliveries.take(10, 0)] == [1, 2, 3]


def test_records_that_were_accepted_before_they_are_put_back_stay_accepted() -> None:
    deliveries = holding(2)
    taken = deliveries.take(2, 0)
    deliveries.settle(taken[0], Acknowledgement.ACCEPT, 0)
    deliveries.put_back(taken)  # an interrupted thread has not received them, and another one commits
    assert [each.offset for each in deliveries.take(10, 0)] == [1]


def test_offsets_without_a_record_are_gaps() -> None:
    found, gaps = acquired([record(1), record(2), record(4), record(9)], [(0, 2, 1), (4, 5, 3), (6, 2**31, 1)])
    assert [(each.offset, each.delivery_count) for each in found] == [(1, 1), (2, 1), (4, 3), (9, 1)]
    assert gaps == [(0, 0), (5, 5), (6, 8), (10, 2**31)]


KINDS = st.sampled_from([Acknowledgement.ACCEPT, Acknowledgement.RELEASE, Acknowledgement.REJECT])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), KINDS)))
def test_runs_say_of_each_offset_what_became_of_it_in_ascending_batches(
    parts: list[tuple[int, int, Acknowledgement]],
) -> None:
    spans, first = dict[tuple[int, int], Acknowledgement](), 0
    for skipped, more, kind in parts:
        spans[first + skipped, first + skipped + more] = kind
        first += skipped + more + 1
    found = runs(spans)
    said = {offset: types[0] for first, last, types in found for offset in range(first, last + 1)}
    assert said == {offset: kind for (first, last), kind in spans.items() for offset in range(first, last + 1)}
    assert all(before[1] < after[0] for before, after in pairwise(found))


@given(st.lists(st.tuples(st.sampled_from(["take", "accept", "release", "tell"]), st.integers(1, 5)), max_size=40))
def test_every_record_is_told_once_whatever_the_user_does(steps: list[tuple[str, int]]) -> None:
    deliveries, held = holding(50), list[ShareRecord]()
    told: Counter[int] = Counter()
    for step, count in steps:
        if step == "take":
            held += deliveries.take(count, 0)
        elif step == "tell":
            for settled in deliveries.take_settled(1).values():
                told.update(first for first, _ in settled[T0])
        else:
            for _ in range(min(count, len(held))):
                deliveries.settle(held.pop(), Acknowledgement[step.upper()], 0)
    deliveries.accept_held(0)
    for settled in deliveries.take_settled(1).values():
        told.update(first for first, _ in settled[T0])
    rest = deliveries.take(100, 0)
    assert sorted([*told, *(each.offset for each in rest)]) == list(range(50))
    assert set(told.values()) <= {1}
