"""The log of the share coordinator: what may be deleted of it."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.broker.coordination.interfaces import OnCommitted
from odradek.broker.coordination.share_states.state_log import StateTopicLog
from odradek.protocol.errors import ErrorCode, KafkaError

SNAPSHOT, UPDATE = b"\x00\x00", b"\x00\x01"


class Log:
    """A log whose records are committed when the test says so. Its high watermark may be ahead of what it has told."""

    def __init__(self) -> None:
        self.end = 0
        self.start = 0
        self.appended: list[OnCommitted] = []

    def end_offset(self, partition: int) -> int:
        return self.end

    def delete_before(self, partition: int, offset: int) -> None:
        self.start = max(self.start, offset)

    def append(self, partition: int, records: list[Any], on_committed: OnCommitted, *_: object) -> None:
        self.end += len(records)
        self.appended.append(on_committed)


@pytest.fixture
def log() -> Any:
    return Log()


def test_a_first_snapshot_is_not_deleted_before_it_is_told_that_it_is_committed(log: Any) -> None:
    kept = StateTopicLog(log)
    told: list[KafkaError | None] = []
    kept.append(0, [(SNAPSHOT + b"a", b"")], told.append)
    kept.prune(0)
    assert log.start == 0
    log.appended.pop()(None)
    kept.prune(0)
    assert (log.start, told) == (0, [None])


def test_what_no_state_needs_is_deleted(log: Any) -> None:
    kept = StateTopicLog(log)
    for key, value, error in (
        (SNAPSHOT + b"a", b"", None),
        (UPDATE + b"a", b"", None),
        (SNAPSHOT + b"a", b"", None),
        (SNAPSHOT + b"b", b"", KafkaError(ErrorCode.NOT_COORDINATOR)),
    ):
        kept.append(0, [(key, value)], lambda _: None)
        log.appended.pop()(error)
    kept.prune(0)
    assert log.start == 2
    kept.append(0, [(SNAPSHOT + b"a", None)], lambda _: None)
    log.appended.pop()(None)
    kept.prune(0)
    assert log.start == log.end == 5


def test_a_snapshot_that_is_committed_after_the_partition_has_moved_does_not_hold_the_next_reign_up(log: Any) -> None:
    kept = StateTopicLog(log)
    kept.append(0, [(SNAPSHOT + b"a", b"")], lambda _: None)
    kept.unload(0)
    log.appended.pop()(None)
    # Another coordinator has deleted the state, and this one has loaded the partition again.
    log.end = 9
    kept.prune(0)
    assert log.start == 9
