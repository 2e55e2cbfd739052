"""The machine of one share state: an event goes in, an outcome comes out. Pure: no clock, no log, no network.

Nothing changes before its records are committed, so an append that fails needs nothing undone.

What is checked, in Kafka's order and words: the request's numbers, that the state is initialized, the epochs, and that
the topic has the partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages import share_state_records as kafka
from ..outcome import AppendFailed, Loaded, Unload, nothing
from .events import Delete, Event, Forget, Initialize, Outcome, Read, Request, Summarize, TakeSnapshot, Write
from .kept_state import KeptState, combine, touched
from .records import StateRecord
from .share_state import UNINITIALIZED_OFFSET, UNKNOWN_COUNT, ShareState, StateBatch

# As many batches as a leader may have records in flight at most (group.share.max.partition.max.record.locks).
MAX_BATCHES = 10_000

# A step of more batches is made in a thread: they take some four microseconds each.
_MANY_BATCHES = 1_000


def step(kept: KeptState, event: Event, now_ms: int) -> Outcome:
    """Return the outcome of an event. `now_ms` is the wall clock, which only dates records."""
    outcome = Outcome()
    try:
        _STEPS[event.__class__](kept, event, outcome, now_ms)
    except KafkaError as error:
        assert isinstance(event, Request)
        outcome.reply(event.token, error)
    if outcome.records:
        kept.written_ms = now_ms
    return outcome


def is_long(kept: KeptState, event: Event) -> bool:
    """Return whether a step is of very many batches: it changes them, or writes all of them anew."""
    written = event.batches if isinstance(event, Write) else ()
    before = () if kept.current is None else kept.current.batches
    if len(before) + len(written) <= _MANY_BATCHES:
        return False
    if isinstance(event, TakeSnapshot) or kept.updates >= kept.updates_per_snapshot:
        return True
    if not 0 < len(written) <= _MANY_BATCHES:
        return bool(written)
    part = touched(before, written)
    return part.stop - part.start > _MANY_BATCHES


def _initialize(kept: KeptState, event: Initialize, outcome: Outcome, now_ms: int) -> None:
    """Begin the state anew. The leader epoch begins anew too, because the state epoch fences the leaders of before."""
    _check_numbers(kept, event.state_epoch)
    if kept.current is not None and event.state_epoch < kept.current.state_epoch:
        raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
    _check_exists(kept)
    if _is_begun(kept.current, event):
        outcome.reply(event.token, None)
        return
    count = UNKNOWN_COUNT if event.start_offset == UNINITIALIZED_OFFSET else 0
    state = ShareState(event.state_epoch, 0, event.start_offset, count, is_chosen=_is_chosen(kept.current, event))
    outcome.records.append(_snapshot(kept, state, created_ms=now_ms, now_ms=now_ms))
    outcome.reply(event.token, None)


def _is_begun(current: ShareState | None, event: Initialize) -> bool:
    """Return whether the request has come before: it crossed the wire twice, and the group may have begun to read."""
    is_same = current is not None and current.state_epoch == event.state_epoch
    return is_same and event.start_offset == UNINITIALIZED_OFFSET


def _is_chosen(current: ShareState | None, event: Initialize) -> bool:
    """Return whether an administrator sets the start offset: a leader that sets it back leaves the state epoch."""
    if event.start_offset == UNINITIALIZED_OFFSET or current is None or event.state_epoch > current.state_epoch:
        return event.start_offset != UNINITIALIZED_OFFSET
    # It may have crossed the wire twice.
    return current.is_chosen and event.start_offset == current.start_offset


def _read(kept: KeptState, event: Read, outcome: Outcome, now_ms: int) -> None:
    """Return the state. A newer leader epoch is written first, so that it fences whatever happens."""
    current = _initialized(kept, "Read", event.leader_epoch)
    _check_leader(current, event.leader_epoch)
    _check_exists(kept)
    if event.leader_epoch > current.leader_epoch:
        current = current._replace(leader_epoch=event.leader_epoch)
        _change(kept, current, (), outcome, now_ms)
    outcome.reply(event.token, current)


def _write(kept: KeptState, event: Write, outcome: Outcome, now_ms: int) -> None:
    """Change the state. A leader epoch that is newer than the last read's is allowed, and not kept.

    Only `_initialize` sets the start offset back. A write with an earlier one, or with a smaller count, is an old
    request, which its sender has sent again since: what was done stays so.
    """
    current = _initialized(kept, "Write", event.leader_epoch, event.state_epoch)
    _check_leader(current, event.leader_epoch)
    if event.state_epoch < current.state_epoch:
        raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
    _check_exists(kept)
    _check_batches(event.batches)
    so_far = current.start_offset, current.delivery_complete_count
    start_offset, count = max(so_far, (event.start_offset, event.delivery_complete_count))
    is_used = bool(event.batches) or start_offset > current.start_offset
    written = current._replace(
        start_offset=start_offset, delivery_complete_count=count, is_chosen=current.is_chosen and not is_used
    )
    _change(kept, written, event.batches, outcome, now_ms)
    outcome.reply(event.token, None)


def _summarize(kept: KeptState, event: Summarize, outcome: Outcome, now_ms: int) -> None:
    _check_numbers(kept)
    _check_exists(kept)
    nothing = ShareState(0, 0, UNINITIALIZED_OFFSET, UNKNOWN_COUNT)
    outcome.reply(event.token, nothing if kept.current is None else kept.current._replace(batches=()))


def _delete(kept: KeptState, event: Delete, outcome: Outcome, now_ms: int) -> None:
    _check_numbers(kept)
    _check_exists(kept)
    _forget(kept, event, outcome, now_ms)
    outcome.reply(event.token, None)


def _forget(kept: KeptState, event: Forget | Delete, outcome: Outcome, now_ms: int) -> None:
    if kept.current is not None:
        outcome.records.append(StateRecord(kept.key, None))


def _take_snapshot(kept: KeptState, event: TakeSnapshot, outcome: Outcome, now_ms: int) -> None:
    if kept.current is not None:
        outcome.records.append(_snapshot(kept, kept.current, created_ms=kept.created_ms, now_ms=now_ms))


def _append_failed(kept: KeptState, event: AppendFailed[Outcome], outcome: Outcome, now_ms: int) -> None:
    error = KafkaError(event.error)
    outcome.replies.extend((token, error) for token, _ in event.outcome.replies)


# -- Checks


def _check_numbers(kept: KeptState, *epochs: int) -> None:
    if kept.key.partition < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")
    if min(epochs, default=0) < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "An epoch cannot be a negative number.")


def _check_exists(kept: KeptState) -> None:
    topic = kept.topics.by_id(kept.key.topic_id)
    if topic is None or kept.key.partition >= topic.partition_count:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _initialized(kept: KeptState, verb: str, *epochs: int) -> ShareState:
    _check_numbers(kept, *epochs)
    if kept.current is None:
        why = f"{verb} operation on uninitialized share partition not allowed."
        raise KafkaError(ErrorCode.INVALID_REQUEST, why)
    return kept.current


def _check_leader(current: ShareState, leader_epoch: int) -> None:
    if leader_epoch < current.leader_epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)


def _check_batches(batches: Sequence[StateBatch]) -> None:
    if len(batches) > MAX_BATCHES:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{len(batches)} batches are more than {MAX_BATCHES}")
    for batch in batches:
        if batch.first_offset > batch.last_offset:
            why = f"a batch begins at offset {batch.first_offset} and ends before, at {batch.last_offset}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, why)


# -- Records


def _change(kept: KeptState, written: ShareState, batches: Iterable[StateBatch], outcome: Outcome, now_ms: int) -> None:
    """Write what changes, or everything where enough updates have come since the last snapshot."""
    assert kept.current is not None
    changed = combine((), list(batches), written.start_offset)
    whole = combine(kept.current.batches, changed, written.start_offset)
    if kept.updates >= kept.updates_per_snapshot:
        state = written._replace(batches=whole)
        outcome.records.append(_snapshot(kept, state, created_ms=kept.created_ms, now_ms=now_ms))
        return
    value = kafka.ShareUpdateValue(
        kept.snapshot_epoch,
        written.leader_epoch,
        written.start_offset,
        written.delivery_complete_count,
        _batches(changed),
    )
    outcome.records.append(StateRecord(kept.key, value, whole))


def _snapshot(kept: KeptState, state: ShareState, *, created_ms: int, now_ms: int) -> StateRecord:
    value = kafka.ShareSnapshotValue(
        kept.snapshot_epoch + 1,
        state.state_epoch,
        state.leader_epoch,
        state.start_offset,
        state.delivery_complete_count,
        created_ms,
        now_ms,
        _batches(state.batches),
        state.is_chosen,
    )
    return StateRecord(kept.key, value, state.batches)


def _batches(batches: Iterable[StateBatch]) -> list[kafka.StateBatch]:
    return [kafka.StateBatch(*each) for each in batches]


_STEPS: dict[type[Any], Callable[[KeptState, Any, Outcome, int], None]] = {
    Initialize: _initialize,
    Read: _read,
    Write: _write,
    Summarize: _summarize,
    Delete: _delete,
    Forget: _forget,
    TakeSnapshot: _take_snapshot,
    AppendFailed: _append_failed,
    # No request waits in a state.
    **dict.fromkeys((Loaded, Unload), nothing),
}
