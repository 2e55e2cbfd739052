"""The state that the share coordinator keeps of a partition: what a share group has done with its records (KIP-932).

Each group has one state for each partition, known by its ShareKey. Its start offset is -1 until the first read finds
where the group begins. Batches say what happened behind the start offset; what no batch covers is available, or was
never delivered.

Two epochs fence writers that are late. The group coordinator raises the state epoch with each `initialize`, so that a
leader which read the state before cannot write over it. A leader tells its leader epoch as it reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

# The start offset of a state that was initialized and not written yet, or was never initialized (`read_summary`).
UNINITIALIZED_OFFSET = -1
# The number of records delivered for good behind the start offset, where it is not known.
UNKNOWN_COUNT = -1


class ShareKey(NamedTuple):
    """The partition of a topic, as one share group sees it."""

    group_id: str
    topic_id: bytes
    partition: int


class StateBatch(NamedTuple):
    """Records with the same delivery state and count, both offsets included."""

    first_offset: int
    last_offset: int
    # A RecordState of the leader as its number: 0 available, 2 acknowledged, 3 archiving, 4 archived. Acquired (1) is
    # never written.
    delivery_state: int
    delivery_count: int


class ShareState(NamedTuple):
    """The state of one partition for one group."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    # How many records behind the start offset are acknowledged or archived; -1: not known.
    delivery_complete_count: int
    # In order of their offsets, without overlaps.
    batches: Sequence[StateBatch] = ()
    # Whether an administrator has set the start offset, and nothing was delivered since: it may lie beyond the end of
    # the log. Where another one does, the log has lost its end.
    is_chosen: bool = False


class Progress(NamedTuple):
    """How far a group has come in a partition, as far as one state has these; see ShareState."""

    start_offset: int
    delivery_complete_count: int
