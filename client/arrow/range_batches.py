"""A range of a partition as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .brokers import Brokers
from .connection import ReadOptions
from .decoder import ArrowBatch, ArrowDecoder, decoded, schema_of
from .direct_read import range_reader
from .fetch import OffsetRange


def range_batches(wanted: OffsetRange, options: ReadOptions, columns: Sequence[str]) -> Iterator[ArrowBatch]:
    """Return an iterator over Arrow batches with these columns of decoder.py. Raises DataLoss, KafkaError."""
    decoder = ArrowDecoder(
        schema_of(tuple(columns)), wanted.topic, wanted.partition, wanted.start, wanted.end,
        max_rows=options.arrow_batch_rows, check_crcs=options.client.check_crcs,
    )  # fmt: skip
    return decoded(range_reader(wanted, options, Brokers(options.client)).sections(), decoder)
