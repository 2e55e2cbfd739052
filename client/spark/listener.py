"""The lag of streams, as a listener of Spark tells it after each batch: offsets, bytes and seconds behind.

    spark.streams.addListener(LagListener({"kafka.bootstrap.servers": "127.0.0.1:9092"}))

The offsets come from Spark's own report of the query: they are those of the batch that is complete. Bytes are estimated
by the mean size of an offset in the partition, as the brokers store it. Seconds are the age of the oldest record that
was not read.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from ...protocol.errors import KafkaError
from ...protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ...protocol.records.batch import iter_headers, iter_records
from ..arrow.brokers import Brokers, known_leader
from ..record import EARLIEST, LATEST, TopicPartition
from .columns import ForeignOffsets
from .options import parse_client
from .plan import bytes_per_offset
from .stream import from_json

log = logging.getLogger(__name__)

Ends = dict[TopicPartition, int]


@dataclass(frozen=True)
class Lag:
    """How far a query is behind after a batch. None: the brokers did not say."""

    query_id: str
    name: str | None
    batch_id: int
    rows: int
    # Where the batch ended, and how many offsets came since of each partition that has a leader.
    offsets: Ends = field(default_factory=dict[TopicPartition, int])
    behind: Ends = field(default_factory=dict[TopicPartition, int])
    bytes_behind: int | None = None
    seconds_behind: float | None = None

    @property
    def offsets_behind(self) -> int | None:
        """Return the offsets that all partitions are behind."""
        return sum(self.behind.values()) if self.behind else None

    def __str__(self) -> str:
        offsets, unread_bytes = ("?" if each is None else each for each in (self.offsets_behind, self.bytes_behind))
        seconds = "?" if self.seconds_behind is None else f"{self.seconds_behind:.1f}"
        behind = f"{offsets} offsets, {unread_bytes} bytes, {seconds} s behind"
        return f"batch {self.batch_id}: {self.rows} rows; {behind}"


def log_lag(lag: Lag) -> None:
    """Log a line for a batch."""
    log.info("query %s, %s", lag.name or lag.query_id, lag)


class LagListener(StreamingQueryListener):
    """Reports the lag of each query of this source, and of Spark's own connector, after each of its batches."""

    def __init__(
        self,
        options: Mapping[str, str],
        report: Callable[[Lag], None] = log_lag,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Take the `kafka.` options of the stream, and the function that gets each Lag. Raises OptionError."""
        self._brokers = Brokers(parse_client(options))
        self._report = report
        self._clock = clock

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Report how far the query is behind."""
        progress = event.progress
        offsets: Ends = {}
        for source in progress.sources:
            offsets |= _offsets(source.endOffset)
        if offsets:
            lag = Lag(str(progress.id), progress.name, progress.batchId, progress.numInputRows, offsets)
            self._report(self.measured(lag))

    def measured(self, lag: Lag) -> Lag:
        """Return the lag with what the brokers say now. An error of theirs is logged, and leaves a part unknown."""
        for measure in (self._with_offsets, self._with_bytes, self._with_seconds):
            unread = {each: lag.offsets[each] for each, count in lag.behind.items() if count}
            try:
                lag = measure(lag, unread)
            except KafkaError as error:
                log.warning("the lag of query %s is not known: %s", lag.name or lag.query_id, error)
        return lag

    def _with_offsets(self, lag: Lag, _: Ends) -> Lag:
        view = self._brokers.view({each.topic for each in lag.offsets})
        led = [each for each in lag.offsets if known_leader(view, each) is not None]
        latest = self._brokers.offsets(led, LATEST, view)
        behind = {each: max(latest[each] - lag.offsets[each], 0) for each in led}
        is_read = bool(behind) and not any(behind.values())
        return replace(lag, behind=behind, **({"bytes_behind": 0, "seconds_behind": 0.0} if is_read else {}))

    def _with_bytes(self, lag: Lag, unread: Ends) -> Lag:
        if not unread:
            return lag
        earliest, sizes = self._brokers.offsets(list(unread), EARLIEST), self._brokers.sizes(list(unread))
        means = bytes_per_offset(sizes, earliest, {each: at + lag.behind[each] for each, at in unread.items()})
        return replace(lag, bytes_behind=round(sum(means[each] * lag.behind[each] for each in unread)))

    def _with_seconds(self, lag: Lag, unread: Ends) -> Lag:
        oldest = min(timestamps(self._brokers, unread).values(), default=None) if unread else None
        return lag if oldest is None else replace(lag, seconds_behind=max(self._clock() - oldest / 1000, 0.0))


def _offsets(text: str | None) -> Ends:
    """Return the offsets of a source as its progress has them; none where it is not of Kafka's kind."""
    try:
        return from_json(json.loads(text or "null"))
    except (ValueError, ForeignOffsets):
        return {}


def timestamps(brokers: Brokers, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
    """Return the time in ms of each partition's first record at or after an offset; it lacks where none is there.

    Reads one batch of each partition. Raises KafkaError.
    """
    view = brokers.view({partition.topic for partition in offsets})
    found: dict[TopicPartition, int] = {}
    for address, led in brokers.by_leader(offsets, view).items():
        with brokers.to(address) as connection:
            # One by one: a broker returns a batch for the first partition of a request whatever its size.
            for each in led:
                wanted = FetchPartition(each.partition, fetch_offset=offsets[each], partition_max_bytes=1)
                topic = FetchTopic(each.topic, topic_id=view.topic_id(each.topic), partitions=[wanted])
                response = connection.request(_one_batch(topic), FetchResponse)
                found.update(_timestamp_of(response, each, offsets[each]))
    return found


def _one_batch(topic: FetchTopic) -> FetchRequest:
    return FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=1, session_epoch=-1, topics=[topic])


def _timestamp_of(response: FetchResponse, of: TopicPartition, offset: int) -> dict[TopicPartition, int]:
    """Return the time of the first record at or after an offset; nothing where the log has ended or gone."""
    found = [each for topic in response.responses for each in topic.partitions]
    if response.error_code or not found or found[0].error_code:
        return {}
    data = memoryview(found[0].records or b"")
    for at, header in iter_headers(data):
        for record in iter_records(data, at, header, True):
            if record.offset >= offset:
                return {of: record.timestamp_ms}
    return {}
