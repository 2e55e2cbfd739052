"""The creation of a topic's partitions, a few in each turn of the event loop.

The record in the metadata journal is written first. Making a partition takes a millisecond or two, so that thousands in
one turn would delay every client. A caller that cannot wait finishes all steps at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator

from ...protocol.errors import ErrorCode, KafkaError
from .partition import Partition
from .topic import Topic

# Makes one partition a step and returns the topic. It undoes what it made before it raises a StorageError.
Steps = Generator[None, None, Topic]


class Creation:
    """A creation under way. `made` holds the partitions that exist already; `steps` adds to it."""

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
