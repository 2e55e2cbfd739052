"""Archives by Spark: tasks write files, the driver commits once. And hot and cold as one DataFrame.

    driver: table -> state -> ranges -> pieces        task: a piece -> files        driver: one commit of all files

There is no query of Spark's and no checkpoint: the offsets are in the table. Tasks that Spark repeats or runs twice
leave files that no commit names, which `odradek archive expire` removes. All of it works with Spark Connect, too.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from ..archive import Archive, ArchiveError, check_packages, opened
from ..arrow.brokers import Brokers
from ..arrow.connection import ReadOptions
from ..arrow.fetch import OffsetRange
from ..arrow.read_options import read_options
from ..core.options import check_choice
from ..errors import InvalidOption
from ..record import EARLIEST, LATEST
from .option_texts import value_of
from .options import parse_options
from .plan import divide

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ..archive.day_files import TablePlace
    from ..archive.run import Round
    from ..archive.typed import TypedValues
    from ..schemas.schema_registry import SchemaRegistry

_WRITTEN = "partition int, path string, first long, last long, rows long, size_bytes long"
_STARTS = {"earliest": EARLIEST, "latest": LATEST}
# What each task opens costs seconds; a piece has so many offsets at least.
_LEAST_OFFSETS = 100_000


def archive(
    spark: SparkSession,
    topic: str,
    to: Archive | str,
    *,
    every_s: float | None = None,
    stopped: threading.Event | None = None,
    value_format: str | None = None,
    fields: str | None = None,
    registry: SchemaRegistry | str | None = None,
    bad: str = "keep",
    **options: str,
) -> Round:
    """Archive what is new of a topic, in one commit, and return what was done.

    With `every_s` again and again, until `stopped` is set. `value_format` (json, avro, json-schema), `fields`,
    `registry` and `bad` give values types, as those of `odradek archive run` do; tasks ask the registry, too. `options`
    are those of the source that begin with `kafka.`, `path`, `startingOffsets` (earliest or latest, for a table without
    state), `minPartitions` and `failOnDataLoss`.
    Raises ArchiveError, KafkaError, InvalidOption.
    """
    check_packages()
    from ..archive.run import ArchiveOptions, Archiver
    from ..archive.typed import values_by
    from ..archive.upkeep import keep_up
    from ..schemas import SchemaRegistry

    texts = dict(options)
    start = texts.pop("startingOffsets", "earliest")
    if start not in _STARTS:
        raise InvalidOption(f"startingOffsets of an archive is earliest or latest, not {start!r}")
    least = value_of({"minpartitions": texts.pop("minPartitions", "1")}, "minPartitions", "source")
    lost = texts.pop("failOnDataLoss", "true").lower()
    check_choice("failOnDataLoss", lost, ("true", "false"))
    schemas = SchemaRegistry(registry) if isinstance(registry, str) else registry
    values = values_by(topic, value_format, fields, schemas, bad)
    reading = read_options(texts, "archives")
    with opened(to, create=True) as (catalog, name):
        settings = ArchiveOptions(name, _STARTS[start], fail_on_data_loss=lost == "true", values=values)
        write = partial(_written, spark, settings.target_bytes, least)
        archiver = Archiver(catalog, topic, reading, settings, write, stopped)
        while True:
            began = time.monotonic()
            done = archiver.round()
            if done.is_committed:
                keep_up(archiver)
            if every_s is None:
                if not done.is_overtaken:
                    return done
                continue
            if (stopped or threading.Event()).wait(max(every_s - (time.monotonic() - began), 0)):
                return done


def _written(
    spark: SparkSession, target_bytes: int, least: int, table: Any, wanted: Sequence[tuple[OffsetRange, int]],
    reading: ReadOptions, typed: TypedValues | None,
) -> dict[OffsetRange, list[Any]]:  # fmt: skip
    """Have tasks write ranges, each from a state on. Return the files of each. Raises ArchiveError."""
    from ..archive.layout import place_of
    from ..archive.parquet_files import NewFile

    begins = {each.partition: begin for each, begin in wanted}
    offsets = sum(each.size for each, _ in wanted)
    count = max(least, min(2 * _cores(spark), offsets // _LEAST_OFFSETS))
    pieces = tuple((each, begins[each.partition]) for each in divide([each for each, _ in wanted], count))
    found: dict[int, list[NewFile]] = {partition: [] for partition in begins}
    if pieces:
        write = partial(_write, place_of(table), pieces, reading, target_bytes, typed)  # it is pickled
        tasks = spark.range(0, len(pieces), 1, len(pieces)).mapInArrow(write, _WRITTEN)
        try:
            rows = tasks.collect()
        except PySparkException as error:
            last = next((line for line in reversed(str(error).splitlines()) if "odradek" in line), str(error))
            raise ArchiveError(f"tasks of Spark failed, and nothing is committed: {last.strip()}") from error
        for row in rows:
            found[row["partition"]].append(NewFile(row["path"], *row[:1], *row[2:]))
    return {each: found[each.partition] for each, _ in wanted}


def _cores(spark: SparkSession) -> int:
    """Return how many tasks may run at a time, as far as it is known: Connect does not say."""
    context: Any = getattr(spark, "_sc", None)
    return 4 if context is None else context.defaultParallelism


def _write(
    place: TablePlace, pieces: Sequence[tuple[OffsetRange, int]], reading: ReadOptions, target_bytes: int,
    typed: TypedValues | None, batches: Iterator[Any],
) -> Iterator[Any]:  # fmt: skip
    """Write the pieces whose numbers come. It runs in tasks."""
    import pyarrow as pa

    from ..archive.parquet_files import PartitionFiles, write_range

    for number in (each for batch in batches for each in batch.column(0).to_pylist()):
        wanted, begin = pieces[number]
        files = PartitionFiles(place, wanted.partition, begin, target_bytes)
        brokers = Brokers(reading.client, first=number, was_reached=True)
        _, written = write_range(wanted, files, reading, brokers, lambda _at, _bytes: True, typed)
        rows = [(each.partition, each.path, each.first, each.last, each.rows, each.size_bytes) for each in written]
        types = (pa.int32(), pa.string(), pa.int64(), pa.int64(), pa.int64(), pa.int64())
        columns = zip(*rows, strict=True) if rows else [()] * len(types)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=["partition", "path", "first", "last", "rows", "size_bytes"])


# -- Hot and cold


def table(
    spark: SparkSession, topic: str, archive: Archive | str, *, archive_only: bool = False, **options: str
) -> DataFrame:
    """Return a topic as one DataFrame: the files of its archive, and the log from the archive's offsets on.

    Each committed record is there once, as the topic is now. Spark's own reader takes the files, so that its filters
    and columns leave out row groups. `options` are those of the source. `archive_only` reads the files alone, and asks
    no broker. Raises ArchiveError, KafkaError, OptionError.
    """
    check_packages()
    from ..archive.union import cut

    texts = {"subscribe": topic, "kafka.isolation.level": "read_committed", **options}
    parsed = None if archive_only else parse_options(texts)
    found = cut(archive, topic, parsed)
    has_headers = options.get("includeHeaders", "false").lower() == "true"
    frames = [_files(spark, found, has_headers=has_headers)]
    if not archive_only:
        starts, ends = ({str(each.partition): getattr(each, name) for each in found.hot} for name in ("start", "end"))
        bounds = {"startingOffsets": json.dumps({topic: starts}), "endingOffsets": json.dumps({topic: ends})}
        frames.append(spark.read.format("odradek").options(**{**texts, **bounds}).load())
    return reduce(lambda cold, hot: cold.unionByName(hot), frames)


def _files(spark: SparkSession, found: Any, *, has_headers: bool) -> DataFrame:
    header = "array<struct<key: string, value: binary, raw_key: binary>>"
    schema = "partition int, offset long, timestamp timestamp, timestamp_type int, key binary, value binary"
    paths = [each.path for each in found.files]
    rows = (
        spark.read.schema(f"{schema}, headers {header}").parquet(*paths)
        if paths
        else spark.createDataFrame([], f"{schema}, headers {header}")
    )
    # In SQL: where a program has both kinds of sessions, pyspark's functions are of one. A topic's name has no quotes.
    names = ["key", "value", f"'{found.topic}' AS topic", "partition", "offset", "timestamp",
             "timestamp_type AS timestampType"]  # fmt: skip
    if has_headers:
        names.append("transform(headers, each -> struct(each.key AS key, each.value AS value)) AS headers")
    return rows.selectExpr(*names)
