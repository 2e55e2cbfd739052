"""A topic as a table: `await read_topic("flights", start=datetime(...))` is a `pyarrow.Table`, or pandas, or Polars.

With an `archive` (docs/archive.md) the table begins with its rows, and the log is read behind them alone.

With `path="direct"` they come from the broker's files, where this program can read these: in a thread, because files
are read without the event loop.

The end is decided when the call begins, so it ends also while others write. Records come partition by partition, each
in the order of its offsets.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from operator import index
from typing import Any, Unpack, cast

from .. import how_to_install
from .archive import Archive, check_packages
from .arrow.brokers import Brokers
from .arrow.connection import ClientOptions, ReadOptions, ReadPath, client_options
from .arrow.direct_read import DirectRead
from .arrow.fetch import OffsetRange
from .arrow.tables import DEFAULT_COLUMNS, ArrowColumns, check_columns
from .consumer import Consumer
from .consumer.fetched_batch import FetchedBatch, joined
from .consumer.known_ends import KnownEnds
from .core.clock import first_ms, monotonic_ms
from .core.lifetime import without_cancelling
from .core.option_values import bootstrap_addresses
from .core.options import check_choice, check_numbers, check_topic, security_options
from .core.security import SecurityArguments
from .errors import DirectReadNotPossible, InvalidOption, RequestTimedOut
from .record import TopicPartition

# "earliest" or "latest", an offset, a time, or one of these for each partition.
Bound = str | int | datetime
Bounds = Bound | Mapping[int, Bound]
# Called with the offsets that are done and all of them.
Progress = Callable[[int, int], object]

log = logging.getLogger(__name__)

PATHS = ("fetch", "direct", "auto")
# "lazy" is a LazyFrame of Polars, of a topic with an archive.
FORMATS = ("arrow", "pandas", "polars", "lazy")
# What brings the package of a format.
_EXTRAS = {"pandas": "pip install pandas", "polars": how_to_install("polars"), "lazy": how_to_install("polars")}
_CLIENT_ID = "odradek-read-topic"
# A fetch brings so much of a partition, and a poll so much in all.
_FETCH_BYTES = 8 << 20
_POLL_BYTES = 16 << 20
_POLL_MS = 1_000
# The broker answers a fetch that finds nothing after so long, or after half the time that it has.
_FETCH_WAIT_MS = 500


async def read_topic(
    topic: str,
    *,
    bootstrap_servers: str | Sequence[str] = "127.0.0.1:9092",
    start: Bounds = "earliest",
    end: Bounds = "latest",
    partitions: Collection[int] | None = None,
    columns: Sequence[str] = DEFAULT_COLUMNS,
    format: str = "arrow",
    isolation_level: str = "read_uncommitted",
    path: str = "fetch",
    progress: Progress | None = None,
    request_timeout_ms: float = 30_000,
    archive: Archive | str | None = None,
    archive_only: bool = False,
    **security: Unpack[SecurityArguments],
) -> Any:
    """Return the records of a topic from `start` up to `end` (exclusive), as a table of `columns`.

    A bound is "earliest", "latest", an offset, a time (the first record at or after it), or one of these by partition.
    Records that retention has removed are left out. `path` is "fetch", "direct" (from the broker's files) or "auto"
    (from the files where that is possible). `archive` is where `odradek archive` has the topic: committed records come
    from there first, each once; `archive_only` asks no broker, and ends where the archive ends.

    Raises KafkaError, RequestTimedOut where nothing comes for twice `request_timeout_ms`, DirectReadNotPossible,
    InvalidOption (also where the package of a `format` is missing), UnknownTopic and OffsetOutOfRange (also where the
    records are gone meanwhile); with an archive also ArchiveError.
    """
    check_choice("format", format, FORMATS)
    check_choice("path", path, PATHS)
    check_topic(topic)
    check_numbers(request_timeout_ms=request_timeout_ms)
    check_columns(columns)
    start, end, partitions = _bounds("start", start), _bounds("end", end), _numbers(partitions)
    if archive is not None:
        reading = None if archive_only else _union_options(bootstrap_servers, path, request_timeout_ms, security)
        bounds = start, end, partitions
        return await _read_union(archive, topic, reading, bounds, tuple(columns), format, progress)
    if archive_only or format == "lazy":
        raise InvalidOption("archive_only and the format 'lazy' need an archive")
    consumer = Consumer(
        bootstrap_servers=bootstrap_servers,
        client_id=_CLIENT_ID,
        isolation_level=isolation_level,
        max_partition_fetch_bytes=_FETCH_BYTES,
        request_timeout_ms=request_timeout_ms,
        default_api_timeout_ms=request_timeout_ms,
        fetch_max_wait_ms=int(min(_FETCH_WAIT_MS, request_timeout_ms / 2)),
        allow_auto_create_topics=False,
        auto_offset_reset="earliest",
        **security,
    )
    async with consumer:
        numbers = await consumer.partitions_for(topic) if partitions is None else partitions
        places = [TopicPartition(topic, number) for number in numbers]
        first, last = await consumer.beginning_offsets(places), await consumer.end_offsets(places)
        starts = await _offsets(consumer, start, places, first, last)
        ends = await _offsets(consumer, end, places, first, last)
        filled = {place: ArrowColumns(columns, place, ends[place], kept=True) for place in places}
        tables: list[Any] = []
        if path != "fetch":
            client = _client_options(bootstrap_servers, request_timeout_ms, security, isolation_level)
            direct = [_DirectPartition(place, columns, starts[place], ends[place]) for place in places]
            await _read_directly(direct, client, progress, must=path == "direct")
            tables = [filled[each.place].table_of(each.batches) for each in direct]
            starts = {each.place: each.position for each in direct}
        await _read(consumer, starts, ends, filled, progress, request_timeout_ms)
    tables += [each.table() for each in filled.values()]
    return _in_format(import_module("pyarrow").concat_tables(tables), format)


def _bounds(name: str, given: Any) -> Bounds:
    """Return a bound, or those by partition, also of other libraries' whole numbers. Raises InvalidOption."""
    if isinstance(given, Mapping):
        return {number: _bound(name, each) for number, each in cast("Mapping[int, Any]", given).items()}
    return _bound(name, given)


def _bound(name: str, given: Any) -> Bound:
    try:
        if isinstance(given, datetime):
            first_ms(given)
            return given
        return given if given in ("earliest", "latest") else index(given)
    except (TypeError, ValueError, OverflowError):
        kinds = '"earliest", "latest", an offset, a datetime, or one of these for each partition'
        raise InvalidOption(f"{name} is {kinds}, not {given!r:.100}") from None


def _numbers(partitions: Collection[int] | None) -> list[int] | None:
    """Return the numbers of partitions, each once. Raises InvalidOption."""
    try:
        numbers = None if partitions is None else sorted({index(each) for each in partitions})
    except TypeError:
        numbers = []
    if numbers == []:
        raise InvalidOption(f"partitions is a list of numbers, not {partitions!r:.100}; without it all are read")
    return numbers


def _client_options(
    servers: str | Sequence[str], timeout_ms: float, security: SecurityArguments, level: str = "read_uncommitted"
) -> ClientOptions:
    given = {"client.id": _CLIENT_ID, "request.timeout.ms": round(timeout_ms), "isolation.level": level}
    return client_options(bootstrap_addresses(servers), security_options("read_topic", security), given)


def _union_options(
    servers: str | Sequence[str], path: str, timeout_ms: float, security: SecurityArguments
) -> ReadOptions:
    return ReadOptions(_client_options(servers, timeout_ms, security), path=ReadPath(path))


async def _read_union(
    archive: Archive | str,
    topic: str,
    reading: ReadOptions | None,
    bounds: tuple[Bounds, Bounds, Collection[int] | None],
    columns: Sequence[str],
    format: str,
    progress: Progress | None,
) -> Any:
    """Return the table of a topic with an archive. It is read in a thread, which ends soon after a cancellation."""
    check_packages()
    from .archive.union import cut  # with packages of an optional extra
    from .archive.union_table import lazy, part, read

    loop, stopped = asyncio.get_running_loop(), threading.Event()

    def passed(done: int, total: int) -> bool:
        if progress is not None:
            loop.call_soon_threadsafe(progress, done, total)
        return not stopped.is_set()

    def work() -> Any:
        if format == "lazy":
            return lazy(part(cut(archive, topic, reading), *bounds), columns)
        return read(lambda: cut(archive, topic, reading), columns, lambda whole: part(whole, *bounds), passed)

    running = loop.run_in_executor(None, work)
    try:
        return _in_format(await without_cancelling(running), format)
    except asyncio.CancelledError:
        stopped.set()
        raise


async def _offsets(
    consumer: Consumer,
    bounds: Bounds,
    places: Sequence[TopicPartition],
    first: Mapping[TopicPartition, int],
    last: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return the offset of a bound in each partition, within its log."""
    wanted = {place: bounds.get(place.partition) if isinstance(bounds, Mapping) else bounds for place in places}
    if missing := [place.partition for place, bound in wanted.items() if bound is None]:
        raise InvalidOption(f"no bound is given for partition {missing[0]}")
    times = {place: first_ms(bound) for place, bound in wanted.items() if isinstance(bound, datetime)}
    found = await consumer.offsets_for_times(times) if times else {}
    offsets: dict[TopicPartition, int] = {}
    for place, bound in wanted.items():
        if isinstance(bound, datetime):
            at = found[place]
            offset = last[place] if at is None else at.offset
        elif isinstance(bound, int):
            offset = bound
        else:
            offset = first[place] if bound == "earliest" else last[place]
        offsets[place] = min(max(offset, first[place]), last[place])
    return offsets


async def _read_directly(
    partitions: Sequence[_DirectPartition], options: ClientOptions, progress: Progress | None, *, must: bool
) -> None:
    """Read each partition as far as its files can be read. Raises DirectReadNotPossible if they `must` be."""
    total = sum(each.end - each.start for each in partitions)

    def passed() -> None:
        if progress is not None:
            progress(sum(each.position - each.start for each in partitions), total)

    for each in partitions:
        try:
            await each.read(options, passed)
        except DirectReadNotPossible as error:
            if must:
                raise
            log.warning("%s; the records are fetched from the broker instead", error.message)


class _DirectPartition:
    """The records of one partition from `start` up to `end`. `batches` are those below `position`."""

    def __init__(self, place: TopicPartition, columns: Sequence[str], start: int, end: int) -> None:
        self.place = place
        self.start, self.position, self.end = start, start, end
        self.batches: list[Any] = []
        self._columns = tuple(columns)
        self._stopped = threading.Event()

    async def read(self, options: ClientOptions, passed: Callable[[], object]) -> None:
        """Read all of it, and call `passed` when `position` has moved.

        Raises DirectReadNotPossible, after which the rest can be fetched, and the errors of a fetch.
        """
        loop = asyncio.get_running_loop()
        reading = loop.run_in_executor(None, self._read, options, lambda: loop.call_soon_threadsafe(passed))
        try:
            await without_cancelling(reading)
        except asyncio.CancelledError:
            # The thread ends at the next section, and gives its lease back.
            self._stopped.set()
            await asyncio.wait([reading])
            raise

    def _read(self, options: ClientOptions, passed: Callable[[], object]) -> None:
        from .arrow.decoder import ArrowDecoder, schema_of

        topic, number = self.place
        reading = ReadOptions(options, fail_on_data_loss=False, path=ReadPath.DIRECT)
        brokers = Brokers(options)
        topic_id = brokers.retry(lambda: brokers.view([topic])).topic_id(topic)
        wanted = OffsetRange(topic, topic_id, number, self.start, self.end)
        schema, most = schema_of(self._columns), reading.arrow_batch_rows
        decoder = ArrowDecoder(schema, topic, number, self.start, self.end, max_rows=most)
        reader = DirectRead(wanted, reading, brokers)
        sections = reader.sections()
        try:
            for section in sections:
                self.batches += decoder.feed(section.source, section.table)
                self.position = min(reader.position, self.end)
                passed()
                if self._stopped.is_set():
                    return
            self.position = self.end
            passed()
        finally:
            sections.close()
            rest = decoder.rest()
            if rest is not None:
                self.batches.append(rest)


async def _read(
    consumer: Consumer,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    filled: Mapping[TopicPartition, ArrowColumns],
    progress: Progress | None,
    timeout_ms: float,
) -> None:
    at = dict(starts)
    left = {place for place, offset in starts.items() if offset < ends[place]}
    total = sum(ends[place] - starts[place] for place in left)
    consumer.assign(left)
    for place in left:
        consumer.seek(place, starts[place])
    known = KnownEnds(consumer, ends)
    last_ms = monotonic_ms()
    while left:
        before = dict(at)
        found = await consumer.getbatches(timeout_ms=_POLL_MS, max_bytes=_POLL_BYTES)
        known.check(() if found else left)
        _fill(filled, found, starts)
        del found  # so that the memory of the fetch is used again at once
        for place in list(left):
            # Also where the last offsets have no records: markers, and what compaction removed.
            at[place] = await consumer.position(place)
            if at[place] >= ends[place]:
                left.discard(place)
                consumer.pause(place)
        if at != before:
            last_ms = monotonic_ms()
        elif monotonic_ms() - last_ms >= 2 * timeout_ms:  # the ends, which say why, are asked for meanwhile
            raise RequestTimedOut(
                f"nothing of {min(left)} came within {2 * timeout_ms:g} ms (twice request_timeout_ms)"
            )
        if progress is not None:
            progress(sum(min(at[place], ends[place]) - starts[place] for place in starts if place in at), total)


def _fill(
    filled: Mapping[TopicPartition, ArrowColumns],
    found: Mapping[TopicPartition, Sequence[FetchedBatch]],
    starts: Mapping[TopicPartition, int],
) -> None:
    """Add what a poll has found."""
    for place, batches in found.items():
        for data in joined(batches):
            filled[place].add(data, starts[place])


def _in_format(table: Any, format: str) -> Any:
    try:
        if format == "pandas":
            return table.to_pandas()
        return table if format in ("arrow", "lazy") else import_module("polars").from_arrow(table)
    except ImportError as error:
        raise InvalidOption(f"the format {format!r} needs the package {format}: {_EXTRAS[format]}") from error
