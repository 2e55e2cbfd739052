"""Commits of a consumer: by its user, by auto-commit, and before partitions are revoked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping

from ...protocol.errors import ErrorCode, KafkaError
from ..core.clock import monotonic_ms
from ..core.cluster import Cluster
from ..core.committed_offsets import Generation
from ..errors import CommitFailed, RequestTimedOut
from ..record import OffsetAndMetadata, TopicPartition
from .consumer_metrics import ConsumerCounts
from .membership import Membership, MemberState
from .offset_store import Offsets
from .positions import PartitionState, Positions

_log = logging.getLogger(__name__)


class OffsetCommits:
    """Commits offsets one commit at a time, as a member if there is a membership."""

    def __init__(
        self,
        cluster: Cluster,
        committed: Offsets | None,
        positions: Positions,
        auto_commit_interval_ms: float | None,
        counts: ConsumerCounts,
    ) -> None:
        self._counts = counts
        self._backoff = cluster.backoff
        self._limit_ms = cluster.options.default_api_timeout_ms
        # None without a group.
        self._committed = committed
        self._positions = positions
        # Whether processed records are committed without the user's call.
        self.automatic = auto_commit_interval_ms is not None
        # None until the consumer joins a group.
        self.membership: Membership | None = None
        self._lock = asyncio.Lock()

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit offsets of the user's within `default_api_timeout_ms`.

        Raises CommitFailed if a partition is taken away meanwhile, RequestTimedOut, KafkaError.
        """
        try:
            async with asyncio.timeout(self._limit_ms / 1000):
                await self._commit_for_user(offsets)
        except TimeoutError:
            why = "" if self.membership is None else f"; the member waits for {self.membership.waits_for() or 'it'}"
            text = f"nobody answered the commit within default_api_timeout_ms ({self._limit_ms:g}){why}"
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
        deadline = loop.time() + self._limit_ms / 1000
        while True:
            moved = [partition for partition, state in states.items() if self._positions.get(partition) is not state]
            if moved:
                raise taken_away(moved)
            generation = None if self.membership is None else self.membership.generation
            try:
                return await self._commit(offsets)
            except CommitFailed:
                failures += 1
                pause = self._backoff.pause_ms(failures) / 1000
                if not self._has_moved_on(generation) or loop.time() + pause > deadline:
                    raise
            await asyncio.sleep(pause)

    def _has_moved_on(self, generation: Generation | None) -> bool:
        """Whether this member joins, or has joined, a later generation than the one it committed with."""
        membership = self.membership
        if membership is None or generation is None or membership.error is not None:
            return False
        return membership.generation != generation or membership.state is MemberState.JOINING

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
        assert self._committed is not None
        generation = Generation() if self.membership is None else self.membership.generation
        states = {partition: self._positions.get(partition) for partition in offsets}
        read = {each.partition: each.topic_id for each in states.values() if each is not None and each.topic_id}
        began_ms = monotonic_ms()
        try:
            await self._committed.commit(offsets, generation, read)
        except KafkaError:
            self._counts.failed_commits += 1
            raise
        self._counts.commit_ms.add(monotonic_ms() - began_ms)
        for partition, state in states.items():
            if state is not None:
                state.committed = offsets[partition].offset


def taken_away(partitions: Collection[TopicPartition]) -> CommitFailed:
    """Return the error of a commit for partitions that are no longer this member's."""
    names = ", ".join(f"{topic}-{number}" for topic, number in partitions)
    return CommitFailed(
        ErrorCode.ILLEGAL_GENERATION,
        f"nothing was committed: {names} was taken away after its records were returned. "
        "They will be read again by the consumer that has the partition now.",
    )
