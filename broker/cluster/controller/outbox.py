"""The outbox: what brokers must be told of a change, gathered during a step and taken as requests at its end.

A broker takes no more than 100,000 values in one request, so larger messages go in pieces.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from ...replication.named_partitions import BEGINS, ENDS, GOES_ON
from ..znodes import LEADER_DURING_DELETE, LeaderAndIsr, Registration, Replicas, TopicPartition
from .cluster_state import ClusterState

# Half of what a broker takes: lists of brokers come on top.
MAX_VALUES = 50_000


@dataclass(frozen=True, slots=True)
class PartitionUpdate:
    """A partition's leader, ISR and replicas, as a broker is told of them."""

    place: TopicPartition
    state: LeaderAndIsr
    replicas: Replicas
    topic_id: bytes
    # Replicas that are dead or whose log directory failed.
    offline: tuple[int, ...] = ()
    # Whether the replica is made now, so that a broker with an offline log directory may make it elsewhere.
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class BecomeLeaderOrFollower:
    """Tells a broker what its replicas of these partitions are from now on (LeaderAndIsr)."""

    broker_id: int
    updates: tuple[PartitionUpdate, ...]
    leaders: tuple[Registration, ...]
    # Whether it names every partition of the broker, so that what the broker has beyond them is stray.
    is_full: bool = False
    # Which piece it is of a request that names everything in pieces (replication/named_partitions.py).
    piece: int | None = None


@dataclass(frozen=True, slots=True)
class TellMetadata:
    """Tells a broker who is alive, and what became of these partitions (UpdateMetadata)."""

    broker_id: int
    brokers: tuple[Registration, ...]
    updates: tuple[PartitionUpdate, ...]
    # Whether these are all partitions of the cluster: what is not named is gone.
    is_full: bool = False
    # The same.
    piece: int | None = None


@dataclass(frozen=True, slots=True)
class StopReplicas:
    """Tells a broker to follow these partitions no more, and which of them to delete (StopReplica)."""

    broker_id: int
    # Partition -> its leader epoch, and whether its log is deleted.
    partitions: dict[TopicPartition, tuple[int, bool]]


Message = BecomeLeaderOrFollower | TellMetadata | StopReplicas


class Outbox:
    """What is to be told, broker by broker. Empty after `take`."""

    def __init__(self) -> None:
        self._roles: defaultdict[int, dict[TopicPartition, bool]] = defaultdict(dict)
        self._stops: defaultdict[int, dict[TopicPartition, tuple[int, bool]]] = defaultdict(dict)
        # Brokers that are told of every partition: of the cluster, and of those that they have.
        self._newcomers: set[int] = set()
        self._metadata: dict[TopicPartition, None] = {}
        self._brokers_changed = False

    def tell_role(self, brokers: Iterable[int], place: TopicPartition, *, is_new: bool = False) -> None:
        """Tell the leader and the followers of a partition, and everybody's metadata."""
        for broker in brokers:
            known = self._roles[broker].get(place, False)
            self._roles[broker][place] = known or is_new
        self._metadata[place] = None

    def tell_everybody(self, places: Iterable[TopicPartition] = ()) -> None:
        """Tell every broker who is alive, and what became of `places`."""
        self._brokers_changed = True
        self._metadata.update(dict.fromkeys(places))

    def welcome(self, broker: int) -> None:
        """Tell a broker that has just come of everything."""
        self._newcomers.add(broker)

    def stop(self, broker: int, place: TopicPartition, leader_epoch: int, *, delete: bool) -> None:
        """Tell a broker to stop a replica."""
        self._stops[broker][place] = (leader_epoch, delete)
        self._roles[broker].pop(place, None)

    def take(self, cluster: ClusterState) -> Iterator[Message | None]:
        """Yield the requests, each broker's in the order in which it must get them, and forget them at the end.

        None stands where others may have a turn of the loop. Neither `cluster` nor the outbox may change meanwhile.

        A broker must know who is alive before it is told whom to follow: Kafka's follows no leader that it does not
        know, and does not try again. Otherwise leaders learn of their role before clients are told of it.
        """
        shared = _Shared(cluster)
        if self._newcomers:
            yield from shared.gather()
        yield from shared.gather_changes(self._metadata)
        for broker in sorted(cluster.live):
            roles = yield from self._take_roles(shared, broker)
            metadata = self._take_metadata(shared, broker)
            stops = dict(self._stops.get(broker, {}))
            if broker in self._newcomers:
                deletions = {place: each for place, each in stops.items() if each[1]}
                stops = {place: each for place, each in stops.items() if not each[1]}
                # A full message names nothing that is deleted: what it does not name is given up, with its files.
                yield from [*metadata, *([StopReplicas(broker, deletions)] if deletions else []), *roles]
            elif self._brokers_changed and roles:
                yield from [TellMetadata(broker, shared.live, ()), *roles, *metadata]
            else:
                yield from roles + metadata
            if stops:
                yield StopReplicas(broker, stops)
        for gathered in (self._roles, self._stops, self._newcomers, self._metadata):
            gathered.clear()
        self._brokers_changed = False

    def _take_roles(self, shared: _Shared, broker: int) -> Generator[None, None, list[Message]]:
        deleting = shared.cluster.deleting
        # A broker that has deleted its replica would make it again.
        wanted = {place: each for place, each in self._roles.get(broker, {}).items() if place.topic not in deleting}
        states, live = shared.cluster.states, shared.cluster.live
        is_full = broker in self._newcomers
        if is_full:
            wanted = {place: wanted.get(place, False) for place in shared.held[broker]}
            # What a full message does not name is given up by the broker. So it must not leave out what could not be
            # read: the broker's log may be all there is.
            is_full = not shared.cluster.unread and states.keys() >= wanted.keys()
        updates: list[PartitionUpdate] = []
        for place, is_new in wanted.items():
            if place in states:
                updates.append(shared.update(place, is_new=is_new))
            yield
        if not updates and not is_full:
            return []
        leaders = {each.state.leader for each in updates} & set(live)
        return [BecomeLeaderOrFollower(broker, tuple(updates), tuple(live[each] for each in sorted(leaders)), is_full)]

    def _take_metadata(self, shared: _Shared, broker: int) -> list[Message]:
        if broker in self._newcomers:
            # A partition that could not be read may be there all the same.
            return [TellMetadata(broker, shared.live, shared.everything, is_full=not shared.cluster.unread)]
        if not self._metadata and not self._brokers_changed:
            return []
        return [TellMetadata(broker, shared.live, shared.changes)]


