"""How far an archive is: what each partition has, what its log has, and how old the first record in between is."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..arrow.batches import BASE_TIMESTAMP
from ..arrow.brokers import Brokers, known_leader
from ..arrow.connection import ReadOptions
from ..arrow.fetch import OffsetRange, RangeFetch
from ..core.clock import wall_clock_ms
from ..record import EARLIEST, LATEST, TopicPartition
from .layout import table_name
from .places import open_table
from .state import check_topic, state_of, topic_in

_WAIT_MS = 5_000


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """How far a partition is archived."""

    topic: str
    partition: int
    # The next offset that the table lacks.
    archived: int
    # Where the committed records of the log end, None while the partition has no leader.
    end: int | None
    # The age of the first batch that is not archived, None where all are and where that is not known.
    oldest_ms: int | None

    @property
    def lag(self) -> int | None:
        """Return how many offsets are not archived."""
        return None if self.end is None else max(self.end - self.archived, 0)


def partitions_of(
    catalog: Any, topic: str, name: tuple[str, ...] | None, reading: ReadOptions
) -> Iterator[PartitionStatus]:
    """Yield the partitions of a topic. Raises ArchiveError, KafkaError."""
    reading = reading.committed(fail_on_data_loss=False, poll_timeout_ms=_WAIT_MS)
    brokers = Brokers(reading.client)
    view = brokers.retry(lambda: brokers.view([topic]))
    view.check_topic(topic)
    table = open_table(catalog, name or table_name(topic))
    check_topic(table.metadata, topic_in(view, topic))
    state = state_of(table)
    places = [TopicPartition(topic, each.partition) for each in view.topics[topic].partitions]
    led = [each for each in places if known_leader(view, each) is not None]
    first, last = (brokers.log_ends(led, at) for at in (EARLIEST, LATEST))
    for each in places:
        begin, end = first.get(each, 0), last.get(each)
        archived = state.offsets.get(each.partition, begin)
        wanted = OffsetRange(topic, view.topic_id(topic), each.partition, max(archived, begin), end or 0)
        age = _age_ms(wanted, reading, brokers) if wanted.size > 0 else None
        yield PartitionStatus(topic, each.partition, archived, end, age)


def _age_ms(wanted: OffsetRange, reading: ReadOptions, brokers: Brokers) -> int | None:
    """Return the age of the first batch of a range, by its earliest time; None where there is no batch."""
    sections = RangeFetch(wanted, reading, brokers).sections()
    try:
        for section in sections:
            if len(section.table):
                return max(wall_clock_ms() - int(section.table[0, BASE_TIMESTAMP]), 0)
    finally:
        sections.close()
    return None
