"""The writer of dead letters (KIP-1191): records that nobody can process, as records of the topic that a group names.

The leader of a record's partition writes its dead letter, by an ordinary Produce with acks=all to the leader of the
dead letter's partition: the number of the record's partition, modulo the count of the topic's. It does so as the broker
that it is to others (security/outgoing.py), so that ACLs count.

What waits are ranges of offsets, in a queue for each partition that is written to. They are bounded by the records in
flight (share.partition.max.record.locks), because dead letters that are not written stay in flight; Kafka's queue has
no bound. One range may be very long: a member acquires a batch of the log whole, whatever number of records it says
that it has. Only the batch that is being sent has records: at most `MAX_RECORDS`, of `MAX_BYTES` or one alone, and
`MAX_BATCHES` batches at a time.

Promise: a dead letter is written, or a line of the log at ERROR says why not.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ...protocol.records.batch import HEADER_SIZE, encode_batch
from ...protocol.records.record import Record, size_upper_bound
from ...storage.files import Disk
from ..clock import Clock
from ..configs.broker_config import BrokerConfig
from ..threads import DiskThreads
from ..topics.partition import Partition
from ..topics.topic import Topic
from ..topics.topics import Topics
from ..turns import keeper
from .dead_letter_records import Content, Originals, dead_letter, headers, read_originals
from .dead_letter_topics import TIMEOUT_MS, DeadLetterTopics, DeadLetterWire, tried_again
from .machine import DeadLetters
from .settings import Settings

# Some milliseconds of the loop to encode.
MAX_RECORDS = 1_000
MAX_BYTES = 1 << 20
# Each takes so many bytes, and as much of the originals.
MAX_BATCHES = 20
# A group may be deleted, and nobody says so here.
MAX_COUNTED_GROUPS = 1_000
_ALL = -1

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Counts:
    """What became of the dead letters of one group, since the start."""

    # Those that were written. A record may be written twice.
    records: int = 0
    requests: int = 0
    failed_requests: int = 0
    # Why they are dead letters, also those that could not be written.
    rejected: int = 0
    delivered_too_often: int = 0
    lost: int = 0


@dataclass(slots=True)
class _Burial:
    """The dead letters of one acknowledgement."""

    group_id: str
    partition: Partition
    copies_records: bool
    # In order of their offsets; those that are written go.
    left: deque[DeadLetters]
    done: asyncio.Future[None]

    @property
    def place(self) -> tuple[str, int]:
        """The topic and the number of the partition that they come from."""
        return self.partition.topic, self.partition.index

    def offsets(self) -> Iterator[tuple[int, DeadLetters]]:
        """Yield what is left, offset by offset."""
        return ((offset, letters) for letters in self.left for offset in range(letters.first, letters.last + 1))

    def advance(self, count: int) -> None:
        """Note that so many are written."""
        while count:
            letters = self.left.popleft()
            written = min(count, letters.size)
            if written < letters.size:
                self.left.appendleft(letters._replace(first=letters.first + written))
            count -= written
        if not self.left:
            self.end()

    def end(self) -> None:
        """Let who waits go on."""
        if not self.done.done():
            self.done.set_result(None)


@dataclass(slots=True)
class _Batch:
    """Records that are sent together, and how many of each burial."""

    records: list[Record] = field(default_factory=list[Record])
    parts: list[tuple[_Burial, int]] = field(default_factory=list[tuple[_Burial, int]])
    size: int = HEADER_SIZE
    # The originals of one partition that were read last, and from which offset on.
    originals: tuple[Partition | None, int, Originals] = (None, 0, Originals({}, -1))


class DeadLetterWriter:
    """Writes the dead letters of all share groups of this broker. End it with `close`."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        clock: Clock,
        threads: DiskThreads,
        disk: Disk,
        wire: DeadLetterWire,
    ) -> None:
        # By group, the one that was counted last at the end.
        self.counts: dict[str, Counts] = {}
        self._dead_letter_topics = DeadLetterTopics(config, topics, wire)
        self._topics = topics
        self._clock = clock
        self._threads = threads
        self._disk = disk
        self._wire = wire
        self._turns = asyncio.Semaphore(MAX_BATCHES)
        # By topic id and partition; those with a task that sends.
        self._queues: dict[tuple[bytes, int], deque[_Burial]] = {}
        self._senders: set[asyncio.Task[None]] = set()

    async def write(
        self, group_id: str, partition: Partition, letters: Sequence[DeadLetters], settings: Settings
    ) -> None:
        """Write dead letters, in order of their offsets. It returns once they are written, or given up with a line."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        burial = _Burial(group_id, partition, settings.copies_records, deque(letters), done)
        counts = self._counts(group_id)
        counts.rejected += sum(each.size for each in letters if each.is_rejected)
        counts.delivered_too_often += sum(each.size for each in letters if not each.is_rejected)
        try:
            topic = await tried_again(lambda: self._dead_letter_topics.find(settings.dead_letter_topic))
        except KafkaError as error:
            self._give_up([burial], settings.dead_letter_topic, error)
            return
        self._enqueue(topic, partition.index % len(topic.partitions), burial)
        await done

    # -- Send --------------------------------------------------------------------------------------------

    def _enqueue(self, topic: Topic, index: int, burial: _Burial) -> None:
        queue = self._queues.get((topic.id, index))
        if queue is not None:
            queue.append(burial)
            return
        queue = self._queues[topic.id, index] = deque([burial])
        sender = asyncio.ensure_future(self._send_all(topic, index, queue))
        self._senders.add(sender)
        sender.add_done_callback(self._senders.discard)

    async def _send_all(self, topic: Topic, index: int, queue: deque[_Burial]) -> None:
        """Send what waits for a partition, until nothing does."""
        try:
            while queue:
                try:
                    await tried_again(lambda: self._send(topic, index, queue))
                except Rejected as rejected:
                    for group_id in {burial.group_id for burial in rejected.burials}:
                        self._counts(group_id).failed_requests += 1
                    self._give_up(rejected.burials, topic.name, rejected)
                while queue and queue[0].done.done():
                    queue.popleft()
                # A range may be so long that others would wait for hours.
                queue.rotate(-1)
        except Exception as error:  # noqa: BLE001 - what waits must not wait for ever, and is logged
            why = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the writer has failed: {error!r}")
            self._give_up(list(queue), topic.name, why)
        finally:
            del self._queues[topic.id, index]
            for burial in queue:
                # This broker stops: the next leader finds it in the state.
                burial.done.cancel()

    async def _send(self, topic: Topic, index: int, queue: deque[_Burial]) -> None:
        """Send one batch of what waits, and note what is written. Raises Rejected."""
        async with self._turns:
            batch = await self._batch(topic, queue)
            if not batch.records:
                # Nobody waits for any of them: their leader has ended.
                return
            is_large = batch.size > MAX_BYTES
            data = await asyncio.to_thread(encode_batch, batch.records) if is_large else encode_batch(batch.records)
            sent = PartitionProduceData(index, memoryview(bytearray(data)))
            request = ProduceRequest(
                None, _ALL, TIMEOUT_MS, [TopicProduceData(topic_id=topic.id, partition_data=[sent])]
            )
            for group_id in {burial.group_id for burial, _ in batch.parts}:
                self._counts(group_id).requests += 1
            try:
                _check(await self._wire.produce(topic.name, index, request))
            except KafkaError as error:
                is_gone = self._topics.by_id(topic.id) is None
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_gone else error.code
                raise Rejected(code, error.message, [burial for burial, _ in batch.parts]) from error
        for burial, count in batch.parts:
            burial.advance(count)
            self._counts(burial.group_id).records += count

    async def _batch(self, topic: Topic, queue: deque[_Burial]) -> _Batch:
        """Make the records of one batch, of as many burials as it has room for."""
        batch, limit = _Batch(), topic.config.max_message_bytes
        burials = [each for each in islice(queue, MAX_RECORDS) if not each.done.done()]
        first = burials[0].place if burials else None
        # Those of one partition follow each other, so that the log is read once for all of them.
        burials.sort(key=lambda each: (each.place != first, each.place, each.left[0].first))
        last: dict[tuple[str, int], int] = {}
        for each in burials:
            last[each.place] = max(last.get(each.place, 0), each.left[-1].last)
        for burial in burials:
            if not burial.done.done() and not await self._add(burial, batch, limit, last[burial.place]):
                break
        return batch

    async def _original(self, batch: _Batch, partition: Partition, offset: int, last: int) -> Content:
        """Return key and value of a record. Those behind it, up to `last`, are read at once, or a window."""
        of, first, originals = batch.originals
        if of is not partition or not first <= offset <= originals.last:
            originals = await read_originals(partition, offset, last, self._threads, self._disk)
            batch.originals = partition, offset, originals
        return originals.records.get(offset, (None, None))

    async def _add(self, burial: _Burial, batch: _Batch, limit: int, last: int) -> bool:
        """Add what a batch has room for; return whether that is all of a burial."""
        now_ms, count = self._clock.now_ms(), 0
        partition = burial.partition
        is_whole = True
        for offset, letters in burial.offsets():
            content = (None, None)
            if burial.copies_records:
                content = await self._original(batch, partition, offset, last)
            record = dead_letter(headers(burial.group_id, partition, offset, letters), content, now_ms, limit)
            size = size_upper_bound(record.key, record.value, record.headers)
            has_room = batch.size + size <= min(limit, MAX_BYTES) and len(batch.records) < MAX_RECORDS
            is_whole = not batch.records or has_room
            if not is_whole:
                break
            batch.records.append(record)
            batch.size += size
            count += 1
            await keeper().pause()
        if count:
            batch.parts.append((burial, count))
        return is_whole

    def _give_up(self, burials: Sequence[_Burial], topic: str, error: KafkaError) -> None:
        """Say that dead letters are lost, a line for each partition that they come from."""
        lost: dict[tuple[str, str, int], list[DeadLetters]] = {}
        for burial in burials:
            # The next leader writes what nobody waits for here.
            if not burial.done.done():
                lost.setdefault((burial.group_id, *burial.place), []).extend(burial.left)
                burial.end()
        for (group_id, name, index), letters in lost.items():
            count = sum(each.size for each in letters)
            self._counts(group_id).lost += count
            where = f"{name}-{index}, offsets {letters[0].first} to {letters[-1].last}"
            text = "share group %s: %d records of %s are archived without a dead letter in topic %s: %s"
            _log.error(text, group_id, count, where, topic, error)

    def _counts(self, group_id: str) -> Counts:
        counts = self.counts[group_id] = self.counts.pop(group_id, None) or Counts()
        if len(self.counts) > MAX_COUNTED_GROUPS:
            del self.counts[next(iter(self.counts))]
        return counts

    def close(self) -> None:
        """Write nothing more: the next leader finds in the state what is not written."""
        for sender in self._senders:
            sender.cancel()


class Rejected(KafkaError):
    """A batch with dead letters of these burials was rejected."""

    def __init__(self, code: ErrorCode, message: str, burials: list[_Burial]) -> None:
        super().__init__(code, message)
        self.burials = burials


def _check(response: ProduceResponse) -> None:
    result = response.responses[0].partition_responses[0]
    if result.error_code:
        raise KafkaError(ErrorCode.of(result.error_code), result.error_message or "")
