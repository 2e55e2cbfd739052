"""Which partitions a consumer has, and what is known to be processed in them: between the user, the group and the
fetcher.

Records that were handed out are the user's until it comes back for more (`back`); then they are processed. `idle` is
set while the user holds none, which is when partitions may be given up. Giving up means: commit what was processed
(with auto-commit), tell the listener, forget the partitions. Taking over means: find the committed offsets, else reset
as `auto_offset_reset` says.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from ...protocol.errors import KafkaError
from ..metadata import ClusterView
from ..network.cluster import Cluster
from ..network.coordinator import Coordinator, Generation
from ..record import EARLIEST, OffsetAndMetadata, TopicPartition
from .fetcher import Fetcher
from .membership import Membership
from .positions import PartitionState, Positions

_log = logging.getLogger(__name__)


class RebalanceListener(Protocol):
    """Told when partitions come and go. While `on_partitions_revoked` runs, offsets can still be committed."""

    async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None: ...

    async def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None: ...

    async def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        """They are somebody else's already; committing fails."""
        ...


class Ownership:
    """The partitions of one consumer. A `membership.Owner`."""

    def __init__(
        self,
        cluster: Cluster,
        positions: Positions,
        fetcher: Fetcher,
        coordinator: Coordinator | None,
        auto_commit_interval_ms: float | None,
    ) -> None:
        self._cluster = cluster
        self._positions = positions
        self._fetcher = fetcher
        self._coordinator = coordinator
        self._auto_commit_interval_ms = auto_commit_interval_ms
        self.membership: Membership | None = None
        self.listener: RebalanceListener | None = None
        self.idle = asyncio.Event()
        self.idle.set()
        self._handed_out: dict[TopicPartition, PartitionState] = {}
        # What the group has from us, so that nothing is committed twice over.
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._committing = asyncio.Lock()
        # Topics read whole (no group): partitions that appear later are read from their beginning.
        self._whole: set[str] = set()

    # -- the user's side ---------------------------------------------------------------------------

    def hand_out(self, state: PartitionState) -> None:
        """The user works on records of this partition now."""
        self.idle.clear()
        self._handed_out[state.partition] = state

    def back(self) -> None:
        """The user is done with what it was given."""
        for state in self._handed_out.values():
            state.processed = state.position
        self._handed_out.clear()
        self.idle.set()

    # -- the group's side --------------------------------------------------------------------------

    def owned(self) -> frozenset[TopicPartition]:
        """What is ours now."""
        return self._positions.partitions()

    async def revoked(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Commit what was processed and give up these partitions, or all."""
        gone = self.owned() if partitions is None else frozenset(partitions)
        if not gone:
            return
        await self.commit_processed()
        if self.listener is not None:
            await self.listener.on_partitions_revoked(gone)
        self._positions.replace(self.owned() - gone)
        for partition in gone:
            self._handed_out.pop(partition, None)
            self._committed.pop(partition, None)

    async def lost(self) -> None:
        """All partitions are somebody else's already."""
        partitions = self._positions.partitions()
        self._forget()
        if partitions and self.listener is not None:
            await self.listener.on_partitions_lost(partitions)

    async def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """These are ours now, and all that are; those that were ours go on where they are."""
        self._cluster.watch({partition.topic for partition in partitions})
        if any(partition.topic not in self._cluster.view.topics for partition in partitions):
            await self._cluster.refresh()
        new = self._positions.replace(partitions)
        await self.begin(self._positions)
        if self.listener is not None:
            await self.listener.on_partitions_assigned(frozenset(state.partition for state in new))

    def stirred(self) -> None:
        self._fetcher.arrived.set()

    def _forget(self) -> None:
        self._positions.replace(())
        self._handed_out.clear()
        self._committed.clear()

    # -- where to begin ----------------------------------------------------------------------------

    async def begin(self, states: Iterable[PartitionState]) -> None:
        """Find where new partitions go on: at the committed offset, else where auto_offset_reset says."""
        turns = {
            state.partition: (state, state.turn) for state in states if state.position is None and state.reset is None
        }
        committed: Mapping[TopicPartition, OffsetAndMetadata | None] = {}
        if self._coordinator is not None and turns:
            committed = await self._coordinator.committed(turns.keys())
        for partition, (state, turn) in turns.items():
            offset = committed.get(partition)
            if state.turn != turn:
                continue  # the user has sought meanwhile
            if offset is None:
                self._fetcher.no_position(state)
            else:
                state.move_to(offset.offset, offset.leader_epoch)
                self._committed[partition] = offset
        self._fetcher.wake()
        self._fetcher.announce()

    async def begin_by_hand(self, states: Sequence[PartitionState]) -> None:
        """`begin` for partitions that the user assigned: what goes wrong, the next poll says."""
        try:
            await self.begin(states)
        except KafkaError as error:
            for state in states:
                state.error = error
            self.stirred()
            self._fetcher.announce()

    def read_whole(self, topics: Collection[str], view: ClusterView) -> None:
        """Without a group: have every partition that these topics have now.

        A topic that the brokers lose sight of for a while keeps its positions.
        """
        known = [topic for topic in topics if topic in view.topics]
        wanted = [state.partition for state in self._positions if state.partition.topic in topics]
        wanted += [TopicPartition(topic, info.partition) for topic in known for info in view.topics[topic].partitions]
        for state in self._positions.replace(wanted):
            if state.partition.topic in self._whole:
                state.reset_to(EARLIEST)
            else:
                self._fetcher.no_position(state)
        self._whole = self._whole.union(known).intersection(topics)

    # -- committing --------------------------------------------------------------------------------

    @property
    def generation(self) -> Generation:
        return Generation() if self.membership is None else self.membership.generation

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit, one commit at a time. Raises CommitFailed, KafkaError."""
        assert self._coordinator is not None
        async with self._committing:
            await self._coordinator.commit(offsets, self.generation)
            self._committed.update(offsets)

    async def commit_processed(self) -> None:
        """With auto-commit: commit what was processed since the last time. A failure is logged; the records will be
        read again."""
        if self._auto_commit_interval_ms is None:
            return
        offsets = {
            partition: offset
            for partition, offset in self._positions.processed().items()
            if self._committed.get(partition, OffsetAndMetadata(-1)).offset != offset.offset
        }
        try:
            if offsets:
                await self.commit(offsets)
        except KafkaError as error:
            _log.warning("auto-commit failed: %s", error)

    async def keep_committing(self) -> None:
        """The auto-commit task."""
        assert self._auto_commit_interval_ms is not None
        while True:
            await asyncio.sleep(self._auto_commit_interval_ms / 1000)
            if self.membership is None or not self.membership.rebalancing:
                await self.commit_processed()
