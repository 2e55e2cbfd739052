"""The log of the share coordinator, `__share_group_state`: how it is replayed, and where what it holds can be deleted.

The topic is not compacted. Each state needs its last snapshot and the updates behind it, so everything below the
lowest of these snapshots can go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from ....protocol.errors import KafkaError
from ....protocol.topic_partition import TopicPartition
from ..interfaces import OnCommitted, StateLog
from ..replay import Ended, Written
from .records import SNAPSHOT_KEY

_SNAPSHOT = SNAPSHOT_KEY.to_bytes(2, "big")


class PrunableLog(StateLog, Protocol):
    """A coordinator's log whose beginning can be deleted."""

    def end_offset(self, partition: int) -> int:
        """Return the offset of the next record; 0 if the topic does not exist."""
        ...

    def delete_before(self, partition: int, offset: int) -> None:
        """Delete what is below the offset."""
        ...


class StateReplay:
    """Takes the entries of a partition one by one, and then yields each state's last snapshot and the updates since."""

    def __init__(self) -> None:
        self._states: dict[bytes, list[Written]] = {}

    def take(self, each: Written | Ended) -> None:
        """Take the next entry of the log. Nothing in it is transactional."""
        if isinstance(each, Ended):
            return
        key = each.key[2:]
        if not each.key.startswith(_SNAPSHOT):
            self._states.setdefault(key, []).append(each)
        elif each.value is None:
            self._states.pop(key, None)
        else:
            self._states[key] = [each]

    def outcome(self) -> Iterator[Written]:
        """Yield the records that lead to the same states."""
        for records in self._states.values():
            yield from records


class StateTopicLog:
    """The log with the offset of every state's last snapshot, by partition."""

    def __init__(self, log: PrunableLog) -> None:
        self._log = log
        # Invariant: only snapshots that are committed. The keys are those of records, without their types.
        self._snapshots: dict[int, dict[bytes, int]] = {}
        # Where records begin of which it is not known yet whether they are committed, by partition.
        self._under_way: dict[int, list[int]] = {}

    # -- A log

    def partition_count(self) -> int:
        return self._log.partition_count()

    def ensure_topic(self) -> None:
        self._log.ensure_topic()

    def coordinator_epoch(self, partition: int) -> int:
        return self._log.coordinator_epoch(partition)

    def entries(self, partition: int) -> Iterable[Written | Ended]:
        return self._log.entries(partition)

    def append(
        self,
        partition: int,
        records: list[tuple[bytes, bytes | None]],
        on_committed: OnCommitted,
        producer: tuple[int, int] | None = None,
        durable_after: Sequence[TopicPartition] | None = None,
    ) -> None:
        # The log appends within this turn, so the records begin at its present end.
        base = self._log.end_offset(partition)
        under_way = self._under_way.setdefault(partition, [])
        # What is committed after the partition has moved away is noted in what nobody reads any more.
        snapshots = self._snapshots.setdefault(partition, {})

        def committed(error: KafkaError | None) -> None:
            under_way.remove(base)
            if error is None:
                for offset, (key, value) in enumerate(records, base):
                    _note(snapshots, key, value, offset)
            on_committed(error)

        under_way.append(base)
        self._log.append(partition, records, committed, producer, durable_after)

    # -- What the shards tell of a partition (Companion)

    def restore(self, written: Written, partition: int) -> bool:
        """Note where a snapshot is that was loaded."""
        _note(self._snapshots.setdefault(partition, {}), written.key, written.value, written.offset)
        return False

    def loaded(self, partition: int) -> None:
        """Do nothing: the snapshots are noted as they come."""

    def unload(self, partition: int) -> None:
        """Forget where the snapshots of a partition are."""
        self._snapshots.pop(partition, None)

    # -- Deletion

    def prune(self, partition: int) -> None:
        """Delete what no state needs."""
        end = self._log.end_offset(partition)
        if end:
            needed = (*self._snapshots.get(partition, {}).values(), *self._under_way.get(partition, ()))
            self._log.delete_before(partition, min(needed, default=end))

    def far_behind(self, partition: int, least: int) -> list[bytes]:
        """Return the keys of snapshots that keep many more records than there are states from being deleted.

        At least `least` records count as many.
        """
        snapshots = self._snapshots.get(partition, {})
        bound = self._log.end_offset(partition) - max(least, 2 * len(snapshots))
        return [_SNAPSHOT + key for key, offset in snapshots.items() if offset < bound]


def _note(snapshots: dict[bytes, int], key: bytes, value: bytes | None, offset: int) -> None:
    """Note a committed record in the snapshots of its partition."""
    if not key.startswith(_SNAPSHOT):
        return
    if value is None:
        snapshots.pop(key[2:], None)
    else:
        snapshots[key[2:]] = offset
