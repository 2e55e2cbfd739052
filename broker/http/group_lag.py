"""The lag of consumer groups, in records, and how near the oldest record that a group has not read is to its deletion.

It is of the partitions that this broker holds. In a cluster the coordinator of a group knows what it has committed, and
leaders know where logs end: the lag of a partition that is held elsewhere is in no broker's metrics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..coordination.groups.actor import GroupActor
from ..services import Services
from ..topics.partition import Partition
from ..topics.topic import Topic
from .topic_sums import OTHERS
from .unread_ages import Unread, UnreadAges

# A group whose id is longer is summed with the others: an id may have 32,767 bytes, and a page a thousand of them.
MAX_LABEL_CHARS = 255


@dataclass(slots=True)
class GroupLag:
    """The row of a group, or of all groups beyond metrics.max.groups."""

    group: str
    members: int = 0
    generation: int = 0
    lag: int = 0
    lost: int = 0
    unread: list[Unread] = field(default_factory=list[Unread])

    def add(self, partition: Partition, offset: int) -> int:
        """Add a partition with the offset that the group has committed. Return the lag in it."""
        start = partition.log.log_start_offset
        behind = max(partition.high_watermark - offset, 0)
        self.lost += max(min(start, partition.high_watermark) - offset, 0)
        self.lag += behind
        return behind

    def age_s(self, ages: UnreadAges, now_ms: int) -> float | None:
        """Return the lag in seconds, the longest of its partitions; 0 without lag, None where none is known yet."""
        if not self.unread:
            return 0.0
        times = [ages.time_ms(self.group, each.partition) for each in self.unread]
        known = [time_ms for time_ms in times if time_ms is not None]
        return max(now_ms - min(known), 0) / 1000 if known else None

    def retention_used(self, ages: UnreadAges, now_ms: int) -> float:
        """Return how near the group's oldest unread record is to its deletion: 0 far, 1 it may go."""
        return max((_retention_used(each, ages, now_ms) for each in self.unread), default=0.0)


def _retention_used(unread: Unread, ages: UnreadAges, now_ms: int) -> float:
    partition = unread.partition
    if not unread.may_expire or not partition.is_online:
        return 0.0
    log, config = partition.log, partition.log.config
    used = 0.0
    time_ms = ages.time_ms(unread.group, partition)
    if time_ms is not None and config.retention_ms > 0:
        used = (now_ms - time_ms) / config.retention_ms
    if config.retention_bytes > 0:
        records = max(log.log_end_offset - log.log_start_offset, 1)
        share = min((log.log_end_offset - unread.offset) / records, 1.0)
        used = max(used, share * log.size_bytes / config.retention_bytes)
    return max(used, 0.0)


def lags(services: Services, rows: list[GroupLag]) -> Iterator[str]:
    """Fill `rows`, a part in each step. Yields no text. The last row may be that of all others."""
    most, others = services.config.metrics_max_groups, GroupLag(OTHERS)
    for actor in list(services.groups.groups.values()):
        has_row = len(rows) < most and len(actor.key) <= MAX_LABEL_CHARS and actor.key != OTHERS
        row = GroupLag(actor.key) if has_row else others
        if has_row:
            rows.append(row)
        row.members += len(actor.state.roster)
        row.generation = max(row.generation, actor.state.generation)
        for topic, partition, offset in committed(services, actor):
            # The others have no lag in seconds: it would need a look-up for each partition of each group.
            if row.add(partition, offset) and has_row:
                may_expire = "delete" in topic.config.cleanup_policy and not topic.is_internal
                row.unread.append(Unread(row.group, partition, offset, may_expire))
            yield ""
        yield ""
    if len(services.groups.groups) > len(rows):
        rows.append(others)


def committed(services: Services, actor: GroupActor) -> Iterator[tuple[Topic, Partition, int]]:
    """Yield each partition that is held here with the committed offset, as they are when this begins."""
    committed = [(name, dict(offsets)) for name, offsets in actor.state.offsets]
    for name, offsets in committed:
        topic = services.topics.get(name)
        if topic is None:
            continue
        for index, value in offsets.items():
            partition = topic.partition(index)
            if partition is not None and partition.is_online:
                yield topic, partition, value.offset
