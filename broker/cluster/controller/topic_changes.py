"""Changes of topics that clients ask the controller for: create, add partitions, delete; as steps.

The znodes are written, and the controller takes the change up in the same event, so that the new partitions have
leaders when the steps end.

`place` says which brokers get the replicas of new partitions. Kafka's way: spread round robin, and over racks. The
first replica, the preferred leader, goes round robin from a random broker on. The others follow it at a distance that
grows by one after every round, so that two brokers do not always share their partitions. With racks, the brokers are
ordered so that neighbours are in different racks, and a partition gets a second replica in a rack only after every rack
has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest

from ....protocol.errors import ErrorCode, KafkaError
from ....zookeeper.operations import Create, Put, Steps, check_size, create, read, write
from ...clock import jitter
from ...topics.topic_names import new_topic_id
from ..znodes import (
    Assignment,
    Replicas,
    TopicPartition,
    config_path,
    decode_assignment,
    delete_topic_path,
    encode_assignment,
    encode_config,
    topic_path,
)
from .cluster_state import ClusterState
from .machine import ControllerMachine
from .partition_states import MAX_TRIES

# How many unknown brokers an error names: a client may have chosen thousands.
UNKNOWN_NAMED = 10
# The replicas of each partition, the preferred leader first.
Placement = dict[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic as a client wants it. `placement` is what the client chose; None: the controller spreads the replicas."""

    name: str
    partitions: int
    factor: int
    configs: Mapping[str, str]
    placement: Placement | None = None


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """The topic that was created. The id is of zeros where the request was checked only."""

    topic_id: bytes
    partitions: int
    factor: int


def create_topic(machine: ControllerMachine, wanted: NewTopic, *, validate_only: bool) -> Steps[CreatedTopic]:
    """Create a topic. Raises KafkaError, of which TooLarge where ZooKeeper cannot hold its assignment."""
    cluster = machine.cluster
    if wanted.name in cluster.topic_ids:
        why = "is being deleted" if wanted.name in cluster.deletions else "already exists"
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{wanted.name}' {why}.")
    placement = wanted.placement
    if placement is None:
        start, shift = jitter().getrandbits(16), jitter().getrandbits(16)
        placement = place(_racks(cluster), wanted.partitions, wanted.factor, start, shift)
    _check(cluster, placement, first=0)
    factor = len(placement[0])
    topic_id = new_topic_id()
    assignment = Assignment(topic_id, {index: Replicas(to) for index, to in placement.items()})
    made = Create(topic_path(wanted.name), encode_assignment(assignment))
    check_size(made)
    if validate_only:
        return CreatedTopic(bytes(16), len(placement), factor)
    yield from _write_configs(wanted.name, wanted.configs)
    failure = yield from create(made)
    if failure is not None:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{wanted.name}' already exists.")
    yield from machine.topics_changed()
    return CreatedTopic(topic_id, len(placement), factor)


def add_partitions(
    machine: ControllerMachine, topic: str, count: int, chosen: list[tuple[int, ...]] | None, *, validate_only: bool
) -> Steps[None]:
    """Give a topic partitions up to `count`; `chosen` are the replicas of the new ones. Raises KafkaError."""
    cluster = machine.cluster
    places = cluster.partitions_of(topic)
    if not places or topic in cluster.deletions:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{topic}' does not exist.")
    if any(cluster.replicas[each].is_moving for each in places):
        raise KafkaError(ErrorCode.REASSIGNMENT_IN_PROGRESS, f"The partitions of '{topic}' are being reassigned.")
    first = len(places)
    if count <= first:
        why = f"The topic {topic} currently has {first} partition(s); {count} would not be an increase."
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, why)
    placement = _placement_of_new(cluster, places[0], first, count, chosen)
    _check(cluster, placement, first)
    path = topic_path(topic)
    znode = yield from read(path)
    if znode is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{topic}' does not exist.")
    known = decode_assignment(topic, znode.data)
    partitions = known.partitions | {index: Replicas(to) for index, to in placement.items()}
    put = Put(path, encode_assignment(Assignment(known.topic_id, partitions)), znode.version)
    check_size(put)
    if validate_only:
        return
    failure = yield from write(put)
    if failure is not None:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The replicas of '{topic}' were changed by hand: try again.")
    yield from machine.partitions_changed(topic)


def delete_topic(machine: ControllerMachine, topic: str) -> Steps[None]:
    """Ask for the deletion of a topic and begin with it. Raises UNKNOWN_TOPIC_OR_PARTITION."""
    if topic not in machine.cluster.topic_ids:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{topic}' does not exist.")
    # It may be there already: then the deletion waits for a broker that is away.
    yield from create(Create(delete_topic_path(topic)))
    yield from machine.deletion.take_up()


