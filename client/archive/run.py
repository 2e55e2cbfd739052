"""From a topic to its table: one round reads what is new, writes it to files, and commits them once.

    the table -> its state -> [state, last stable offset) of each partition -> files -> one commit of files and state

Promise: each committed record below the state is in the table once, and none above it. A round that fails, is killed or
comes second leaves files that no commit names, and the next one begins where the table's state is.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..arrow.brokers import Brokers, known_leader
from ..arrow.connection import ReadOptions
from ..arrow.fetch import DataLoss, OffsetRange
from ..core.metadata import ClusterView
from ..core.metrics import Metric
from ..errors import KafkaError
from ..record import EARLIEST, LATEST, TopicPartition
from . import ArchiveError
from .day_files import TARGET_BYTES
from .layout import data_folder, place_of, table_name
from .local_files import LocalFileIO
from .once import COMMIT_TIMEOUT_S, Moved, Once, Stopped, looked
from .parquet_files import NewFile, PartitionFiles, write_range
from .places import open_or_create
from .state import STATE_KEY, State, TopicOf, check_topic, state_of, topic_in
from .typed import NoColumns, TypedValues, evolved

log = logging.getLogger(__name__)
T = TypeVar("T")
# A round that finds more than this ends early, so that a year's backlog comes in commits of this size.
COMMIT_BYTES = 1 << 30
# So does one that has made so many files: a commit has some 7 KB of memory for each of them.
COMMIT_FILES = 1_000
# How long a stop may wait for its archiver to look up.
_SLEEP_S = 0.1

# Called with the offsets of this round that are done, and all of them.
Progress = Callable[[int, int], object]
# Writes all files of ranges of a table, each from a state on, and returns those of each range.
Write = Callable[
    [Any, Sequence[tuple[OffsetRange, int]], ReadOptions, TypedValues | None], Mapping[OffsetRange, Sequence[NewFile]]
]


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """What an archiver does, beside the reading of a topic."""

    # Of the table, with its namespace; None: that of the topic's name.
    table: tuple[str, ...] | None = None
    # For a table without state: EARLIEST, LATEST, or an offset from 0 on. Later partitions begin at their first one.
    start: int = EARLIEST
    # Instead: the first record at or after this time.
    start_ms: int | None = None
    # Whether offsets that retention has removed before they were archived end the archiver.
    fail_on_data_loss: bool = True
    target_bytes: int = TARGET_BYTES
    commit_bytes: int = COMMIT_BYTES
    commit_files: int = COMMIT_FILES
    commit_timeout_s: float = COMMIT_TIMEOUT_S
    # How values get types, as the schema is when it is called: once a round.
    values: Callable[[], TypedValues] | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """What a round has done."""

    rows: int = 0
    files: int = 0
    size_bytes: int = 0
    # Offsets that are not archived yet, of those that there were when the round began.
    lag: int = 0
    # False where there was nothing new, and where another archiver was faster.
    is_committed: bool = False
    is_overtaken: bool = False


@dataclass(slots=True)
class Work:
    """What a round has read so far."""

    total: int
    offsets: dict[int, int] = field(default_factory=dict[int, int])
    files: list[NewFile] = field(default_factory=list[NewFile])
    done: int = 0
    written: int = 0

    def add(self, wanted: OffsetRange, reached: int, files: Sequence[NewFile]) -> None:
        """Take in the files of a range, of which the offsets below `reached` are read."""
        self.offsets[wanted.partition] = max(reached, self.offsets.get(wanted.partition, 0))
        self.files += files
        self.done += reached - wanted.start
        self.written += sum(each.size_bytes for each in files)


class Archiver:
    """Archives one topic. Not safe for threads; `stop` alone may be called from others, and by signals."""

    def __init__(
        self, catalog: Any, topic: str, reading: ReadOptions, options: ArchiveOptions | None = None,
        write: Write | None = None, stopped: threading.Event | None = None,
    ) -> None:  # fmt: skip
        """`write` writes the files of a round in another place than here. `stopped` is set by `stop`, or by others."""
        self.options = options or ArchiveOptions()
        self.topic, self.name = topic, self.options.table or table_name(topic)
        self._reading = reading.committed(fail_on_data_loss=self.options.fail_on_data_loss)
        self._brokers = Brokers(self._reading.client, sleep=self.pause)
        self.catalog, self._write = catalog, write
        self._run = uuid.uuid4().hex
        self._stopped = stopped or threading.Event()
        self._typed: TypedValues | None = None
        # Why partitions are not in this round.
        self._left_out: KafkaError | None = None
        # In this run.
        self.commits = 0
        # The number of the last one among all commits of the table.
        self.sequence_number = 0
        # Answers of the catalog that left the fate of a commit open.
        self.uncertain_answers = 0
        # The state of the table after the last round.
        self._reached: Mapping[int, int] = {}
        # Of all rounds, and of the last one.
        self._rows = self._bytes = self._lag = 0

    def stop(self) -> None:
        """Have the round end with what it has read, which it commits. It waits for nobody who does not answer."""
        self._stopped.set()

    def pause(self, seconds: float) -> None:
        """Wait for a catalog or a broker. Raises Stopped once this archiver is to end.

        A signal may stop it in this thread, which may not set an event that it waits for.
        """
        until = time.monotonic() + seconds
        while not self._stopped.is_set():
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, _SLEEP_S))
        raise Stopped(f"the archiver of {self.topic} was stopped, and waits no longer")

    def waiting(self) -> int:
        """Return how many offsets have come since the last round, or were left by it. Raises KafkaError."""
        places = [TopicPartition(self.topic, partition) for partition in self._reached]
        try:
            last = self._brokers.log_ends(places, LATEST)
        except Stopped:
            return 0
        return sum(max(last[each] - self._reached[each.partition], 0) for each in places)

    def metrics(self) -> Iterator[Metric]:
        """Yield what this run has done, for a bridge to Prometheus. Other threads may ask."""
        values = {
            "commits-total": self.commits,
            "rows-total": self._rows,
            "bytes-total": self._bytes,
            "uncertain-answers-total": self.uncertain_answers,
            "lag-offsets": self._lag,
        }
        for name, value in values.items():
            yield Metric("archive-metrics", name, value, {"topic": self.topic})

    def round(self, progress: Progress | None = None) -> Round:
        """Archive what is new. Raises ArchiveError, KafkaError, RecordError.

        Where brokers of some partitions are away for long, the others are committed before their error is raised.
        """
        self._left_out = None
        try:
            done = self._round(progress)
        except Stopped:  # before anything was committed
            return Round()
        self._rows += done.rows
        self._bytes += done.size_bytes
        self._lag = done.lag
        if self._left_out is not None:
            raise self._left_out
        return done

    def _round(self, progress: Progress | None) -> Round:
        view = self._brokers.retry(self._view)
        topic = topic_in(view, self.topic)
        table = self._looked(lambda: open_or_create(self.catalog, self.name, topic))
        values = None if self.options.values is None else self._values(self.options.values)
        if values is not None:
            table, self._typed = self._looked(lambda: evolved(self.catalog, self.name, values))
        state = state_of(table)
        ranges = self._ranges(view, state)
        work = Work(sum(each.size for each in ranges))
        # A round may end before it comes to a partition, which begins there all the same.
        work.offsets |= {each.partition: each.start for each in ranges if each.partition not in state.offsets}
        wanted = [each for each in ranges if each.size or each.start != state.offsets.get(each.partition)]
        self._read_all(table, wanted, state, work, progress)
        self._reached = {**state.offsets, **work.offsets}
        if all(state.offsets.get(partition) == offset for partition, offset in work.offsets.items()):
            return Round(lag=work.total - work.done)
        return self._finished(table, topic, state, work)

    def _looked(self, look: Callable[[], T]) -> T:
        return looked(look, self.options.commit_timeout_s, sleep=self.pause)

    def _finished(self, table: Any, topic: TopicOf, state: State, work: Work) -> Round:
        rows, size = sum(each.rows for each in work.files), sum(each.size_bytes for each in work.files)
        done = Round(rows, len(work.files), size, work.total - work.done, is_committed=True)
        return done if self._commit(table, topic, state, work) else Round(lag=work.total, is_overtaken=True)

    def _values(self, look: Callable[[], TypedValues]) -> TypedValues | None:
        """Return the types of values; those of the last round where the registry does not answer, or has none now.

        None where there were none: a schema without columns keeps no record out of the archive.
        """
        try:
            return look()
        except KafkaError as error:
            if self._typed is None and not isinstance(error, NoColumns):
                raise
            what = "values get no types" if self._typed is None else "the types of values are those of the last round"
            log.warning("%s: %s: %s", self.topic, what, error.message)
            return self._typed

    # -- The topic

    def _view(self) -> ClusterView:
        view = self._brokers.view([self.topic])
        view.check_topic(self.topic)
        return view

    def _ranges(self, view: ClusterView, state: State) -> list[OffsetRange]:
        """Return what of each partition the table lacks. Raises ArchiveError where state and log do not fit."""
        places = [TopicPartition(self.topic, each.partition) for each in view.topics[self.topic].partitions]
        try:
            first, last = self._ends(places)
        except KafkaError as error:
            led = self._led(places) if state.offsets else []
            if not led or led == places:
                raise
            self._left_out, places = error, led
            first, last = self._ends(places)
        topic_id = view.topic_id(self.topic)
        new = [each for each in places if each.partition not in state.offsets]
        starts = {each: first[each] for each in new} if state.offsets else self._starts(new, first, last)
        ranges: list[OffsetRange] = []
        for each in places:
            begin = starts[each] if each in starts else self._begin(each, state, first[each], last[each])
            ranges.append(OffsetRange(self.topic, topic_id, each.partition, begin, max(last[each], begin)))
        return ranges

    def _ends(self, places: Sequence[TopicPartition]) -> Sequence[Mapping[TopicPartition, int]]:
        return [self._brokers.log_ends(places, at) for at in (EARLIEST, LATEST)]

    def _led(self, places: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions that have a leader: these do not wait for the others, whose outage may be long."""
        view = self._view()
        return [each for each in places if known_leader(view, each) is not None]

    def _starts(
        self, places: Sequence[TopicPartition], first: Mapping[TopicPartition, int], last: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Return where partitions of a table without state begin."""
        start, time_ms = self.options.start, self.options.start_ms
        if time_ms is not None and places:
            found = self._brokers.retry(lambda: self._brokers.offsets_at(dict.fromkeys(places, time_ms)))
            return {each: last[each] if found[each] < 0 else found[each] for each in places}
        named = {EARLIEST: first, LATEST: last}.get(start)
        return {each: named[each] if named else min(max(start, first[each]), last[each]) for each in places}

    def _begin(self, of: TopicPartition, state: State, first: int, last: int) -> int:
        known = state.offsets[of.partition]
        if known > last:
            raise ArchiveError(f"the archive has {of.topic}-{of.partition} up to {known}, but its log ends at {last}")
        if known < first:
            what = f"{of.topic}-{of.partition} begins at {first}, and the archive ends at {known}"
            if self.options.fail_on_data_loss:
                raise ArchiveError(f"{what}: retention has removed records before they were archived")
            log.warning("%s: going on with the records that exist", what)
            return first
        return known

    # -- Reading and writing

    def _read_all(
        self, table: Any, ranges: Sequence[OffsetRange], state: State, work: Work, progress: Progress | None
    ) -> None:
        """Write the files of ranges, until this round has enough."""
        if self._write is not None:
            wanted = [(each, state.offsets.get(each.partition, 0)) for each in ranges]
            for each, files in self._write(table, wanted, self._reading, self._typed).items():
                work.add(each, each.end, files)
            return
        for wanted in sorted(ranges, key=lambda each: -each.size):
            left = self.options.commit_files - len(work.files)
            if self._stopped.is_set() or work.written >= self.options.commit_bytes or left <= 0:
                break

            def goes_on(at: int, written: int, start: int = wanted.start) -> bool:
                if progress is not None:
                    progress(work.done + at - start, work.total)
                return not self._stopped.is_set() and work.written + written < self.options.commit_bytes

            begin, place = state.offsets.get(wanted.partition, 0), place_of(table)
            files = PartitionFiles(place, wanted.partition, begin, self.options.target_bytes, left)
            try:
                reached, written = write_range(wanted, files, self._reading, self._brokers, goes_on, self._typed)
            except DataLoss as error:
                raise ArchiveError(error.message.split("; set failOnDataLoss")[0]) from error
            except Stopped:
                break
            except ArchiveError:
                raise
            except KafkaError as error:  # of brokers: what was read before is committed
                self._left_out = error
                break
            work.add(wanted, reached, written)

    # -- The commit

    def _commit(self, table: Any, topic: TopicOf, before: State, work: Work) -> bool:
        """Commit the files and the new state. Return False where another archiver came first. Raises ArchiveError.

        Files of an archiver that came second stay: its commit may have been applied, compacted and expired before the
        look. `expire` removes them once that is sure.
        """
        text = _after(before, work, self._run).text()
        deadline = time.monotonic() + self.options.commit_timeout_s
        while True:
            once = Once(self.catalog, self.options.commit_timeout_s, sleep=self.pause)
            try:
                commit_files(table, once, [each.path for each in work.files], {STATE_KEY: text})
                self.commits += 1
                self.sequence_number = table.metadata.last_sequence_number
                return True
            except Moved:
                table = self._looked(lambda: self.catalog.load_table(self.name))
                check_topic(table.metadata, topic)
                if state_of(table) != before:
                    log.info("another archiver of %s came first", self.topic)
                    return False
                if time.monotonic() > deadline:
                    raise ArchiveError(f"other commits to {'.'.join(self.name)} came first for too long") from None
            finally:
                self.uncertain_answers += once.uncertain


def commit_files(table: Any, once: Once, paths: list[str], entries: Mapping[str, str]) -> None:
    """Append files to a table in one commit with entries, which are its state.

    Raises Moved, CommitUncertain, and ArchiveError for files that were written for another table of this name.
    """
    folder = data_folder(table) + "/"
    if other := next((each for each in paths if not each.startswith(folder)), None):
        why = f"was dropped and made again since {other} was written"
        raise ArchiveError(f"{'.'.join(table.name())} {why}: nothing of it is committed")
    if isinstance(table.io, LocalFileIO):
        table.io.sync_names(paths)
    with once.transaction(table) as transaction:
        if entries:
            transaction.set_properties(dict(entries))
        transaction.add_files(paths, snapshot_properties=dict(entries), check_duplicate_files=False)


def _after(before: State, work: Work, run: str) -> State:
    last: dict[int, int] = dict(before.last)
    for each in work.files:
        last[each.partition] = max(last.get(each.partition, -1), each.last)
    offsets: Mapping[int, int] = {**before.offsets, **work.offsets}
    return State(dict(sorted(offsets.items())), dict(sorted(last.items())), uuid.uuid4().hex, run)
