"""The topic `_schemas` as the log of the registry: read by one task, written in transactions of one transactional id.

All registries over a topic share that id, so the broker decides who writes: a registry that wants to write takes the id
over, which ends the transaction of the one before and fences it. Then it reads up to the end, decides, writes, and
answers when it has read its own records. A registry that is fenced does the same again. So each decision sees all
records before its own, and no lock or election is needed.

Promise: an answer to a change means that its records are committed. A change whose outcome is not known in time is
answered with 50002, and may be there.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from ..client import Admin, ConfigResource, Consumer, NewTopic, Producer, TopicPartition
from ..client.errors import ErrorCode, KafkaError, ProducerFenced, TransactionFailed, UnknownTopic
from .changes import Change
from .errors import RegistryError, not_permitted
from .records import Record, UnreadableRecord
from .subjects import Subjects

_log = logging.getLogger(__name__)

Decide = Callable[[Subjects], Change]

# A change takes a few milliseconds: after this the broker is away, or another registry takes the id over all the time.
WRITE_TIMEOUT_S = 20.0
# How long a look-up that found nothing waits for what other registries wrote.
REFRESH_TIMEOUT_S = 5.0
# How often a change takes the id over from other registries before it gives up.
MAX_TAKEOVERS = 20
_TAKEOVER_PAUSE_S, _MAX_PAUSE_S = 0.05, 2.0
_POLL_MS = 1_000
_RECORDS_AT_ONCE = 5_000
# The broker aborts the transaction of a registry that died after this, if no other one takes the id over before.
_TRANSACTION_TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Which topic of which cluster. The mappings are options of the clients."""

    bootstrap_servers: str = "127.0.0.1:9092"
    topic: str = "_schemas"
    replication_factor: int = -1
    read_only: bool = False
    admin: Mapping[str, Any] = field(default_factory=dict[str, Any])
    consumer: Mapping[str, Any] = field(default_factory=dict[str, Any])
    producer: Mapping[str, Any] = field(default_factory=dict[str, Any])


