"""Records of a partition from the broker's files as Arrow batches: what `read_topic(path="direct")` reads.

It runs the direct read of the Spark source in a thread, because files are read without the event loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .core.security import SecurityOptions
from .core.task_ends import without_cancelling
from .record import TopicPartition

# Called when `position` has moved.
Passed = Callable[[], object]


class DirectPartition:
    """The records of one partition from `start` up to `end`. `batches` are those below `position`."""

    def __init__(
        self, place: TopicPartition, columns: Sequence[str], start: int, end: int, security: SecurityOptions
    ) -> None:
        self.place = place
        self._security = security
        self.position = start
        self.batches: list[Any] = []
        self._columns = columns
        self.start, self.end = start, end
        self._stopped = threading.Event()

    async def read(self, options: Mapping[str, str], passed: Passed) -> None:
        """Read all of it. Raises DirectReadNotPossible, after which the rest can be fetched, and the errors of a fetch.

        `options` are those of the Spark source.
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

    def _read(self, options: Mapping[str, str], passed: Passed) -> None:
        from .arrow.brokers import Brokers
        from .arrow.decoder import ArrowDecoder, schema_of
        from .arrow.direct_read import DirectRead
        from .arrow.fetch import OffsetRange
        from .spark.options import parse_options

        topic, number = self.place
        parsed = parse_options({"subscribe": topic, "path": "direct", "failOnDataLoss": "false", **options})
        parsed = replace(parsed, client=replace(parsed.client, security=self._security))
        brokers = Brokers(parsed.client)
        topic_id = brokers.retry(lambda: brokers.view([topic])).topic_id(topic)
        wanted = OffsetRange(topic, topic_id, number, self.start, self.end)
        schema = schema_of(tuple(self._columns))
        decoder = ArrowDecoder(schema, topic, number, self.start, self.end, max_rows=parsed.arrow_batch_rows)
        reader = DirectRead(wanted, parsed, brokers)
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
