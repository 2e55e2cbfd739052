"""A range of a topic -> files of its table. Tasks of Spark run it, so it needs pyarrow, and nothing of pyiceberg."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

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

    `goes_on` gets the offset so far and the bytes written, and tells whether to go on. The files may be enough, too.
    """
    rows = TableRows(files.place.schema, wanted.topic, wanted.partition, wanted.start, wanted.end, typed)
    reader = range_reader(wanted, reading, brokers)
    reached, sections = wanted.end, reader.sections()

    def batches() -> Iterator[Any]:
        nonlocal reached
        for section in sections:
            yield from rows.feed(section)
            at = min(reader.position, wanted.end)
            if not goes_on(at, files.written_bytes):
                reached = at
                break
        yield from rows.rest()

    try:
        for batch in batches():
            taken = files.add(batch)
            if taken < len(batch):
                reached = batch.column("offset")[taken].as_py()
                break
        return reached, files.finish()
    except BaseException:
        files.abandon()
        raise
    finally:
        sections.close()
