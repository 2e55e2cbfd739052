"""A topic on its way: its record is in the journal, its partitions are made one after the other.

Making a partition takes some files, a millisecond or two. So a creation goes in steps, one a turn of the event loop,
and one of thousands of partitions holds nobody up. Who cannot wait finishes it at once. More partitions for a topic
that is there come the same way.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.errors import StorageError
from ..configs.topic_config import TopicConfig
from .metadata_journal import TopicRecord
from .partition import Partition

if TYPE_CHECKING:
    from .topic import Topic
    from .topics import Topics


class Creation:
    """See the module's text. If a step fails the topic is taken back, and the failure is everyone's who waits.

    `grown`: the topic that is there already and gets the partitions that it lacks; it is served as it was until then.
    """

    def __init__(self, topics: Topics, record: TopicRecord, config: TopicConfig, grown: Topic | None = None) -> None:
        self._topics = topics
        self._record = record
        self._config = config
        self._grown = grown
        self._first = len(grown.partitions) if grown is not None else 0
        self._partitions: list[Partition] = []
        self._topic: Topic | None = None
        self._waiter: asyncio.Future[Topic] | None = None

    def finish(self) -> Topic:
        """The topic, all of it made now."""
        while self._topic is None:
            self._step()
        return self._topic

    async def wait(self) -> Topic:
        """The topic, made while others get their turns. StorageError where it could not be."""
        if self._waiter is None:
            self._waiter = asyncio.get_running_loop().create_future()
            self._go_on()
        return await asyncio.shield(self._waiter)

    def abandon(self) -> None:
        """The broker stops: what is not made yet is made at the next start."""
        self._fail(KafkaError(ErrorCode.NOT_CONTROLLER, "the broker is stopping"))

    def give_up(self) -> list[Partition]:
        """The topic is deleted meanwhile: what was made so far goes with it."""
        self._fail(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {self._record.name} was deleted"))
        return self._partitions

    def _go_on(self) -> None:
        if self._waiter is None or self._waiter.done():
            return
        try:
            if self._topic is None:
                self._step()
        except StorageError:
            return  # told in _step
        if self._topic is not None:
            self._waiter.set_result(self._topic)
        else:
            asyncio.get_running_loop().call_soon(self._go_on)

    def _step(self) -> None:
        try:
            index = self._first + len(self._partitions)
            if index < self._record.partitions:
                self._partitions.append(self._topics.make_partition(self._record, index, self._config))
            elif self._grown is None:
                self._topic = self._topics.add(self._record, self._config, self._partitions)
            else:
                self._topic = self._topics.extend(self._grown, self._partitions)
        except StorageError as error:
            if self._grown is None:
                self._topics.take_back(self._record, self._partitions)
            else:
                self._topics.take_back_growth(self._grown, self._partitions)
            self._fail(error)
            raise

    def _fail(self, error: KafkaError) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
            self._waiter.exception()  # seen, should nobody wait any more
