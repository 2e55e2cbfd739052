"""`odradek topics copy`: copy topics to another cluster, batch by batch, and translate the offsets of groups.

Batches go as they are, with their codec, timestamps, keys and headers. Only a batch with gaps in its offsets is encoded
again, with its own codec. The target has no markers and no records of aborted transactions.

Promise: if nobody else writes to the target, each record is there once, over interruptions too. The copy commits how
far it has come, and what the target has beyond that was sent by the interrupted copy and is left out.

The state of a copy is kept in the target cluster, as committed offsets of a group of its own. The offset is the next
one of the source; the metadata are "TARGET SOURCE0 TARGET0": the target's end offset then, and where both began.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import click

from ..protocol.records.batch import LOG_APPEND_TIME, encode_batch
from ..protocol.records.record import Record
from .connection_options import connection_options
from .errors import CliError
from .names import TOPIC, matching
from .notices import Progress, connection_notice, login_notice
from .offset_range import known_ones
from .session import client_options, open_admin, run

if TYPE_CHECKING:
    from ..client import Admin, Consumer, FetchedBatch, Producer, RecordMetadata, TopicPartition

_POLL_MS = 250
_MAX_REQUEST_BYTES = 65 << 20
_TOPIC_SOURCE = 1
# The state is committed after so many bytes.
_BYTES_PER_COMMIT = 32 << 20


@click.command(short_help="Copy topics to another cluster.")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True, type=TOPIC)
@click.option("--to", "target", metavar="HOST:PORT", required=True, help="The cluster to copy to.")
@click.option("--group", "groups", metavar="GROUP", multiple=True, help="Also copy this group's offsets; repeatable.")
@connection_options("admin", "consumer", "producer")
def copy(topics: tuple[str, ...], target: str, groups: tuple[str, ...], bootstrap_server: str) -> None:
    """Copy each TOPIC to the same name in another cluster, up to its present end. * and ? match any names.

    A missing topic is created there with the same partitions and its own configs. Run it again to copy what has come
    since, or to go on after an interruption. Only copies may write to the target's topics.

    -X gives a config to the clients of both clusters that know it: fetch.min.bytes to the consumer of the source,
    linger.ms to the producer of the target, request.timeout.ms to all.

    \b
    Examples:
      odradek topics copy flights --to other:9092
      odradek topics copy 'flights-*' --to other:9092 --group a --group b
      odradek topics copy flights --to other:9092 -X request.timeout.ms=60000
    """
    run(_copy(topics, target, groups, bootstrap_server))


@dataclass(slots=True)
class _Partition:
    """A partition on its way: its state when this copy began, and now."""

    runs: OffsetRuns
    now: CopyState
    # Where the source ended when this copy began.
    end: int
    # Records that an interrupted copy has sent already.
    skip: int


async def _copy(topics: Sequence[str], target: str, groups: Sequence[str], bootstrap_server: str) -> None:
    from ..client import Consumer, Producer

    async with open_admin(bootstrap_server) as here, open_admin(target) as there:
        cluster = (await here.describe_cluster()).cluster_id
        if cluster == (await there.describe_cluster()).cluster_id:
            raise CliError(f"{bootstrap_server} and {target} are one cluster: a topic cannot be copied onto itself")
        names = matching(topics, await here.list_topics())
        partitions, left_out = await _partitions(here, there, names, _state_group(cluster))
        options = client_options("consumer", isolation_level="read_committed")
        consumer = Consumer(bootstrap_servers=bootstrap_server, **options)
        sending = client_options("producer", max_request_size=_MAX_REQUEST_BYTES, buffer_memory=2 * _MAX_REQUEST_BYTES)
        producer = Producer(target, **sending)
        lost = connection_notice(consumer, bootstrap_server), connection_notice(producer, target)
        async with consumer, producer, login_notice(), lost[0], lost[1]:
            consumer.assign(partitions)
            for each, partition in partitions.items():
                consumer.seek(each, partition.now.source)
            await _Transfer(consumer, producer, there, _state_group(cluster), partitions).run()
        left = [text for group in groups for text in await _copy_group(here, there, group, partitions)]
    if left_out:
        raise CliError(f"not copied, run it again: {', '.join(left_out)}")
    if left:
        raise CliError(f"all records were copied, but not all offsets: {'; '.join(left)}")


def _state_group(cluster: str) -> str:
    return f"odradek-copy-{cluster}"


# -- Before


async def _partitions(
    here: Admin, there: Admin, names: Sequence[str], group: str
) -> tuple[dict[TopicPartition, _Partition], list[str]]:
    """Create what is missing; return where each partition begins and ends, and which have no leader on one side.

    CliError if it cannot be copied.
    """
    from ..client import EARLIEST, LATEST, TopicPartition

    described = await here.describe_topics(*names)
    await _create_missing(here, there, {name: len(described[name].partitions) for name in names})
    partitions = [TopicPartition(name, each.partition) for name in names for each in described[name].partitions]
    starts = await here.list_offsets(dict.fromkeys(partitions, EARLIEST), partial=True)
    ends = await here.list_offsets(dict.fromkeys(partitions, LATEST), isolation_level="read_committed", partial=True)
    target_starts = await there.list_offsets(dict.fromkeys(partitions, EARLIEST), partial=True)
    target_ends = await there.list_offsets(dict.fromkeys(partitions, LATEST), partial=True)
    known = starts.keys() & ends.keys() & target_starts.keys() & target_ends.keys()
    left_out = [_name(each) for each in partitions if each not in known]
    partitions = known_ones(partitions, known, "not copied")
    committed = await there.list_group_offsets(group)
    found: dict[TopicPartition, _Partition] = {}
    for each in partitions:
        target = target_ends[each].offset
        at = committed.get(each)
        state = None if at is None else CopyState.parse(at.offset, at.metadata)
        if state is None:
            if target != target_starts[each].offset:
                raise CliError(f"{_name(each)} has records in the target already, and no copy made them")
            start = starts[each].offset
            state = CopyState(start, target, start, target)
        elif target < state.target:
            raise CliError(f"{_name(each)} is not the topic any more that was copied to: delete group {group!r} there")
        found[each] = _Partition(OffsetRuns(state), state, ends[each].offset, target - state.target)
    return found, left_out


async def _create_missing(here: Admin, there: Admin, counts: dict[str, int]) -> None:
    from ..client import ConfigResource, NewTopic

    existing = await there.describe_topics()
    for name, count in counts.items():
        if name in existing:
            if (others := len(existing[name].partitions)) != count:
                raise CliError(f"topic {name!r} has {others} partitions in the target, not {count}")
            continue
        resource = ConfigResource.topic(name)
        configs = (await here.describe_configs([resource]))[resource].values()
        own = {each.name: each.value for each in configs if each.source == _TOPIC_SOURCE and each.value is not None}
        await there.create_topics([NewTopic(name, count, configs=own)])


# -- Records


class _Transfer:
    """Moves the records of all partitions, and commits how far it has come."""

    def __init__(
        self,
        consumer: Consumer,
        producer: Producer,
        there: Admin,
        group: str,
        partitions: dict[TopicPartition, _Partition],
    ) -> None:
        self._consumer = consumer
        self._producer = producer
        self._there = there
        self._group = group
        self._partitions = partitions
        records = sum(max(each.end - each.now.source, 0) for each in partitions.values())
        self._progress = Progress(records, f"{records:,} records")
        # Batches on their way: partition, future, the offset that the target must give, and the state afterwards.
        self._sent: list[tuple[TopicPartition, asyncio.Future[RecordMetadata], int, CopyState]] = []
        self._bytes = 0

    async def run(self) -> None:
        """Copy until every partition is at its end."""
        from ..client.consumer.known_ends import KnownEnds

        await self._commit()  # before the first record, so that an interrupted copy is known as one
        ahead = {each: partition.now for each, partition in self._partitions.items()}
        known = KnownEnds(self._consumer, {each: at.end for each, at in self._partitions.items()}, patient=True)
        while not all([await self._is_done(each) for each in self._partitions]):
            found = await self._consumer.getbatches(timeout_ms=_POLL_MS)
            known.check(() if found else known.ends)
            for each, batches in found.items():
                for batch in batches:
                    ahead[each] = await self._send(each, batch, ahead[each])
            if self._bytes > _BYTES_PER_COMMIT:
                await self._commit()
        await self._commit()
        self._progress.clear()

    async def _is_done(self, each: TopicPartition) -> bool:
        return await self._consumer.position(each) >= self._partitions[each].end

    async def _send(self, each: TopicPartition, batch: FetchedBatch, ahead: CopyState) -> CopyState:
        """Send a batch. Return how far both sides are once it is acknowledged."""
        partition, header = self._partitions[each], batch.header
        end = min(header.next_offset, partition.end)
        self._progress.add(max(end - max(ahead.source, header.base_offset), 0))
        if batch.is_whole and _is_dense(batch) and not partition.skip and header.next_offset <= partition.end:
            partition.runs.add(header.base_offset, ahead.target, header.record_count)
            return await self._send_data(each, bytes(batch.data), header.record_count, replace(ahead, source=end))
        records: list[Record] = []
        for record in batch.records():
            if record.offset < partition.end:
                partition.runs.add(record.offset, ahead.target + len(records), 1)
                records.append(record._replace(offset=-1))
        sent_before = min(partition.skip, len(records))
        partition.skip -= sent_before
        ahead = replace(ahead, source=end, target=ahead.target + sent_before)
        if sent_before == len(records):
            return ahead
        data = encode_batch(records[sent_before:], compression=header.compression)
        return await self._send_data(each, data, len(records) - sent_before, ahead)

    async def _send_data(self, each: TopicPartition, data: bytes, count: int, ahead: CopyState) -> CopyState:
        after = replace(ahead, target=ahead.target + count)
        self._sent.append((each, await self._producer.send_batch(each, data), ahead.target, after))
        self._bytes += len(data)
        return after

    async def _commit(self) -> None:
        """Wait for what was sent, and note how far the copy has come."""
        from ..client import OffsetAndMetadata

        for each, future, expected, after in self._sent:
            # A batch that had to be sent again may have no offset in its answer.
            if (await future).offset not in (expected, -1):
                raise CliError(f"somebody else writes to {_name(each)} in the target: only copies may")
            self._partitions[each].now = after
        self._sent.clear()
        self._bytes = 0
        states = {each: partition.now for each, partition in self._partitions.items()}
        offsets = {each: OffsetAndMetadata(now.source, now.metadata) for each, now in states.items()}
        await self._there.alter_group_offsets(self._group, offsets)


def _is_dense(batch: FetchedBatch) -> bool:
    header = batch.header
    return header.record_count == header.last_offset_delta + 1 and not header.attributes & LOG_APPEND_TIME


# -- Groups


async def _copy_group(here: Admin, there: Admin, group: str, partitions: dict[TopicPartition, _Partition]) -> list[str]:
    """Translate the offsets of a group and commit them in the target. Return what could not be translated."""
    from ..client import OffsetAndMetadata

    committed = await here.list_group_offsets(group)
    found = {each: at for each, at in committed.items() if each in partitions}
    if not found:
        raise CliError(f"group {group!r} has no offsets in the copied topics")
    translated: dict[TopicPartition, OffsetAndMetadata] = {}
    left: list[str] = []
    for each, at in found.items():
        offset = partitions[each].runs.translate(at.offset)
        if offset is None:
            left.append(f"offset {at.offset} of group {group!r} in {_name(each)} lies in what an earlier copy made")
        else:
            translated[each] = OffsetAndMetadata(offset, at.metadata)
    if translated:
        await there.alter_group_offsets(group, translated)
    return left


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


# Runs in memory: 100,000 gaps take 10 MB. With more, every second one is dropped.
_MAX_RUNS = 100_000


@dataclass(frozen=True, slots=True)
class CopyState:
    """How far a partition was copied: up to `source` and `target`, both exclusive, from `source0` and `target0`."""

    source: int
    target: int
    source0: int
    target0: int

    @property
    def metadata(self) -> str:
        """What stands beside the committed offset."""
        return f"{self.target} {self.source0} {self.target0}"

    @classmethod
    def parse(cls, source: int, metadata: str) -> CopyState | None:
        """Return the state of a committed offset, None if it is not a copy's."""
        words = metadata.split()
        if len(words) != 3 or not all(word.isascii() and word.isdigit() for word in words):
            return None
        return cls(source, *map(int, words))

    @property
    def is_dense(self) -> bool:
        """Whether every offset so far has its record, so that the distance between both offsets is constant."""
        return self.source - self.source0 == self.target - self.target0


@dataclass(slots=True)
class OffsetRuns:
    """The runs of neighbouring records of one partition that this copy has made."""

    state: CopyState
    # (first offset of the source, first of the target, records), by offset.
    runs: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])

    def add(self, source: int, target: int, records: int) -> None:
        """Note that `records` records from `source` on went to `target` on."""
        if self.runs:
            first, at, count = self.runs[-1]
            if first + count == source and at + count == target:
                self.runs[-1] = first, at, count + records
                return
        self.runs.append((source, target, records))
        if len(self.runs) > _MAX_RUNS:
            del self.runs[1:-1:2]

    def translate(self, offset: int) -> int | None:
        """Return the offset of the target from which a group goes on that would read `offset` of the source next.

        It never lies behind the right one, so nothing is skipped. None if an earlier copy made that part, with gaps.
        """
        began = self.state
        if offset <= began.source0:
            return began.target0
        if offset < began.source or not self.runs:
            if began.is_dense:
                return began.target0 + min(offset, began.source) - began.source0
            return began.target if offset >= began.source else None
        index = bisect_right(self.runs, offset, key=lambda run: run[0]) - 1
        if index < 0:
            return began.target
        first, at, count = self.runs[index]
        return at + min(offset - first, count)
