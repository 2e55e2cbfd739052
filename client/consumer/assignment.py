"""The partitions that a consumer has now, and why it has none of some topics.

The partitions come from its group, its user or its topics, and go on a rebalance. Revoking commits the processed
records (with auto-commit), calls the listener and drops the partitions. Assigning finds the positions of the new
partitions, and calls the listener.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Sequence
from dataclasses import dataclass, field

from ...protocol.errors import ErrorCode, KafkaError
from ..core.cluster import Cluster
from ..core.lifetime import of_the_user
from ..core.metadata import ClusterView
from ..errors import ListenerFailed
from ..record import EARLIEST, TopicPartition
from .offset_commits import OffsetCommits
from .options import RebalanceListener
from .polls import Polls
from .position_finder import PositionFinder
from .positions import PartitionState, Positions


class TopicErrors:
    """Why subscribed topics cannot be read."""

    def __init__(self, cluster: Cluster) -> None:
        self._retries = cluster.retries
        # Errors that were told already.
        self.raised: dict[str, ErrorCode] = {}
        # Topics that do not exist yet, or have no leader.
        self._retried: frozenset[str] = frozenset()

    def found(self, topics: Collection[str], view: ClusterView) -> KafkaError | None:
        """Return an error of one of these topics that is new in this view.

        A topic that does not exist may be created yet: that is logged after a second.
        """
        found = {topic: view.errors[topic] for topic in topics if topic in view.errors}
        final = {topic: code for topic, code in found.items() if not code.retriable}
        new = [topic for topic, code in final.items() if self.raised.get(topic) is not code]
        self.raised = final
        retried = {topic: code for topic, code in found.items() if code.retriable}
        for topic in self._retried - retried.keys():
            self._retries.done(("topic", topic))
        for topic, code in retried.items():
            text = f"topic {topic!r} cannot be read yet: {code.text}"
            self._retries.failed(("topic", topic), KafkaError(code, text))
        self._retried = frozenset(retried)
        return KafkaError(final[new[-1]], f"topic {new[-1]!r} cannot be read: {final[new[-1]].text}") if new else None


@dataclass(eq=False, repr=False)
class Assignment:
    """The assigned partitions of one consumer. A `membership.Assignee`."""

    _cluster: Cluster
    _positions: Positions
    _finder: PositionFinder
    _commits: OffsetCommits
    _polls: Polls
    listener: RebalanceListener | None = None
    # Topics read without a group: partitions that appear later are read from their beginning.
    _known_topics: set[str] = field(default_factory=set[str])
    # Partitions of which the listener has not heard, because their positions are not found yet.
    _untold: frozenset[TopicPartition] = frozenset()

    # -- Partitions of a group

    def partitions(self) -> frozenset[TopicPartition]:
        """Return the assigned partitions."""
        return self._positions.partitions()

    def hold(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out no more records of these partitions: they are about to be given up."""
        for partition in partitions:
            state = self._positions.get(partition)
            if state is not None:
                state.held = True
                state.rewind()

    async def revoke(self, partitions: Collection[TopicPartition]) -> None:
        """Commit the processed records and give up these partitions."""
        if not partitions:
            return
        await self._commits.commit_processed()
        try:
            if self.listener is not None and (told := self._told(partitions)):
                await _tell(self.listener.on_partitions_revoked(told))
        finally:
            self.drop(partitions)

    async def lose(self) -> None:
        """Drop all partitions without a commit: other members have them already."""
        lost = self._told(self.partitions())
        self.drop(self.partitions())
        if lost and self.listener is not None:
            await _tell(self.listener.on_partitions_lost(lost))

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Forget these partitions."""
        self._polls.drop(self._positions.drop(partitions))

    async def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Take exactly these partitions; those that were assigned before keep their positions."""
        self._cluster.watch({partition.topic for partition in partitions})
        if any(partition.topic not in self._cluster.view.topics for partition in partitions):
            await self._cluster.refresh()
        self._untold |= {state.partition for state in self._positions.replace(partitions)}
        await self._finder.find(self._positions)
        new, self._untold = self._untold & self.partitions(), frozenset()
        if self.listener is not None:
            await _tell(self.listener.on_partitions_assigned(new))

    def _told(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Return those of which the listener has heard that the consumer has them."""
        return self.partitions().intersection(partitions) - self._untold

    # -- Partitions without a group

    def follow_topics(self, topics: Collection[str], view: ClusterView) -> list[PartitionState]:
        """Assign every partition that these topics have now. Return those whose committed offsets must be found.

        A topic that is missing from the metadata for a while keeps its positions.
        """
        known = [topic for topic in topics if topic in view.topics]
        wanted = [state.partition for state in self._positions if state.partition.topic in topics]
        wanted += [TopicPartition(topic, info.partition) for topic in known for info in view.topics[topic].partitions]
        new = self._positions.replace(wanted)
        for state in [] if self._finder.has_offsets else new:
            if state.partition.topic in self._known_topics:
                state.reset_to(EARLIEST)
            else:
                self._finder.begin(state)
        self._known_topics = self._known_topics.union(known).intersection(topics)
        return new if self._finder.has_offsets else []


async def _tell(call: Awaitable[None]) -> None:
    """Await a listener's method. Raises ListenerFailed in the place of what it raises."""
    try:
        await of_the_user(call)
    except Exception as error:
        raise ListenerFailed(f"the rebalance listener raised {error!r}: subscribe() again to go on") from error
