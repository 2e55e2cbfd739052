"""The shards of a coordinator: the partitions of its internal topic, and an actor for each id in them.

A group id or transactional id belongs to one partition, by its hash. This broker coordinates the ids of the partitions
that it owns. `load` takes a partition over, `unload` gives it up: a change of a partition's leader enters here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Generic, Protocol, TypeVar

from ...protocol.errors import DecodeError, ErrorCode, KafkaError
from ..clock import Clock
from ..timers import Timers
from ..turns import keeper
from .actor import Actor, Runtime
from .coordinator_log import CoordinatorLog
from .interfaces import Aside, at_once
from .outcome import Loaded
from .partition_hash import java_hash, partition_of_hash
from .replay import Ended, Replay, Written

ActorT = TypeVar("ActorT", bound=Actor[Any, Any, Any])
RecordT = TypeVar("RecordT")


class Companion(Protocol):
    """What a partition holds beside actors."""

    def restore(self, written: Written, partition: int) -> bool:
        """Take a record that was loaded. Return whether it is no actor's. Raises DecodeError."""
        ...

    def loaded(self, partition: int) -> None:
        """Serve what was loaded of a partition."""
        ...

    def unload(self, partition: int) -> None:
        """Forget what belongs to a partition."""
        ...


class Replayed(Protocol):
    """What a load reads a partition into: the records that matter, in an order that leads to the same states."""

    def take(self, each: Written | Ended, /) -> None: ...
    def outcome(self) -> Iterator[Written]: ...


class Shards(Generic[ActorT, RecordT]):
    """The partitions that one coordinator owns, and those that it loads.

    `new_actor` makes the actor of an id. `decode` returns a record with its id, or None for an unknown type of record;
    it is given the partition too. `new_replay` makes what a load reads into.
    """

    def __init__(
        self,
        topic: str,
        log: CoordinatorLog,
        timers: Timers,
        clock: Clock,
        logger: logging.Logger,
        new_actor: Callable[[str, int, Runtime], ActorT],
        decode: Callable[[Written, int], tuple[str, RecordT] | None],
        new_replay: Callable[[], Replayed] = Replay,
        aside: Aside = at_once,
    ) -> None:
        self._topic = topic
        self._log = log
        self._logger = logger
        self._new_actor = new_actor
        self._decode = decode
        self._new_replay = new_replay
        self._runtime = Runtime(log, timers, clock, self._note, self._forget, aside)
        # Invariant: holds only ids of `owned` partitions.
        self.actors: dict[str, ActorT] = {}
        self.owned: set[int] = set()
        # Invariant: disjoint from `owned` but for a partition that is loaded again.
        self.loading: set[int] = set()
        # Where records begin that the last load of a partition could not read. Another version may read them.
        self.unreadable_from: dict[int, int] = {}
        self.companion: Companion | None = None
        # The latest load in turns of each partition.
        self._loads: dict[int, object] = {}

    def _note(self, line: str, noun: str, key: str) -> None:
        self._logger.info("%s", line, extra={noun.replace(" ", "_"): key})

    # -- Partitions

    def start(self) -> None:
        """Load every partition."""
        partitions = range(self._log.partition_count())
        self.loading.update(partitions)
        for partition in partitions:
            self.load(partition)

    def stop(self) -> None:
        """Unload every partition. Idempotent."""
        for partition in list(self.owned):
            self.unload(partition)
        self.loading.clear()

    def load(self, partition: int) -> None:
        """Take a partition over: read its records, apply the last one of each key, and feed each actor with Loaded.

        Until then its ids are COORDINATOR_LOAD_IN_PROGRESS. A partition that cannot be read stays NOT_COORDINATOR,
        because groups without their offsets would start over, and nobody knows what was decided on transactions.
        """
        for _ in self._load(partition):
            pass

    def load_in_turns(self, partition: int) -> Coroutine[None, None, None]:
        """Do as `load`, but let others have their turns. An `unload` from this call on ends it."""
        load = self._loads[partition] = object()
        self.loading.add(partition)
        return keeper().finish(self._load_while_wanted(partition, load))

    def _load_while_wanted(self, partition: int, load: object) -> Iterator[None]:
        # Before its first turn the partition may have got another leader.
        if self._loads.get(partition) is not load:
            return
        for _ in self._load(partition):
            yield
            if self._loads.get(partition) is not load:
                return

    def _load(self, partition: int) -> Iterator[None]:
        """Load a partition; each step reads a record, or applies it."""
        self.loading.add(partition)
        self.unreadable_from.pop(partition, None)
        replay = self._new_replay()
        try:
            for entry in self._log.entries(partition):
                replay.take(entry)
                yield
        except KafkaError as error:
            self._logger.error("%s-%d could not be loaded: %s", self._topic, partition, error.message)
            self.loading.discard(partition)
            return
        restored: dict[str, ActorT] = {}
        for written in replay.outcome():
            # One record may be a state of 10,000 batches: to read it takes long, and so does what it changes.
            found = self._read(written, partition)
            yield
            if found is not None:
                key, record = found
                if key not in restored:
                    restored[key] = self._new_actor(key, partition, self._runtime)
                restored[key].apply(record)
                yield
        self.actors.update(restored)
        if self.companion is not None:
            self.companion.loaded(partition)
        self.loading.discard(partition)
        self.owned.add(partition)
        for actor in restored.values():
            actor.feed(Loaded())

    def unload(self, partition: int) -> None:
        """Give a partition up. Clients that wait in it get NOT_COORDINATOR."""
        self.owned.discard(partition)
        if self._loads.pop(partition, None) is not None:
            self.loading.discard(partition)
        for key in [key for key, actor in self.actors.items() if actor.partition == partition]:
            self.actors.pop(key).close()
        if self.companion is not None:
            self.companion.unload(partition)

    def _read(self, written: Written, partition: int) -> tuple[str, RecordT] | None:
        """Return an actor's record and its id; None where there is none, or it cannot be read."""
        if written.value is None:
            return None
        try:
            if self.companion is not None and self.companion.restore(written, partition):
                return None
            decoded = self._decode(written, partition)
        except DecodeError as error:
            # One record that cannot be read must not cost all other ids of its partition.
            first = self.unreadable_from.get(partition, written.offset)
            self.unreadable_from[partition] = min(first, written.offset)
            where = self._topic, partition, error, written.key.hex()
            self._logger.error("%s-%d: a record was skipped: %s (key %s)", *where)
            return None
        if decoded is None:
            self._logger.warning("%s-%d: a record of an unknown type was skipped", self._topic, partition)
        return decoded

    @property
    def is_whole(self) -> bool:
        """Whether every partition is loaded."""
        return len(self.owned) == self._log.partition_count()

    # -- Ids

    def partition_of(self, key: str) -> int:
        """Return the partition that an id belongs to."""
        return partition_of_hash(java_hash(key), self._log.partition_count())

    def check(self, key: str) -> ErrorCode:
        """Return why this broker does not coordinate an id now; NONE if it does."""
        partition = self.partition_of(key)
        if partition in self.loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE if partition in self.owned else ErrorCode.NOT_COORDINATOR

    def add(self, key: str) -> ActorT:
        """Make the actor of a new id. Its first record creates the topic if this is the first id of all."""
        actor = self.actors[key] = self._new_actor(key, self.partition_of(key), self._runtime)
        return actor

    def _forget(self, actor: Actor[Any, Any, Any]) -> None:
        if self.actors.get(actor.key) is actor:
            del self.actors[actor.key]
        actor.close()
