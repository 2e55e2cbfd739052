"""Commits of a consumer: by its user, by auto-commit, and before partitions are revoked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping

from ...protocol.errors import KafkaError
from ..network.committed_offsets import CommittedOffsets, Generation
from ..record import OffsetAndMetadata, TopicPartition
from .membership import Membership
from .positions import Positions

_log = logging.getLogger(__name__)


class OffsetCommits:
    """Commits offsets one commit at a time, as a member if there is a membership."""

    def __init__(
        self, committed: CommittedOffsets | None, positions: Positions, auto_commit_interval_ms: float | None
    ) -> None:
        # None without a group.
        self._committed = committed
        self._positions = positions
        # None without auto-commit.
        self._auto_commit_interval_ms = auto_commit_interval_ms
        # None until the consumer joins a group.
        self.membership: Membership | None = None
        # The last commit of each partition, so that auto-commit repeats none.
        self._last: dict[TopicPartition, OffsetAndMetadata] = {}
        self._lock = asyncio.Lock()

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit offsets. Raises CommitFailed, KafkaError."""
        assert self._committed is not None
        async with self._lock:
            generation = Generation() if self.membership is None else self.membership.generation
            await self._committed.commit(offsets, generation)
            self.note(offsets)

    def note(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Remember offsets that the group has."""
        self._last.update(offsets)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget the commits of partitions that are no longer assigned."""
        for partition in partitions:
            self._last.pop(partition, None)

    def forget_all(self) -> None:
        """Forget all commits: the group has gone on without this member."""
        self._last.clear()

    async def commit_processed(self) -> None:
        """With auto-commit, commit the records processed since the last commit.

        A failure is logged: the records will be read again.
        """
        if self._auto_commit_interval_ms is None:
            return
        offsets = {
            partition: offset
            for partition, offset in self._positions.processed_offsets().items()
            if self._last.get(partition, OffsetAndMetadata(-1)).offset != offset.offset
        }
        try:
            if offsets:
                await self.commit(offsets)
        except KafkaError as error:
            _log.warning("auto-commit failed: %s", error)

    async def auto_commit(self, interval_ms: float) -> None:
        """Commit processed records again and again, until cancelled."""
        while True:
            await asyncio.sleep(interval_ms / 1000)
            if self.membership is None or not self.membership.rebalancing:
                await self.commit_processed()
