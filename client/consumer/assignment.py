"""The partitions that a consumer has now: they come from its group, its user or its topics, and go on a rebalance.

Records that were returned to the user count as processed when the user asks for more (`mark_processed`). `idle` is set
while the user has no unprocessed records; then partitions may be revoked. Revoking commits the processed records (with
auto-commit), calls the listener and drops the partitions. Assigning finds the positions of the new partitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Protocol

from ...protocol.errors import KafkaError
from ..metadata import ClusterView
from ..network.cluster import Cluster
from ..record import EARLIEST, TopicPartition
from .offset_commits import OffsetCommits
from .position_finder import PositionFinder
from .positions import PartitionState, Positions


class RebalanceListener(Protocol):
    """Called when partitions come and go. `on_partitions_revoked` can still commit offsets."""

    async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        """These partitions are about to be given up."""
        ...

    async def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        """These partitions are new."""
        ...

    async def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        """Other members have these partitions already; a commit would fail."""
        ...


class Assignment:
    """The assigned partitions of one consumer. A `membership.Assignee`."""

    def __init__(self, cluster: Cluster, positions: Positions, finder: PositionFinder, commits: OffsetCommits) -> None:
        self._cluster = cluster
        self._positions = positions
        self._finder = finder
        self._commits = commits
        self.listener: RebalanceListener | None = None
        self.idle = asyncio.Event()
        self.idle.set()
        # The partitions of the records that the user works on.
        self._returned: dict[TopicPartition, PartitionState] = {}
        # Topics read without a group: partitions that appear later are read from their beginning.
        self._known_topics: set[str] = set()

    # -- Records of the user

    def mark_returned(self, state: PartitionState) -> None:
        """The user works on records of this partition now."""
        self.idle.clear()
        self._returned[state.partition] = state

    def mark_processed(self) -> None:
        """The user has processed all records that were returned."""
        for state in self._returned.values():
            state.processed = state.position
        self._returned.clear()
        self.idle.set()

    # -- Partitions of a group

    def partitions(self) -> frozenset[TopicPartition]:
        """Return the assigned partitions."""
        return self._positions.partitions()

    async def revoke(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Commit the processed records and give up these partitions, or all."""
        revoked = self.partitions() if partitions is None else frozenset(partitions)
        if not revoked:
            return
        await self._commits.commit_processed()
        if self.listener is not None:
            await self.listener.on_partitions_revoked(revoked)
        self._positions.replace(self.partitions() - revoked)
        for partition in revoked:
            self._returned.pop(partition, None)
        self._commits.forget(revoked)

    async def lose(self) -> None:
        """Drop all partitions without a commit: other members have them already."""
        lost = self.partitions()
        self._positions.replace(())
        self._returned.clear()
        self._commits.forget_all()
        if lost and self.listener is not None:
            await self.listener.on_partitions_lost(lost)

    async def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Take exactly these partitions; those that were assigned before keep their positions."""
        self._cluster.watch({partition.topic for partition in partitions})
        if any(partition.topic not in self._cluster.view.topics for partition in partitions):
            await self._cluster.refresh()
        new = self._positions.replace(partitions)
        self._commits.note(await self._finder.find(self._positions))
        if self.listener is not None:
            await self.listener.on_partitions_assigned(frozenset(state.partition for state in new))

    # -- Partitions without a group

    async def find_positions(self, states: Sequence[PartitionState]) -> None:
        """Find the positions of partitions that the user assigned. The next poll raises errors."""
        try:
            self._commits.note(await self._finder.find(states))
        except KafkaError as error:
            self._finder.keep_error(states, error)

    def follow_topics(self, topics: Collection[str], view: ClusterView) -> None:
        """Assign every partition that these topics have now.

        A topic that is missing from the metadata for a while keeps its positions.
        """
        known = [topic for topic in topics if topic in view.topics]
        wanted = [state.partition for state in self._positions if state.partition.topic in topics]
        wanted += [TopicPartition(topic, info.partition) for topic in known for info in view.topics[topic].partitions]
        for state in self._positions.replace(wanted):
            if state.partition.topic in self._known_topics:
                state.reset_to(EARLIEST)
            else:
                self._finder.reset(state)
        self._known_topics = self._known_topics.union(known).intersection(topics)