class _Shared:
    """What several brokers are told, made once: of a hundred thousand partitions it is seconds of work."""

    def __init__(self, cluster: ClusterState) -> None:
        self.cluster = cluster
        self.live = tuple(cluster.live[each] for each in sorted(cluster.live))
        # The partitions that every broker is told of.
        self.changes: tuple[PartitionUpdate, ...] = ()
        self._updates: dict[TopicPartition, PartitionUpdate] = {}
        # Every partition that has a state, and the partitions of each broker that are not being deleted.
        self.everything: tuple[PartitionUpdate, ...] = ()
        self.held: dict[int, list[TopicPartition]] = {each: [] for each in cluster.live}

    def gather(self) -> Iterator[None]:
        """Fill `everything` and `held`; yield where others may have a turn of the loop."""
        everything: list[PartitionUpdate] = []
        for place, assigned in self.cluster.replicas.items():
            if place in self.cluster.states:
                everything.append(self.update(place))
            if place.topic not in self.cluster.deleting:
                for broker in assigned.replicas:
                    if broker in self.held:
                        self.held[broker].append(place)
            yield
        self.everything = tuple(everything)

    def gather_changes(self, places: Iterable[TopicPartition]) -> Iterator[None]:
        """Fill `changes` with these partitions; yield where others may have a turn of the loop."""
        changes: list[PartitionUpdate] = []
        for place in places:
            if place in self.cluster.states:
                changes.append(self.update(place))
            yield
        self.changes = tuple(changes)

    def update(self, place: TopicPartition, *, is_new: bool = False) -> PartitionUpdate:
        """Return what is said of a partition."""
        found = self._updates.get(place)
        if found is None:
            found = self._updates[place] = _update(self.cluster, place)
        return replace(found, is_new=True) if is_new else found


def _update(cluster: ClusterState, place: TopicPartition) -> PartitionUpdate:
    state, replicas = cluster.states[place], cluster.replicas[place]
    if place.topic in cluster.deleting:
        epoch = state.leader_epoch
        state = LeaderAndIsr(LEADER_DURING_DELETE, epoch, state.isr, cluster.epoch, state.partition_epoch)
    offline = tuple(each for each in replicas.replicas if not cluster.is_alive(each, place))
    return PartitionUpdate(place, state, replicas, cluster.topic_ids[place.topic], offline)


def pieces_of(message: Message, max_values: int = MAX_VALUES) -> Iterator[Message]:
    """Yield smaller messages that together say what this one says, in the order in which they are to be sent."""
    if isinstance(message, StopReplicas):
        left = iter(message.partitions.items())
        part = dict(islice(left, max_values))
        yield replace(message, partitions=part)
        while part := dict(islice(left, max_values)):
            yield replace(message, partitions=part)
        return
    updates = _parts(message.updates, max_values)
    part, following = next(updates, ()), next(updates, None)
    if following is None:
        yield message
        return
    kind = BEGINS
    while part is not None:
        kind = ENDS if following is None else kind
        yield replace(message, updates=part, piece=kind if message.is_full else None)
        part, following, kind = following, next(updates, None), GOES_ON


def _parts(updates: tuple[PartitionUpdate, ...], max_values: int) -> Iterator[tuple[PartitionUpdate, ...]]:
    part: list[PartitionUpdate] = []
    values = 0
    for each in updates:
        values += _values(each)
        if part and values > max_values:
            yield tuple(part)
            part, values = [], _values(each)
        part.append(each)
    if part:
        yield tuple(part)


def _values(update: PartitionUpdate) -> int:
    """Return how many values a partition has in a request at most: itself, its topic, and its lists of brokers."""
    replicas = update.replicas
    lists = update.state.isr, replicas.replicas, replicas.adding, replicas.removing, update.offline
    return 2 + sum(map(len, lists))
