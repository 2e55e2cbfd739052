"""Sends rows as whole record batches (arrow/encoder.py), through the producer: a sender for each topic."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from ...protocol.records.batch import HEADER_SIZE
from ...protocol.records.compression import Compression
from ..arrow.encoder import OpenBatches, Rows
from ..producer.producer import Producer
from ..record import TopicPartition
from .sink_options import SinkOptions

# Below this a batch costs more than its records.
_LEAST_BATCH_BYTES = 4_096


class TopicSenders:
    """The senders of a task, by topic. They have room for as many bytes as the producer, or for those of one topic."""

    def __init__(self, producer: Producer, options: SinkOptions, note: Callable[..., None]) -> None:
        self._producer = producer
        self._options = options
        self._note = note
        # The one that was used last is the last.
        self._senders: dict[str, BatchSender] = {}

    async def of(self, topic: str) -> BatchSender:
        """Return the sender of a topic. Raises UnknownTopic."""
        sender = self._senders.pop(topic, None)
        if sender is None:
            sender = await BatchSender.open(self._producer, topic, self._options, self._note)
            await self._make_room(self._options.producer["buffer_memory"] - sender.room_bytes)
        self._senders[topic] = sender
        return sender

    async def flush(self) -> None:
        """Queue what is open, and wait until everything is acknowledged or has failed. Raises UnknownTopic."""
        await self._make_room(0)
        await self._producer.flush()

    async def _make_room(self, most_bytes: int) -> None:
        """Queue what is open in the senders that were not used for longest, and forget them."""
        left = sum(each.room_bytes for each in self._senders.values())
        while self._senders and left > most_bytes:
            sender = self._senders.pop(next(iter(self._senders)))
            left -= sender.room_bytes
            await sender.send_open()


class BatchSender:
    """The open batches of one topic, as many as it had partitions when the task began."""

    def __init__(self, producer: Producer, topic: str, opened: OpenBatches, note: Callable[..., None]) -> None:
        self._producer = producer
        self._topic = topic
        self._opened = opened
        self._note = note

    @classmethod
    async def open(cls, producer: Producer, topic: str, options: SinkOptions, note: Callable[..., None]) -> BatchSender:
        """Return a sender that calls `note` with the future of each batch when it is done. Raises UnknownTopic."""
        partitions = await producer.partitions_for(topic)
        codec = Compression[options.producer["compression_type"].upper()]
        opened = OpenBatches(len(partitions), _limit_bytes(options, len(partitions)), codec)
        sender = cls(producer, topic, opened, note)
        await sender._move()
        return sender

    async def send(self, rows: Rows, alone: Callable[[int], Awaitable[None]]) -> None:
        """Queue rows. `alone` sends one that is too large for a batch, or whose partition the topic does not have."""
        for stop in self._opened.append(rows):
            if stop.partition >= 0:
                await self._send_batch(stop.partition)
            if stop.is_alone:
                await alone(stop.row)

    @property
    def room_bytes(self) -> int:
        """How many bytes its open batches may get."""
        return self._opened.room_bytes

    async def send_open(self) -> None:
        """Queue what is open. Raises UnknownTopic where the topic was made again with too few partitions."""
        for partition in range(self._opened.partitions):
            await self._send_batch(partition)

    async def _send_batch(self, partition: int) -> None:
        taken = self._opened.take(partition)
        if taken is None:
            return
        sent: asyncio.Future[Any] = await self._producer.send_batch(
            TopicPartition(self._topic, partition), taken, splittable=True
        )
        sent.add_done_callback(self._note)
        if partition == self._opened.sticky:
            await self._move()

    async def _move(self) -> None:
        """Have rows without a key go to another partition, one with a leader if there is any."""
        partitions = await self._producer.partitions_for(self._topic, led=True)
        known = [each for each in partitions if each < self._opened.partitions]
        self._opened.sticky = random.choice(known or [0])


def _limit_bytes(options: SinkOptions, partitions: int) -> int:
    """Return the size of a batch: with those of all partitions together, half of the producer's memory at most."""
    # Bytes that no codec makes smaller get a little larger.
    most = max(1, options.producer["max_request_size"] * 99 // 100 - HEADER_SIZE)
    share = options.producer["buffer_memory"] // 2 // partitions
    return min(most, max(_LEAST_BATCH_BYTES, min(options.producer["batch_size"], share)))
