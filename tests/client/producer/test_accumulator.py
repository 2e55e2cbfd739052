"""Batches, bounds and sequences, with time passed in and no event loop."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.client.core.option_table import OPTIONS
from odradek.client.core.options import part_of
from odradek.client.errors import BufferFull, ConnectionLost, DeliveryTimedOut, KafkaError, OutcomeUnknown
from odradek.client.producer.accumulator import RecordAccumulator
from odradek.client.producer.batch import ProducerBatch, ProducerIdAndEpoch
from odradek.client.producer.options import ProducerOptions
from odradek.client.record import TopicPartition
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records.batch import decode_batch, read_header
from odradek.protocol.records.record import Record, size_upper_bound
from odradek.tests.support.seeds import examples

TP = TopicPartition("t", 0)
LOST = ConnectionLost("cut")
TOO_LARGE = KafkaError(ErrorCode.MESSAGE_TOO_LARGE)


class Account:
    """A callback that notes what it is told."""

    def __init__(self) -> None:
        self.delivered_values: list[tuple[int, int]] = []
        self.failures: list[tuple[int, KafkaError]] = []

    def delivered(self, batch: ProducerBatch, first: int, end: int) -> None:
        self.delivered_values.append((batch.base_offset + first, batch.base_offset + end))

    def failed(self, batch: ProducerBatch, first: int, end: int, error: KafkaError) -> None:
        self.failures.append((end - first, error))


def options_of(**given: float) -> ProducerOptions:
    values = {"batch_size": 1000, "buffer_memory": 100_000, "request_timeout_ms": 900, "delivery_timeout_ms": 1000}
    defaults = {name: option.default for name, option in OPTIONS.items()}
    return part_of(defaults | values | given, ProducerOptions)


def accumulator(**given: float) -> RecordAccumulator:
    return RecordAccumulator(options_of(**given))


def append(
    acc: RecordAccumulator, value: bytes, callback: Account | None = None, now_ms: float = 0, tp: TopicPartition = TP
) -> bool:
    record = Record(-1, 0, None, value)
    return acc.append(acc.queue(tp), record, size_upper_bound(None, value), callback or Account(), now_ms)


def drained(acc: RecordAccumulator, tp: TopicPartition = TP) -> ProducerBatch:
    queue = acc.queue(tp)
    if queue.needs_producer_id:
        queue.reset_producer_id(ProducerIdAndEpoch(7 if queue.producer is None else queue.producer.producer_id + 1, 0))
    return acc.drain(queue)


def values(batch: ProducerBatch) -> list[bytes | None]:
    assert batch.encoded is not None
    return [record.value for record in decode_batch(batch.encoded)]


def fill(acc: RecordAccumulator, count: int) -> list[ProducerBatch]:
    """`count` batches of one record each, drained and in flight."""
    batches: list[ProducerBatch] = []
    for number in range(count):
        append(acc, b"%d" % number)
        batches.append(drained(acc))
    return batches


def test_a_batch_lingers_for_company_and_goes_when_it_is_full() -> None:
    acc = accumulator()
    assert append(acc, b"x" * 400) is True
    assert acc.due(0) == ([], 5)
    assert append(acc, b"y" * 400, now_ms=2) is False
    assert acc.due(2) == ([], 3)
    assert append(acc, b"z" * 400, now_ms=3) is True
    assert acc.due(3)[0] == [acc.queue(TP)]
    first = drained(acc)
    assert values(first) == [b"x" * 400, b"y" * 400]
    assert acc.due(3) == ([], None), "the first batch of a producer id goes alone"
    acc.acknowledge(first, 0, -1)
    assert acc.due(3) == ([], 5)
    assert acc.due(8)[0] == [acc.queue(TP)]


def test_flushing_and_full_memory_wait_for_nothing() -> None:
    acc = accumulator()
    append(acc, b"x")
    acc.flushing = 1
    assert acc.due(0)[0] == [acc.queue(TP)]
    tight = accumulator(buffer_memory=1000)
    append(tight, b"x")
    assert tight.due(0)[0] == [tight.queue(TP)]


def test_a_record_larger_than_a_batch_goes_alone() -> None:
    acc = accumulator()
    append(acc, b"a")
    append(acc, b"b" * 5000)
    append(acc, b"c")
    assert [values(drained(acc)) for _ in range(3)] == [[b"a"], [b"b" * 5000], [b"c"]]


def test_memory_is_charged_until_the_broker_has_answered() -> None:
    acc = accumulator(buffer_memory=600)
    released: list[int] = []
    acc.on_release = lambda: released.append(acc.used_bytes)
    append(acc, b"x" * 400)
    with pytest.raises(BufferFull, match="of 600 bytes of buffer_memory"):
        append(acc, b"y" * 400)
    batch = drained(acc)
    assert acc.used_bytes > 400
    acc.acknowledge(batch, 0, -1)
    assert released == [0]
    append(acc, b"y" * 400)


def test_sequences_count_records_and_start_over_after_the_last() -> None:
    acc = accumulator()
    queue = acc.queue(TP)
    queue.reset_producer_id(ProducerIdAndEpoch(7, 3))
    queue.next_sequence = 0x7FFFFFFF
    for _ in range(2):
        append(acc, b"a")
        append(acc, b"b")
        batch = acc.drain(queue)
        assert batch.encoded is not None
        header = read_header(batch.encoded)
        assert (header.producer_id, header.producer_epoch) == (7, 3)
    assert [each.base_sequence for each in queue.in_flight] == [0x7FFFFFFF, 1]


def test_what_failed_goes_again_in_its_place_with_the_same_bytes() -> None:
    acc = accumulator()
    first, second, third = fill(acc, 3)
    before = first.encoded
    acc.retry(second, 0, 10)
    acc.retry(first, 0, 20)
    assert acc.due(50) == ([], None), "the third is still in flight"
    acc.retry(third, 0, 0)
    assert acc.due(15) == ([], 5), "the longest pause counts"
    order: list[ProducerBatch] = []
    for _ in range(3):
        assert acc.due(20)[0] == [acc.queue(TP)]
        order.append(drained(acc))
        acc.acknowledge(order[-1], 0, -1)
    assert order == [first, second, third]
    assert (first.base_sequence, before is not None) == (0, True)


def test_while_something_goes_again_nothing_behind_it_is_sent() -> None:
    acc = accumulator()
    first, second = fill(acc, 2)
    append(acc, b"behind")
    acc.retry(first, 0, 0)
    assert acc.due(9)[0] == []
    acc.retry(second, 0, 0)
    assert drained(acc) is first
    assert acc.due(9)[0] == [], "the second goes again as well, after the first"


def test_after_a_batch_is_given_up_the_next_ones_go_under_a_new_identity_from_zero() -> None:
    acc = accumulator()
    first, second = fill(acc, 2)
    acc.fail(first, TOO_LARGE)
    assert acc.due(9)[0] == [], "the old identity's batches must come back first"
    acc.retry(second, 0, 0)
    again = drained(acc)
    assert again is second
    assert again.encoded is not None
    header = read_header(again.encoded)
    assert (header.producer_id, header.base_sequence, values(again)) == (8, 0, [b"1"])


def test_behind_a_batch_of_unknown_outcome_nothing_uncertain_goes_again() -> None:
    acc = accumulator()
    account = Account()
    append(acc, b"first")
    first = drained(acc)
    append(acc, b"second", account)
    second = drained(acc)
    first.maybe_written = second.maybe_written = True
    acc.retry(second, 0, 0)
    acc.fail(first, LOST)
    assert [(count, type(error)) for count, error in account.failures] == [(1, OutcomeUnknown)]
    assert acc.pending() == []
    assert acc.used_bytes == 0


def test_records_that_waited_too_long_fail_and_say_whether_they_may_be_written() -> None:
    acc = accumulator()
    account = Account()
    append(acc, b"a", account)
    append(acc, b"b", account)
    acc.expire(999)
    assert account.failures == []
    acc.expire(1000)
    [(count, error)] = account.failures
    assert (count, type(error)) == (2, DeliveryTimedOut)
    assert "2 records for t-0 were not acknowledged within delivery_timeout_ms (1000); they were not written" in str(
        error
    )
    assert acc.used_bytes == 0


def test_each_sink_is_told_of_its_own_records() -> None:
    acc = accumulator()
    one, other = Account(), Account()
    for callback in (one, one, other, one):
        append(acc, b"x", callback)
    acc.acknowledge(drained(acc), 100, -1)
    assert one.delivered_values == [(100, 102), (103, 104)]
    assert other.delivered_values == [(102, 103)]


def test_partitions_take_turns() -> None:
    acc = accumulator(batch_size=1)
    busy, other = acc.queue(TP), acc.queue(TopicPartition("t", 1))
    for _ in range(3):
        append(acc, b"x")
    append(acc, b"y", tp=other.partition)
    busy.reset_producer_id(ProducerIdAndEpoch(1, 0))
    busy.acknowledged_id = 1
    assert acc.due(9)[0] == [busy, other]
    acc.drain(busy)
    assert acc.due(9)[0] == [other, busy]


class Told:
    """A callback for one record, which must be told once."""

    def __init__(self) -> None:
        self.count = 0

    def delivered(self, batch: ProducerBatch, first: int, end: int) -> None:
        self.count += 1
        assert end - first == 1

    def failed(self, batch: ProducerBatch, first: int, end: int, error: KafkaError) -> None:
        self.delivered(batch, first, end)


class Stage:
    """An accumulator, the callbacks of all its records, and the calls of a flush."""

    def __init__(self) -> None:
        self.acc = accumulator(batch_size=300, buffer_memory=2000, linger_ms=0)
        self.told: list[Told] = []
        self.flushes: list[list[int]] = []

    @property
    def in_flight(self) -> list[ProducerBatch]:
        return [batch for queue in self.acc.queues.values() for batch in queue.in_flight]


def test_batches_that_may_be_written_fail_once_when_one_before_them_does() -> None:
    acc = accumulator(batch_size=1)
    account = Account()
    for number in range(4):
        append(acc, b"%d" % number, account)
        drained(acc)
    for batch in list(acc.queue(TP).in_flight):
        batch.maybe_written = True
        acc.retry(batch, 0, 0)
    acc.expire(2000)
    assert [count for count, _ in account.failures] == [1, 1, 1, 1]
    assert acc.used_bytes == 0


Move = Callable[[Stage, int], None]


def _append(stage: Stage, number: int) -> None:
    value, partition = b"x" * (100 + number % 190), TopicPartition("t", number % 2)
    if stage.acc.has_room(size_upper_bound(None, value)):
        stage.told.append(Told())
        record = Record(-1, 0, None, value)
        queue = stage.acc.queue(partition)
        stage.acc.append(queue, record, size_upper_bound(None, value), stage.told[-1], 0)


def _drain(stage: Stage, number: int) -> None:
    for queue in stage.acc.due(number)[0]:
        drained(stage.acc, queue.partition)


def _expire(stage: Stage, number: int) -> None:
    stage.acc.expire(number if number > 1500 else 0)


def _flush(stage: Stage, number: int) -> None:
    left = [0]
    for batch in stage.acc.pending():
        left[0] += 1
        batch.on_done.append(lambda: left.__setitem__(0, left[0] - 1))
    stage.flushes.append(left)


def _on_a_batch_in_flight(settle: Callable[[RecordAccumulator, ProducerBatch, int], None]) -> Move:
    def move(stage: Stage, number: int) -> None:
        if in_flight := stage.in_flight:
            settle(stage.acc, in_flight[number % len(in_flight)], number)

    return move


def _acknowledge(acc: RecordAccumulator, batch: ProducerBatch, number: int) -> None:
    acc.acknowledge(batch, 0, -1)


def _retry(acc: RecordAccumulator, batch: ProducerBatch, number: int) -> None:
    batch.maybe_written = batch.maybe_written or number % 2 == 0
    acc.retry(batch, 0, 0)


def _fail(acc: RecordAccumulator, batch: ProducerBatch, number: int) -> None:
    batch.maybe_written = batch.maybe_written or number % 2 == 0
    acc.fail(batch, TOO_LARGE)


def _split(acc: RecordAccumulator, batch: ProducerBatch, number: int) -> None:
    if batch.count > 1:
        acc.split(batch, 0)


def _cut(stage: Stage, number: int) -> None:
    """All connections are lost."""
    for batch in stage.in_flight:
        batch.maybe_written = True
        stage.acc.retry(batch, 0, 0)


MOVES: list[Move] = [
    *[_append] * 4,
    *[_drain] * 3,
    _cut,
    _expire,
    _flush,
    *[_on_a_batch_in_flight(settle) for settle in (_acknowledge, _retry, _fail, _fail, _split)],
]


def check(stage: Stage) -> None:
    acc, pending = stage.acc, stage.acc.pending()
    assert acc.used_bytes == sum(batch.size_bytes for batch in pending) <= acc.buffer_memory
    waiting = sum(batch.count or len(batch.records) for batch in pending)
    assert sum(each.count for each in stage.told) + waiting == len(stage.told)
    for queue in acc.queues.values():
        assert [batch.number for batch in queue.sealed] == sorted(batch.number for batch in queue.sealed)
        assert [batch.number for batch in queue.in_flight] == sorted(batch.number for batch in queue.in_flight)
        if queue.lost_from is None:
            assert _consecutive(sorted([*queue.in_flight, *queue.sealed], key=lambda batch: batch.number))


WALKS = st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, 2000)), min_size=25, max_size=60)


@settings(max_examples=examples(150), deadline=None)
@given(WALKS)
def test_memory_order_and_outcomes_hold_whatever_happens(moves: list[tuple[Move, int]]) -> None:
    stage = Stage()
    acc = stage.acc
    for move, number in moves:
        move(stage, number)
        check(stage)
    acc.flushing = 1
    for batch in list(stage.in_flight):
        acc.acknowledge(batch, 0, -1)
    while acc.pending():
        ready, _ = acc.due(10_000)
        assert ready, "something waits, and nothing is in its way"
        for queue in ready:
            acc.acknowledge(drained(acc, queue.partition), 0, -1)
    assert acc.used_bytes == 0
    assert {each.count for each in stage.told} <= {1}, "each record has one outcome"
    assert all(left == [0] for left in stage.flushes), "a flush ends once, with the last of its batches"


def _consecutive(batches: list[ProducerBatch]) -> bool:
    """Of one identity, the sequences that are out follow on one another where nothing between them was acknowledged."""
    numbered = [batch for batch in batches if batch.base_sequence >= 0]
    return all(a.base_sequence < b.base_sequence for a, b in pairwise(numbered))
