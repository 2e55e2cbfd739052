"""A range of a topic -> files of its table. Tasks of Spark run it, so it needs pyarrow, and nothing of pyiceberg."""

from __future__ import annotations

from collections.abc import Callable

from ..arrow.brokers import Brokers
from ..arrow.connection import ReadOptions
from ..arrow.direct_read import range_reader
from ..arrow.fetch import OffsetRange
from .parquet_files import NewFile, PartitionFiles
from .rows import TableRows, Typed


def write_range(
    wanted: OffsetRange, files: PartitionFiles, reading: ReadOptions, brokers: Brokers,
    goes_on: Callable[[int, int], bool], typed: Typed | None = None,
) -> tuple[int, list[NewFile]]:  # fmt: skip
    """Write the files of a range. Return the offset that was reached and the files. Raises DataLoss, KafkaError.

    `goes_on` gets the offset so far and the bytes written, and tells whether to go on.
    """
    rows = TableRows(files.place.schema, wanted.topic, wanted.partition, wanted.start, wanted.end, typed)
    reader = range_reader(wanted, reading, brokers)
    reached, sections = wanted.end, reader.sections()
    try:
        for section in sections:
            for batch in rows.feed(section):
                files.add(batch)
            at = min(reader.position, wanted.end)
            if not goes_on(at, files.written_bytes):
                reached = at
                break
        for batch in rows.rest():
            files.add(batch)
        return reached, files.finish()
    except BaseException:
        files.abandon()
        raise
    finally:
        sections.close()
