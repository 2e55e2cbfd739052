"""The properties of the accumulator (`test_accumulator.py`) and of `test_schedules.py` find planted bugs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from odradek.client.producer import sender
from odradek.client.producer.accumulator import RecordAccumulator
from odradek.client.producer.batch import ProducerBatch
from odradek.client.producer.partition_queue import PartitionQueue
from odradek.tests.client.producer import test_accumulator as accumulator
from odradek.tests.client.producer import test_schedules as schedules

Plant = Callable[[Any], Any]
# The first that fails ends a test, mostly one of the first hundred. Which they are depends on the modules that are
# loaded, because Hypothesis takes values from their code.
EXAMPLES = 3_000


def a_retry_goes_behind_later_batches(_: Any) -> Any:
    def requeue(self: PartitionQueue, batch: ProducerBatch) -> None:
        self.in_flight.remove(batch)
        self.sealed.append(batch)

    return requeue


def a_failure_frees_one_byte_too_much(real: Any) -> Any:
    def fail(self: RecordAccumulator, *arguments: Any) -> None:
        real(self, *arguments)
        self.used_bytes -= 1

    return fail


def a_split_loses_its_last_part(real: Any) -> Any:
    return lambda self, batch, parts: real(self, batch, parts[:-1])


def an_acknowledgement_tells_nobody(_: Any) -> Any:
    return lambda self, offset, time_ms: self._finish()


def a_retry_is_never_due_again(_: Any) -> Any:
    return lambda self, batch, now_ms, pause_ms: self.queues[batch.partition].requeue(batch)


def a_failure_is_told_twice(real: Any) -> Any:
    def fail(self: ProducerBatch, error: Any) -> None:
        real(self, error)
        real(self, error)

    return fail


def a_lost_sequence_is_used_again(real: Any) -> Any:
    def encode(self: RecordAccumulator, queue: PartitionQueue, batch: ProducerBatch) -> None:
        real(self, queue, batch)
        queue.next_sequence = batch.base_sequence

    return encode


PLANTED: list[tuple[type, str, Plant]] = [
    (PartitionQueue, "requeue", a_retry_goes_behind_later_batches),
    (RecordAccumulator, "_fail_one", a_failure_frees_one_byte_too_much),
    (PartitionQueue, "replace", a_split_loses_its_last_part),
    (ProducerBatch, "complete", an_acknowledgement_tells_nobody),
    (RecordAccumulator, "retry", a_retry_is_never_due_again),
    (ProducerBatch, "fail", a_failure_is_told_twice),
    (RecordAccumulator, "_encode", a_lost_sequence_is_used_again),
]


@pytest.mark.parametrize(("kind", "name", "plant"), PLANTED, ids=[plant.__name__ for _, _, plant in PLANTED])
def test_a_planted_bug_is_found(kind: type, name: str, plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind, name, plant(getattr(kind, name)))
    quick = settings(max_examples=EXAMPLES, derandomize=True, deadline=None, phases=[Phase.generate], database=None)
    check = accumulator.test_memory_order_and_outcomes_hold_whatever_happens.hypothesis.inner_test
    with pytest.raises((AssertionError, ExceptionGroup)):
        quick(given(accumulator.WALKS)(check))()


def batches_before_a_failed_one_get_a_new_producer_id(_: Any) -> Any:
    return property(lambda self: self.producer is None or self.lost_from is not None)


def what_may_be_written_gets_a_new_producer_id(_: Any) -> Any:
    return lambda self: None


PLANTED_FOR_SCHEDULES: list[tuple[type, str, Plant]] = [
    (PartitionQueue, "needs_producer_id", batches_before_a_failed_one_get_a_new_producer_id),
    (PartitionQueue, "next_unrepeatable", what_may_be_written_gets_a_new_producer_id),
]


@pytest.mark.parametrize(
    ("kind", "name", "plant"), PLANTED_FOR_SCHEDULES, ids=[plant.__name__ for _, _, plant in PLANTED_FOR_SCHEDULES]
)
def test_a_planted_bug_is_found_by_schedules(
    kind: type, name: str, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, name, plant(getattr(kind, name)))
    quick = settings(max_examples=EXAMPLES, derandomize=True, deadline=None, phases=[Phase.generate], database=None)
    check = schedules.test_the_log_agrees_with_what_was_told.hypothesis.inner_test
    with pytest.raises((AssertionError, ExceptionGroup)):
        quick(given(schedules.SCHEDULES, st.booleans(), st.just(300_000))(check))()


def test_a_leader_that_is_believed_after_it_has_lost_the_partition_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "_UNCERTAIN_AFTER_A_WAIT", sender._UNCERTAIN)  # pyright: ignore[reportPrivateUsage]
    with pytest.raises((AssertionError, ExceptionGroup)):
        schedules.test_records_behind_a_failed_one_are_not_written_twice_where_the_broker_has_forgotten_the_producer(
            "NOT_LEADER_OR_FOLLOWER after"
        )
