"""The ends up to which a reader reads, and how it learns that it will never reach them.

A consumer waits for the records of a topic that was deleted, made again or cut, because they may come one day. A reader
that stops at an end must not wait for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

from ...protocol.primitives import ZERO_UUID
from ..core.lifetime import retrieve
from ..errors import ErrorCode, KafkaError, OffsetOutOfRange, UnknownTopic
from ..record import TopicPartition
from .consumer import Consumer


class KnownEnds:
    """The ends of partitions, all of which were there when this was made."""

    def __init__(self, consumer: Consumer, ends: Mapping[TopicPartition, int], *, patient: bool = False) -> None:
        """A `patient` reader goes on while no broker answers."""
        self._consumer, self.ends, self._patient = consumer, ends, patient
        self._cluster = consumer._running().cluster  # pyright: ignore[reportPrivateUsage]
        self._topics = {topic for topic, _ in ends}
        self._ids: dict[str, bytes] = {}
        self._asking: asyncio.Task[Any] | None = None
        self.check(())

    def check(self, silent: Collection[TopicPartition]) -> None:
        """Raise UnknownTopic or OffsetOutOfRange once it is known. Call it after each poll, before what it has found.

        The brokers are asked meanwhile for the ends of `silent`, of which a poll has found nothing. Raises KafkaError
        where they have not answered in time.
        """
        for topic in self._topics:
            # A reader may begin before it has the metadata, and old brokers have no ids.
            found = self._cluster.view.topic_id(topic)
            if found != ZERO_UUID and self._ids.setdefault(topic, found) != found:
                raise UnknownTopic(f"topic {topic!r} was deleted and created again")
        asking = self._asking
        if asking is not None and asking.done():
            self._asking = None
            asking.result()
        if silent and self._asking is None:
            self._asking = self._cluster.spawn(self._ask(list(silent)), "ends")
            self._asking.add_done_callback(retrieve)

    async def _ask(self, silent: Collection[TopicPartition]) -> None:
        try:
            found = await self._consumer.end_offsets(silent)
        except KafkaError:
            for topic in self._topics:
                if self._cluster.view.errors.get(topic) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise UnknownTopic(f"topic {topic!r} is not there any more") from None
            if self._patient:
                return
            raise
        for place, end in found.items():
            if end < self.ends[place]:
                raise OffsetOutOfRange(f"{place} ends at {end} now, and went on to {self.ends[place]} before")