def _placement_of_new(
    cluster: ClusterState, partition_0: TopicPartition, first: int, count: int, chosen: list[tuple[int, ...]] | None
) -> Placement:
    replicas = cluster.replicas[partition_0].replicas
    if chosen is None:
        brokers = sorted(cluster.live)
        start = next((at for at, broker in enumerate(brokers) if broker >= replicas[0]), 0)
        return place(_racks(cluster), count - first, len(replicas), start, start, first)
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if len(chosen) != count - first:
        why = f"{count - first} new partitions were asked for, and replicas of {len(chosen)} are assigned."
        raise KafkaError(code, why)
    if any(len(each) != len(replicas) for each in chosen):
        raise KafkaError(code, f"Every partition of this topic has {len(replicas)} replicas.")
    return dict(enumerate(chosen, first))


def _check(cluster: ClusterState, placement: Placement, first: int) -> None:
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    unknown = sorted({broker for each in placement.values() for broker in each} - cluster.live.keys())
    if unknown:
        named = ", ".join(map(str, unknown[:UNKNOWN_NAMED])) + ("" if len(unknown) <= UNKNOWN_NAMED else ", ...")
        raise KafkaError(code, f"Unknown broker(s) in replica assignment: {named}.")
    if sorted(placement) != list(range(first, first + len(placement))):
        raise KafkaError(code, f"partitions are numbered from {first}, without gaps: not {sorted(placement)}")
    for index, brokers in placement.items():
        if not brokers or len(set(brokers)) < len(brokers) or min(brokers) < 0:
            raise KafkaError(code, f"partition {index} cannot be on {list(brokers)}: they must be different brokers")
    if len({len(brokers) for brokers in placement.values()}) > 1:
        raise KafkaError(code, "All partitions must have the same number of replicas.")


def _racks(cluster: ClusterState) -> dict[int, str | None]:
    return {each.broker_id: each.rack for each in cluster.live.values() if each.broker_id not in cluster.shutting_down}


def _write_configs(topic: str, configs: Mapping[str, str]) -> Steps[None]:
    """Write the configs of a new topic. Those that an earlier one of its name may have left are replaced."""
    path, content = config_path("topics", topic), encode_config(dict(configs))
    for _ in range(MAX_TRIES):
        failure = yield from create(Create(path, content))
        if failure is not None and failure.exists:
            failure = yield from write(Put(path, content))
        if failure is None:
            return
    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The configs of '{topic}' are changed by hand: try again.")


def place(
    racks: Mapping[int, str | None], partitions: int, factor: int, start: int, shift: int, first: int = 0
) -> dict[int, tuple[int, ...]]:
    """Return the replicas of `partitions` new partitions, whose indexes begin at `first`.

    `racks` has the rack of every living broker. `start` and `shift` are random numbers; a topic that grows passes the
    place of partition 0 for both. Raises INVALID_REPLICATION_FACTOR where there are fewer brokers than `factor`.
    """
    if factor < 1:
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if factor > len(racks):
        why = f"Unable to replicate the partition {factor} time(s): only {len(racks)} broker(s) are registered."
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, why)
    aware = all(rack is not None for rack in racks.values())
    order = _rack_alternating(racks) if aware else sorted(racks)
    found: dict[int, tuple[int, ...]] = {}
    for index in range(first, first + partitions):
        rounds = index // len(order)
        leader_at = (index + start) % len(order)
        found[index] = _replicas(order, racks, factor, leader_at, shift + rounds, aware=aware)
    return found


def _replicas(
    order: list[int], racks: Mapping[int, str | None], factor: int, leader_at: int, shift: int, *, aware: bool
) -> tuple[int, ...]:
    """Return the leader and the followers of one partition."""
    count = len(order)
    chosen = [order[leader_at]]
    rest = count - 1
    candidates = [order[(leader_at + 1 + (shift + step) % rest) % count] for step in range(rest)] if rest else []
    if aware:
        candidates = _racks_first(candidates, racks, racks[order[leader_at]])
    return tuple(chosen + candidates[: factor - 1])


def _racks_first(candidates: list[int], racks: Mapping[int, str | None], leader_rack: str | None) -> list[int]:
    """Return the candidates with the first of every rack that has no replica yet in front."""
    seen = {leader_rack}
    first: list[int] = []
    later: list[int] = []
    for each in candidates:
        (later if racks[each] in seen else first).append(each)
        seen.add(racks[each])
    return first + later


def _rack_alternating(racks: Mapping[int, str | None]) -> list[int]:
    """Return the brokers so that neighbours are in different racks: the first of each rack, the second of each, ..."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker] or "", []).append(broker)
    rounds = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    return [broker for each in rounds for broker in each if broker is not None]
