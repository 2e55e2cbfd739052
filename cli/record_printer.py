"""Prints the records of `odradek consume`, many at a time, and knows which of them its reader got."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from ..protocol.errors import DecodeError
from .errors import CliError
from .offset_range import Bounds
from .record_format import LineFormat
from .record_output import RecordOutput

if TYPE_CHECKING:
    from ..client import ConsumerRecord, FetchedBatch, TopicPartition


class RecordPrinter:
    """Writes records within their bounds to an output. With `tracks`, it knows what the output's reader got."""

    def __init__(
        self, line: LineFormat, bounds: Mapping[TopicPartition, Bounds], output: RecordOutput, tracks: bool
    ) -> None:
        self.count = 0
        self._line = line
        self._bounds = bounds
        self._output = output
        self._tracks = tracks and not output.is_file
        self._end = 0
        # Where the line of each record ends in the output, for records whose lines the reader may not have got yet.
        self._pending: deque[tuple[int, TopicPartition, int]] = deque()

    @property
    def takes_batches(self) -> bool:
        """Whether `print_batches` does: it prints values and nothing else."""
        return self._line.null_value is not None and not self._tracks

    async def print(self, partition: TopicPartition, records: list[ConsumerRecord]) -> None:
        """Print records."""
        bounds = self._bounds.get(partition)
        if bounds is not None:
            records = [each for each in records if _is_within(bounds, each.offset)]
        lines = [self._line.of(record) for record in records]
        self.count += len(lines)
        if not self._tracks:
            return await self._output.write(b"".join(lines))
        taken = self._output.taken_bytes()
        while self._pending and self._pending[0][0] <= taken:
            self._pending.popleft()
        for record, line in zip(records, lines, strict=True):
            self._end += len(line)
            self._pending.append((self._end, partition, record.offset))
        await self._output.write_in_step(lines)

    async def print_batches(self, partition: TopicPartition, batches: Sequence[FetchedBatch]) -> None:
        """Print the values of whole batches, without a step of Python for each."""
        null = self._line.null_value
        assert null is not None
        for batch in batches:
            values = self._values(batch, self._bounds.get(partition))
            if values:
                self.count += len(values)
                shown = [null if value is None else value for value in values] if None in values else values
                await self._output.write(b"%b\n" % b"\n".join(cast("list[bytes]", shown)))

    def _values(self, batch: FetchedBatch, bounds: Bounds | None) -> list[bytes | None]:
        first, last = batch.header.base_offset, batch.header.last_offset
        try:
            if batch.is_whole and (bounds is None or (_is_within(bounds, first) and _is_within(bounds, last))):
                return batch.values()
            return [each.value for each in batch.records() if bounds is None or _is_within(bounds, each.offset)]
        except DecodeError as error:
            where = f"{batch.partition.topic}-{batch.partition.partition}"
            raise CliError(f"{where}: the batch at offset {first} cannot be read: {error}") from error

    def first_not_delivered(self) -> dict[TopicPartition, int]:
        """Return the first offset in each partition whose line was not written, or that its reader left in the pipe."""
        delivered = self._output.delivered_bytes()
        return {each: offset for end, each, offset in reversed(self._pending) if end > delivered}


def _is_within(bounds: Bounds, offset: int) -> bool:
    return offset >= bounds.first and (bounds.end is None or offset < bounds.end)