class SchemasLog:
    """The state, and the way to change it. `start` reads the whole topic; `failed` ends when the log cannot be read."""

    def __init__(self, options: LogOptions) -> None:
        self.subjects = Subjects()
        self._options = options
        self._partition = TopicPartition(options.topic, 0)
        # A registry makes no topic by asking for one.
        reading: dict[str, Any] = {"allow_auto_create_topics": False, **options.consumer}
        self._consumer: Consumer[bytes, bytes] = Consumer(
            bootstrap_servers=options.bootstrap_servers,
            isolation_level="read_committed",
            # Without records that it knows the state is wrong: then the registry ends, and reads all again.
            auto_offset_reset="none",
            **reading,
        )
        self._producer: Producer[bytes, bytes] | None = None
        self._position = 0
        # Who waits for which position.
        self._waiting: dict[asyncio.Future[None], int] = {}
        # Held while records are applied, and while a thread decides by the state.
        self._state = asyncio.Lock()
        self._writing = asyncio.Lock()
        self._reader: asyncio.Task[None] | None = None
        # Its own: clients in the same loop may hold all threads of the loop's, and wait for this registry.
        self._thread = ThreadPoolExecutor(1, "registry")

    # -- Start and stop

    async def start(self) -> None:
        """Create the topic if it is missing, and read all of it. Raises KafkaError; RegistryError for a wrong topic."""
        await self._ensure_topic()
        await self._consumer.start()
        self._consumer.assign([self._partition])
        self._consumer.seek_to_beginning(self._partition)
        self._reader = asyncio.create_task(self._read())
        await self.catch_up()
        _log.info("read %d subjects from %s", len(self.subjects.versions), self._options.topic)

    async def stop(self) -> None:
        """Wait for the change under way, and close the clients."""
        async with self._writing:
            await self._drop_producer()
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        await self._consumer.stop()
        self._thread.shutdown(wait=False)

    async def failed(self) -> None:
        """Wait until the log cannot be read any more. Raises the KafkaError."""
        assert self._reader is not None
        await asyncio.shield(self._reader)

    async def _ensure_topic(self) -> None:
        options = self._options
        async with Admin(options.bootstrap_servers, **options.admin) as admin:
            try:
                found = (await admin.describe_topics(options.topic))[options.topic]
            except UnknownTopic:
                if options.read_only:
                    raise
                return await self._create_topic(admin)
            if len(found.partitions) != 1:
                raise RegistryError(50001, f"{options.topic} has {len(found.partitions)} partitions, and must have one")
            if not options.read_only:
                await self._check_cleanup(admin)

    async def _check_cleanup(self, admin: Admin) -> None:
        """Raise RegistryError for a topic whose old records retention would delete: schemas that are in use."""
        topic = self._options.topic
        resource = ConfigResource.topic(topic)
        try:
            found = (await admin.describe_configs([resource], names=["cleanup.policy"]))[resource]
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise
            return _log.warning("whether %s keeps old schemas is not known: %s", topic, error.message)
        policy = found["cleanup.policy"].value or ""
        if policy != "compact":
            text = f"{topic} has cleanup.policy={policy}, which deletes old schemas: set it to compact"
            raise RegistryError(50001, text)

    async def _create_topic(self, admin: Admin) -> None:
        options = self._options
        topic = NewTopic(options.topic, 1, options.replication_factor, {"cleanup.policy": "compact"})
        try:
            await admin.create_topics([topic])
        except KafkaError as error:
            # Another registry that starts now was first.
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise

    # -- Read

    async def _read(self) -> None:
        while True:
            found = await self._consumer.getmany(timeout_ms=_POLL_MS, max_records=_RECORDS_AT_ONCE)
            async with self._state:
                for record in found.get(self._partition, ()):
                    self._apply(record.offset, record.key, record.value)
            self._position = await self._consumer.position(self._partition)
            for reached in [each for each, offset in self._waiting.items() if offset <= self._position]:
                del self._waiting[reached]
                reached.set_result(None)

    def _apply(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        topic = self._options.topic
        try:
            unsupported = self.subjects.apply(key, value)
        except UnreadableRecord as error:
            _log.warning("%s: the record at offset %d is left out: %s", topic, offset, error)
        else:
            if unsupported is not None:
                _log.warning("%s: the record at offset %d does less than it asks for: %s", topic, offset, unsupported)

    async def catch_up(self) -> None:
        """Wait until all that is committed now is applied."""
        ends = await self._consumer.end_offsets([self._partition])
        await self._reach(ends[self._partition])

    async def refresh(self) -> None:
        """Do as `catch_up` for a look-up, and not for long. Raises RegistryError if the end cannot be read."""
        try:
            async with asyncio.timeout(REFRESH_TIMEOUT_S):
                await self.catch_up()
        except TimeoutError:
            raise RegistryError(50001, "Error in the backend data store: it does not answer in time") from None
        except KafkaError as error:
            raise _store_error(error) from error

    async def _reach(self, offset: int) -> None:
        """Wait until everything before `offset` is applied. Raises the reader's error if it ends before."""
        if self._position >= offset:
            return
        assert self._reader is not None
        reached = asyncio.get_running_loop().create_future()
        self._waiting[reached] = offset
        try:
            await asyncio.wait({reached, self._reader}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiting.pop(reached, None)
        if not reached.done():
            self._reader.result()

    # -- Look and change

    async def look(self, work: Callable[[Subjects], Any]) -> Any:
        """Return what `work` finds in the state. It runs in a thread: comparing schemas takes its time."""
        async with self._state:
            working = asyncio.get_running_loop().run_in_executor(self._thread, work, self.subjects)
            try:
                return await asyncio.shield(working)
            except asyncio.CancelledError:
                # Cancelling does not stop the thread, and nothing may be applied while it reads the state.
                await asyncio.wait({working})
                raise

    async def change(self, decide: Decide) -> Any:
        """Have `decide` see the latest state, write its records and return its answer. Raises RegistryError.

        It may be called more than once, when other registries write at the same time.
        """
        if self._options.read_only:
            raise not_permitted("This registry is read-only")
        async with self._writing:
            try:
                async with asyncio.timeout(WRITE_TIMEOUT_S):
                    return await self._change(decide)
            except TimeoutError:
                await self._drop_producer()
                raise RegistryError(50002, "Write to the Kafka store timed out; it may be done all the same") from None
            except KafkaError as error:
                await self._drop_producer()
                raise _store_error(error) from error

    async def _change(self, decide: Decide) -> Any:
        for attempt in count(1):
            try:
                return await self._try_change(decide)
            except (ProducerFenced, TransactionFailed):
                # Another registry took the id over, and nothing of the transaction is committed.
                if attempt == MAX_TAKEOVERS:
                    raise
                await self._drop_producer()
                # Two that write at once would otherwise fence each other before either has written.
                await asyncio.sleep(random.uniform(0, min(_MAX_PAUSE_S, _TAKEOVER_PAUSE_S * 2**attempt)))
        raise AssertionError

    async def _try_change(self, decide: Decide) -> Any:
        producer = await self._own_producer()
        await self.catch_up()
        change: Change = await self.look(decide)
        if change.records:
            await self._reach(await self._write(producer, change.records) + 1)
        return change.answer

    async def _own_producer(self) -> Producer[bytes, bytes]:
        if self._producer is None:
            writing: dict[str, Any] = {"linger_ms": 0, "retry_backoff_ms": 10, **self._options.producer}
            producer: Producer[bytes, bytes] = Producer(
                self._options.bootstrap_servers,
                transactional_id=f"odradek-registry-{self._options.topic}",
                transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS,
                **writing,
            )
            await producer.start()
            self._producer = producer
        return self._producer

    async def _drop_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            # Its transaction ends when the next producer takes the id over.
            with suppress(KafkaError):
                await producer.stop(0)

    async def _write(self, producer: Producer[bytes, bytes], records: tuple[Record, ...]) -> int:
        """Write records in one transaction. Return the offset of the last one."""
        async with producer.transaction():
            sent = [await producer.send(self._options.topic, value, key, 0) for key, value in records]
        return max([(await each).offset for each in sent])


def _store_error(error: KafkaError) -> RegistryError:
    return RegistryError(50001, f"Error in the backend data store: {error.message}")
