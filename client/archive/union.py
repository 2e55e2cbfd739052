"""Hot and cold as one table: the archive of a topic up to its offsets, and the log from there on.

    table -> its state X -> its files          first
    [X, end of the log) of each partition      then

Below X the files alone count, from X on the log alone. So each record is there once, whatever archivers, compaction,
expiry, retention and producers do meanwhile. Where the log begins behind X, the archive has moved on: the table is
loaded again. Rows have the columns of `client/arrow/decoder.py` in either half.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ..arrow.brokers import Brokers, known_leader
from ..arrow.connection import ReadOptions
from ..arrow.decoder import range_batches, schema_of
from ..arrow.fetch import DataLoss, OffsetRange
from ..errors import NoBrokerReachable
from ..record import EARLIEST, LATEST, TopicPartition
from . import Archive, ArchiveError, opened
from .data_files import FIRST_MS, DataFile, files_of, partition_rows
from .state import TOPIC_KEY, State, check_topic, state_of, topic_in, topic_of

log = logging.getLogger(__name__)

# Times that a table is loaded again, because retention was faster than this look.
_LOOKS = 3
# What the columns of a read are called in a table.
STORED = {"timestampType": "timestamp_type"}


@dataclass(frozen=True, slots=True)
class Cut:
    """A topic at one moment. Each range is of one partition; a partition has one of each kind at most."""

    topic: str
    table: Any
    files: list[DataFile]
    cold: list[OffsetRange]
    # None of these where the archive alone is read.
    hot: list[OffsetRange]
    # With committed records alone, as the archive has them.
    reading: ReadOptions | None

    def cold_batches(self, wanted: OffsetRange, columns: Sequence[str], from_ms: int = 0) -> Iterator[Any]:
        """Yield Arrow batches of rows of the table; 0: of all times. Raises FilesGone."""
        schema = schema_of(tuple(columns))
        names = list(dict.fromkeys(["offset", *(STORED.get(name, name) for name in columns if name != "topic")]))
        place = self.files, wanted.partition, names, wanted.start, wanted.end, from_ms or FIRST_MS
        for rows in partition_rows(self.table, *place):
            topic = pa.repeat(pa.scalar(wanted.topic), len(rows)) if "topic" in columns else None
            made = [topic if name == "topic" else rows[STORED.get(name, name)] for name in columns]
            yield from pa.table(made, names=list(columns)).cast(schema).to_batches(max_chunksize=65_536)

    def hot_batches(self, wanted: OffsetRange, columns: Sequence[str]) -> Iterator[Any]:
        """Yield Arrow batches of records of the log. Raises DataLoss, KafkaError."""
        assert self.reading is not None, "there is no hot half"
        return range_batches(wanted, self.reading, columns)

    def first_at(self, partition: int, time_ms: int) -> int | None:
        """Return the offset of the first record at or after a time, None where there is none."""
        for each in (each for each in self.cold if each.partition == partition):
            for batch in self.cold_batches(each, ["offset", "timestamp"], time_ms):
                times = batch.column(1).cast(pa.int64()).to_numpy()
                late = (times >= time_ms * 1000).nonzero()[0]
                if len(late):
                    return batch.column(0)[int(late[0])].as_py()
        if self.reading is None:
            return None
        brokers, of = Brokers(self.reading.client), TopicPartition(self.topic, partition)
        # Times before 1970 would be sentinels there.
        found = brokers.retry(lambda: brokers.offsets([of], max(time_ms, 0)))[of]
        return None if found < 0 else found


def cut(archive: Archive | str, topic: str, reading: ReadOptions | None) -> Cut:
    """Return a topic as it is now; without `reading`, what the archive alone has. Raises ArchiveError, KafkaError.

    Raises DataLoss where retention has removed records that are in neither half, unless the options say otherwise.
    """
    for look in range(_LOOKS):
        table = _table(archive, topic)
        state, files = state_of(table), files_of(table)
        if reading is None:
            held = topic_of(table.metadata)
            if held.name != topic:
                raise ArchiveError(f"the table at {table.metadata.location} holds {held.name!r}, not {topic!r}")
            return Cut(topic, table, files, _cold(topic, bytes.fromhex(held.id), state, files), [], None)
        found = _with_log(topic, table, (state, files), reading.committed(), is_last=look == _LOOKS - 1)
        if found is not None:
            return found
    raise AssertionError("the last look returns or raises")


def _with_log(
    topic: str, table: Any, held: tuple[State, list[DataFile]], reading: ReadOptions, *, is_last: bool
) -> Cut | None:
    """Return the two halves, None where they do not meet and another look may help."""
    brokers = Brokers(reading.client)
    state, files = held
    try:
        view = brokers.retry(lambda: brokers.view([topic]))
    except NoBrokerReachable as error:
        why = f"the archive has {topic} up to {_text(state)}, and what comes then is not known; it can be read alone"
        raise NoBrokerReachable(f"{error.tried}: {why} (archive_only)", listens=True) from error
    view.check_topic(topic)
    topic_id = view.topic_id(topic)
    check_topic(table.metadata, topic_in(view, topic))
    places = [TopicPartition(topic, each.partition) for each in view.topics[topic].partitions]
    first, last = (brokers.log_ends(places, at, view) for at in (EARLIEST, LATEST))
    hot: list[OffsetRange] = []
    for each in places:
        begin = state.offsets.get(each.partition, first[each])
        if begin > last[each]:
            raise ArchiveError(f"the archive has {each.topic}-{each.partition} up to {begin}, the log to {last[each]}")
        if begin < first[each]:
            if not is_last:
                return None
            what = f"{each.topic}-{each.partition} [{begin}, {first[each]}) is neither in the archive nor in the log"
            if reading.fail_on_data_loss:
                raise DataLoss(what)
            log.warning("%s: going on with the records that exist", what)
        leader = known_leader(view, each)
        hot.append(OffsetRange(topic, topic_id, each.partition, max(begin, first[each]), last[each], leader))
    return Cut(topic, table, files, _cold(topic, topic_id, state, files), hot, reading)


def archived_topics(archive: Archive | str) -> dict[str, tuple[str, ...]]:
    """Return the topics that an archive has, each with its table: of the usual names, or the one that is named."""
    from .layout import NAMESPACE
    from .places import open_table

    with opened(archive) as (catalog, named):
        found: dict[str, tuple[str, ...]] = {}
        for name in catalog.list_tables(NAMESPACE) if named is None else [named]:
            metadata = open_table(catalog, name).metadata
            if named is not None or TOPIC_KEY in metadata.properties:
                found[topic_of(metadata).name] = name
        return found


def _table(archive: Archive | str, topic: str) -> Any:
    from .layout import table_name
    from .places import open_table

    with opened(archive) as (catalog, named):
        return open_table(catalog, named or table_name(topic))


def _cold(topic: str, topic_id: bytes, state: State, files: Sequence[DataFile]) -> list[OffsetRange]:
    found: list[OffsetRange] = []
    for partition, end in state.offsets.items():
        first = min((max(each.bounds.first, 0) for each in files if each.holds(partition)), default=end)
        found.append(OffsetRange(topic, topic_id, partition, min(first, end), end))
    return found


def _text(state: State) -> str:
    return ", ".join(f"{partition}:{offset}" for partition, offset in state.offsets.items()) or "nothing"
