"""The share partitions of this broker: those of the partitions that it leads, while a group has a session here.

They are loaded when a member first fetches, and dropped once the last session of their group has ended and everything
is written. So the memory that they take is bounded by the sessions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from ..coordination.modern.state import Place
from ..coordination.share_states.share_state import ShareKey
from ..topics.partition import Partition
from ..topics.topics import Topics
from ..turns import keeper
from .actor import SharePartitionActor, ShareSurroundings
from .stretches import RecordState


class InFlight(NamedTuple):
    """The records of a partition that members hold, and those that are being written as dead letters."""

    held: int = 0
    archiving: int = 0


class SharePartitions:
    """The actors, by group and partition."""

    def __init__(self, topics: Topics, surroundings: ShareSurroundings) -> None:
        self._topics = topics
        self._surroundings = surroundings
        self._by_group: dict[str, dict[Place, SharePartitionActor]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_group.values()))

    def partition(self, place: Place) -> Partition:
        """Return a partition that this broker leads.

        Raises UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR.
        """
        topic = self._topics.by_id(place[0])
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = topic.partition(place[1])
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition.check_leading()
        return partition

    def find(self, group_id: str, place: Place) -> SharePartitionActor | None:
        """Return the actor that is there; None where nobody has fetched, or it is about an earlier reign."""
        actor = self._by_group.get(group_id, {}).get(place)
        if actor is None:
            return None
        topic = self._topics.by_id(place[0])
        partition = topic.partition(place[1]) if topic is not None else None
        if partition is not None and actor.is_current(partition):
            return actor
        self.drop(actor)
        return None

    def groups(self) -> list[str]:
        """Return the groups that have partitions here."""
        return list(self._by_group)

    def in_flight(self, group_id: str) -> Iterator[InFlight]:
        """Yield how many records members hold, and how many are being written as dead letters, for each partition."""
        for actor in list(self._by_group.get(group_id, {}).values()):
            held = archiving = 0
            for stretch in actor.machine.stretches() if actor.machine is not None else ():
                held += stretch.size * stretch.is_held
                archiving += stretch.size * (stretch.state is RecordState.ARCHIVING)
            yield InFlight(held, archiving)

    def holds(self, group_id: str, member_id: str, place: Place) -> bool:
        """Return whether a member has records of a partition."""
        actor = self.find(group_id, place)
        return actor is not None and actor.machine is not None and actor.machine.holds(member_id)

    def open(self, group_id: str, place: Place, partition: Partition) -> SharePartitionActor:
        """Return the actor, and begin to load it where it is not there. One that has failed is loaded again."""
        actor = self.find(group_id, place)
        if actor is not None:
            return actor
        actor = SharePartitionActor(ShareKey(group_id, *place), partition, self._surroundings)
        self._by_group.setdefault(group_id, {})[place] = actor
        actor.load()
        return actor

    def drop(self, actor: SharePartitionActor) -> None:
        """Forget an actor: the next request loads the state again."""
        actor.fence()
        actors = self._by_group.get(actor.key.group_id)
        place = (actor.key.topic_id, actor.key.partition)
        if actors is not None and actors.get(place) is actor:
            del actors[place]
            if not actors:
                del self._by_group[actor.key.group_id]

    async def acknowledged(self, group_id: str) -> None:
        """Wait for acknowledgements of the group that take turns."""
        for actor in list(self._by_group.get(group_id, {}).values()):
            await actor.acknowledged()

    async def release(self, group_id: str, member_id: str, places: Iterable[Place]) -> None:
        """Give back what a member holds, and return when that is written."""
        writes: list[asyncio.Future[None]] = []
        for place in places:
            actor = self.find(group_id, place)
            written = actor.release(member_id) if actor is not None else None
            if written is not None:
                writes.append(written)
            await keeper().pause()
        if writes:
            # What could not be written is released all the same, and the actor has logged it.
            await asyncio.wait(writes)

    async def forget_group(self, group_id: str, has_sessions: Callable[[], bool]) -> None:
        """Drop the partitions of a group once everything is written, unless it has sessions here by then."""
        for actor in list(self._by_group.get(group_id, {}).values()):
            await actor.settled()
            if has_sessions():
                return
            self.drop(actor)
            await keeper().pause()

    async def close(self, deadline_s: float) -> None:
        """Serve nobody any more, and wait at most `deadline_s` for what is being written."""
        actors = [actor for actors in self._by_group.values() for actor in actors.values()]
        self._by_group.clear()
        for actor in actors:
            actor.fence()
        await asyncio.gather(*(actor.close(deadline_s) for actor in actors))
