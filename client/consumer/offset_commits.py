"""Commits of a consumer: by its user, by auto-commit, and before partitions are revoked.

Offsets go to the coordinator of the group, or to a store of the user's, such as the database that it writes to.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from ...protocol.errors import ErrorCode, KafkaError
from ..core.clock import monotonic_ms
from ..core.cluster import Cluster
from ..core.committed_offsets import Generation
from ..core.lifetime import of_the_user
from ..core.options import whole_number
from ..errors import CommitFailed, GroupRequired, OffsetStoreFailed, RequestTimedOut
from ..record import OffsetAndMetadata, TopicPartition
from .explanation import ConsumerCounts
from .membership import Membership
from .polls import Polls, taken_away
from .positions import PartitionState, Positions

_log = logging.getLogger(__name__)

T = TypeVar("T")


class Offsets(Protocol):
    """Where a consumer loads and commits offsets: a group's coordinator, or a store."""

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        generation: Generation,
        read: Mapping[TopicPartition, bytes] | None = None,
    ) -> None:
        """Commit offsets. `read` has the ids of the topics whose records were read, if known. Raises KafkaError."""
        ...

    async def fetch(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offset of each partition, None if it has none. Raises KafkaError."""
        ...


@dataclass(eq=False, repr=False)
class OffsetCommits:
    """Commits offsets one commit at a time, as a member if there is a membership."""

    _cluster: Cluster
    # None without a group.
    _committed: Offsets | None
    _positions: Positions
    _polls: Polls
    _counts: ConsumerCounts
    # Whether processed records are committed without the user's call.
    automatic: bool = False
    # None until the consumer joins a group.
    membership: Membership | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def kept(self) -> Offsets:
        """Return the offsets of the group or the store. Raises GroupRequired."""
        if self._committed is None:
            raise GroupRequired("offsets are kept by groups: give the consumer a group_id, or an offset_store")
        return self._committed

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None) -> None:
        """Commit for the user, within `default_api_timeout_ms`, these offsets, or those of all returned records.

        While tasks say which records are done, these in the place of all. Raises CommitFailed if a partition was taken
        away after its records were returned, RequestTimedOut, KafkaError.
        """
        if offsets is None:
            by_record, positions = self._polls.by_record is not None, self._positions
            offsets = positions.processed_offsets() if by_record else positions.returned_offsets()
        limit_ms = self._cluster.options.default_api_timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await self._commit_for_user(offsets)
        except CommitFailed:
            if self.membership is not None:
                self.membership.request_rejoin()
            raise
        except TimeoutError:
            why = "" if self.membership is None else f"; the member waits for {self.membership.waits_for() or 'it'}"
            text = f"nobody answered the commit within default_api_timeout_ms ({limit_ms:g}){why}"
            raise RequestTimedOut(text) from None

    async def _commit_for_user(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        states = {partition: self._positions.get(partition) for partition in offsets}
        async with self._lock:
            processed = {partition: state.processed for partition, state in states.items() if state is not None}
            await self._commit_past_rebalances(offsets, states)
            for partition, state in states.items():
                if state is not None:
                    # Auto-commit must not overtake this commit with what was processed before it.
                    state.auto_commit_above = max(processed[partition] or 0, offsets[partition].offset)

    async def _commit_past_rebalances(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        states: Mapping[TopicPartition, PartitionState | None],
    ) -> None:
        """Commit offsets; again with the next generation if a rebalance goes on that leaves the partitions here.

        Cooperative members keep partitions over a rebalance, and their users go on committing.
        """
        failures, loop = 0, asyncio.get_running_loop()
        deadline = loop.time() + self._cluster.options.default_api_timeout_ms / 1000
        while True:
            # A partition that has come meanwhile was not taken away.
            held = {each: state for each, state in states.items() if state is not None}
            moved = [each for each, state in held.items() if self._positions.get(each) is not state]
            if moved:
                raise taken_away(moved)
            membership = self.membership
            by_group = not isinstance(self._committed, StoredOffsets)
            if membership is not None and membership.joins_as_new and by_group:
                text = "nothing was committed: this member has not joined its group yet; it waits for "
                raise CommitFailed(ErrorCode.REBALANCE_IN_PROGRESS, text + membership.waits_for())
            generation = Generation() if membership is None else membership.generation
            try:
                return await self._commit(offsets)
            except CommitFailed as error:
                failures += 1
                pause = self._cluster.backoff.pause_ms(failures) / 1000
                # A member joins, or has joined, a later generation than the one it committed with.
                later = None if membership is None else self.membership
                if later is None or not later.may_commit_again(generation, error) or loop.time() + pause > deadline:
                    raise
            await asyncio.sleep(pause)

    async def commit_processed(self) -> None:
        """With auto-commit, commit the records processed since the last commit.

        A failure is logged: the records will be read again.
        """
        if not self.automatic:
            return
        async with self._lock:
            try:
                await self._commit(self._positions.uncommitted_offsets())
            except KafkaError as error:
                _log.warning("auto-commit failed: %s", error)

    async def auto_commit(self, interval_ms: float) -> None:
        """Commit processed records again and again, until cancelled."""
        while True:
            await asyncio.sleep(interval_ms / 1000)
            if self.membership is None or not self.membership.rebalancing:
                await self.commit_processed()

    async def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit offsets, and note them in the states of the partitions that are still assigned."""
        if not offsets:
            return
        generation = Generation() if self.membership is None else self.membership.generation
        states = {partition: self._positions.get(partition) for partition in offsets}
        read = {each.partition: each.topic_id for each in states.values() if each is not None and each.topic_id}
        began_ms = monotonic_ms()
        try:
            await self.kept().commit(offsets, generation, read)
        except KafkaError:
            self._counts.failed_commits += 1
            raise
        self._counts.commit_ms.add(monotonic_ms() - began_ms)
        for partition, state in states.items():
            if state is not None:
                state.committed = offsets[partition].offset


# -- Stores


class OffsetStore(Protocol):
    """Keeps offsets for a consumer. What a method raises reaches the user as OffsetStoreFailed.

    A group does not protect a store: a member that was thrown out may still commit. A store that several consumers
    share compares offsets, or fences old writers itself.
    """

    async def load(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int | OffsetAndMetadata | None]:
        """Return the offset of the next record to read in each partition; None, or no entry, if there is none."""
        ...

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Keep the offsets of the next records to read. They must survive when this returns."""
        ...


class StoredOffsets:
    """A user's store in the place of the group's offsets. An `Offsets`. Raises OffsetStoreFailed."""

    def __init__(self, store: OffsetStore) -> None:
        self._store = store

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        generation: Generation,
        read: Mapping[TopicPartition, bytes] | None = None,
    ) -> None:
        """Commit offsets."""
        await _stored("take the commit", lambda: self._store.commit(offsets))

    async def fetch(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the offsets that the store has."""

        async def load() -> dict[TopicPartition, OffsetAndMetadata | None]:
            stored = await self._store.load(partitions)
            return {partition: _as_offset(stored.get(partition)) for partition in partitions}

        return await _stored("give the offsets", load)


def _as_offset(given: int | OffsetAndMetadata | None) -> OffsetAndMetadata | None:
    if given is None or isinstance(given, OffsetAndMetadata):
        return given
    return OffsetAndMetadata(whole_number(given, "an offset"))


async def _stored(what: str, call: Callable[[], Awaitable[T]]) -> T:
    try:
        return await of_the_user(call())
    except Exception as error:  # an error of Kafka, too: the group would take that for its own
        raise OffsetStoreFailed(f"the offset store did not {what}: {error!r}") from error
