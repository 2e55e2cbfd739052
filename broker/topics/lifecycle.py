"""How partitions come and go: the creation and the deletion of those of a topic, a few in a turn of the event loop.

The record in the metadata journal is written first. Making a partition takes a millisecond or two: thousands of them
delay nobody. A caller that cannot wait finishes all steps at once.

A directory that is called `-delete` makes room for a new topic of the old name. If such a topic comes before all are
renamed, the rest is renamed at once. A thread removes the files after file.delete.delay.ms. After a crash the next
start removes directories with the new name, and sets aside those with the old one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.errors import StorageError
from ...storage.log import Log
from .partition import Partition
from .topic import Topic

# Makes one partition a step and returns the topic. It undoes what it made before it raises a StorageError.
Steps = Generator[None, None, Topic]
_log = logging.getLogger(__name__)


class Creation:
    """Partitions on their way. `made` holds the ones that exist already; `steps` adds to it."""

    def __init__(self, made: list[Partition], steps: Steps) -> None:
        self.made = made
        self._steps = steps
        self._topic: Topic | None = None
        self._error: KafkaError | None = None
        self._waiter: asyncio.Future[Topic] | None = None

    def finish(self) -> Topic:
        """Make what is missing now and return the topic. Raises KafkaError."""
        while self._topic is None:
            self._step()
        return self._topic

    async def wait(self) -> Topic:
        """Return the topic once it is complete; other requests get their turns meanwhile. Raises KafkaError."""
        if self._waiter is None:
            self._waiter = asyncio.get_running_loop().create_future()
            self._run()
        return await asyncio.shield(self._waiter)

    def cancel(self, error: KafkaError) -> None:
        """Raise `error` in everyone who waits, and make no more partitions for them."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
            self._waiter.exception()  # marks it as retrieved: perhaps nobody waits any more

    def _run(self) -> None:
        if self._waiter is None or self._waiter.done():
            return
        try:
            if self._topic is None:
                self._step()
        except KafkaError as error:
            # The steps may have failed before anybody waited.
            self.cancel(error)
            return
        if self._topic is not None:
            self._waiter.set_result(self._topic)
        else:
            asyncio.get_running_loop().call_soon(self._run)

    def _step(self) -> None:
        if self._error is not None:
            raise self._error
        try:
            next(self._steps)
        except StopIteration as end:
            self._topic = end.value
        except KafkaError as error:
            self._error = error
            self.cancel(error)
            raise
        except Exception as error:
            self._error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the partitions could not be made: {error}")
            self.cancel(self._error)
            raise


class Deletion:
    """Take its `steps`, or `finish` it at once. At the end `then` gets the logs whose directories may be removed.

    `leave` forgets a partition before its directory is renamed.
    """

    def __init__(
        self,
        topic: str,
        partitions: Iterable[Partition],
        leave: Callable[[Partition], None],
        then: Callable[[list[Log]], None],
    ) -> None:
        self._topic = topic
        self._leave = leave
        self._left = deque(partitions)
        self._then: Callable[[list[Log]], None] | None = then
        self._aside: list[Log] = []

    @property
    def is_done(self) -> bool:
        return self._then is None

    def steps(self) -> Iterator[None]:
        """Rename a directory in each step."""
        while not self.is_done:
            self._step()
            yield

    def finish(self) -> None:
        """Rename all that is left, now."""
        while not self.is_done:
            self._step()

    def _step(self) -> None:
        if self._left:
            partition = self._left.popleft()
            self._leave(partition)
            try:
                partition.log.set_aside(durable=False)
                self._aside.append(partition.log)
            except StorageError as error:
                # The deletion is in the journal already: a start will set the directory aside.
                _log.error("files of deleted topic %s stay in place: %s", self._topic, error.message)
        if not self._left and self._then is not None:
            then, self._then = self._then, None
            then(self._aside)
