"""What `Admin` is told and tells: topics to make, configs, groups. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..protocol.errors import DecodeError
from ..protocol.messages import consumer_protocol as wire
from ..protocol.messages.describe_configs import DescribeConfigsResourceResult
from ..protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from ..protocol.messages.group_history import HistoricCause, HistoricRebalance
from .metadata import Node
from .record import TopicPartition

# The broker's default: num.partitions, default.replication.factor.
BROKER_DEFAULT = -1

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
GROUP_RESOURCE = 32

_RESOURCES = {TOPIC_RESOURCE: "topic", GROUP_RESOURCE: "group"}


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to make. With `assignments` (partition to node ids) the two numbers stay at BROKER_DEFAULT."""

    name: str
    num_partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict[str, str])
    assignments: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """Whose configs: use `ConfigResource.topic("flights")`, `.broker(1)` or `.every_broker()`."""

    type: int
    name: str

    def __str__(self) -> str:
        if self.type == BROKER_RESOURCE:
            return f"broker {self.name}" if self.name else "every broker"
        return f"{_RESOURCES.get(self.type, 'resource')} {self.name!r}"

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        return cls(TOPIC_RESOURCE, name)

    @classmethod
    def broker(cls, node_id: int) -> ConfigResource:
        return cls(BROKER_RESOURCE, str(node_id))

    @classmethod
    def every_broker(cls) -> ConfigResource:
        """What is changed for every broker of the cluster."""
        return cls(BROKER_RESOURCE, "")

    @classmethod
    def group(cls, group_id: str) -> ConfigResource:
        return cls(GROUP_RESOURCE, group_id)

    @property
    def node_id(self) -> int | None:
        """The broker that must be asked itself; None where any can answer."""
        return int(self.name) if self.type == BROKER_RESOURCE and self.name else None


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One config: its value and where it comes from (`source`: 1 topic, 2 broker dynamic, 4 broker's file, 5
    default...)."""

    name: str
    value: str | None
    source: int = -1
    read_only: bool = False
    sensitive: bool = False
    type: int = 0
    documentation: str | None = None
    # (name, value, source) of everything that sets it, the strongest first.
    synonyms: tuple[tuple[str, str | None, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A change of one config: `set` it, `delete` it (its default holds then), `append` to a list or `subtract`."""

    name: str
    value: str | None = None
    operation: str = "set"


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id as ListTransactions shows it; `state` is Kafka's word (Ongoing, CompleteCommit, ...)."""

    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """How a transactional id stands. `began_ms` is the broker's wall clock, None where no transaction is open."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    began_ms: int | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """A producer that a partition remembers; `began_at` is the first offset of its open transaction, None without."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    began_at: int | None


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str
    controller_id: int
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group as ListGroups shows it; state and type are empty where the broker is too old to say."""

    group_id: str
    protocol_type: str
    state: str = ""
    type: str = ""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a group; topics and partitions are empty where it speaks no consumer protocol."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A classic group: `state` is Kafka's word (Stable, Empty, PreparingRebalance, ...), `protocol` the strategy in
    use, `coordinator` the broker that answered."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[GroupMember, ...] = ()
    coordinator: Node | None = None


@dataclass(frozen=True, slots=True)
class RebalanceCause:
    """Why a group rebalanced: `kind` is a word (joined, left, expired, changed-subscription, ...), `text` says it for
    people."""

    kind: str
    text: str
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    # For `expired`: how long ago the member was last heard of; None elsewhere, or if it never was.
    silent_ms: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RebalanceWait:
    """Someone a rebalance waited for, from its beginning; `fate` is came, dropped, kept (a static member) or missing
    (still)."""

    member_id: str
    waited_ms: int
    fate: str


@dataclass(frozen=True, slots=True)
class GroupRebalance:
    """One rebalance of a group. `ending` is stable, empty, overtaken (by the next one) or running.

    Times are the broker's wall clock in ms. `joins_ms` is how long members were waited for, `assignment_ms` how long
    the leader's assignment was, None for a phase that did not end.
    """

    began_ms: int
    ended_ms: int | None
    joins_ms: int | None
    assignment_ms: int | None
    ending: str
    first_round: bool
    old_generation: int
    generation: int
    members: int
    protocol: str
    leader: str
    causes: tuple[RebalanceCause, ...]
    # Causes that were counted, not kept.
    more_causes: int
    # The longest waits, the longest first.
    waited: tuple[RebalanceWait, ...]


def config_entry(entry: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        entry.name,
        entry.value,
        entry.config_source,
        entry.read_only,
        entry.is_sensitive,
        entry.config_type,
        entry.documentation,
        tuple((synonym.name, synonym.value, synonym.source) for synonym in entry.synonyms),
    )


def group_description(group: DescribedGroup, coordinator: Node | None) -> GroupDescription:
    members = tuple(_member(member) for member in group.members)
    return GroupDescription(
        group.group_id, group.group_state, group.protocol_type, group.protocol_data, members, coordinator
    )


def group_rebalance(each: HistoricRebalance) -> GroupRebalance:
    ended_ms = None if each.ended_ms < 0 else each.ended_ms
    joins_ms = None if each.joined_ms < 0 else max(each.joined_ms - each.began_ms, 0)
    assigned = joins_ms is not None and ended_ms is not None and each.ending != "empty"
    return GroupRebalance(
        each.began_ms,
        ended_ms,
        joins_ms,
        max(each.ended_ms - each.joined_ms, 0) if assigned else None,
        each.ending,
        each.first_round,
        each.old_generation,
        each.generation,
        each.members,
        each.protocol,
        each.leader,
        tuple(_cause(cause) for cause in each.causes),
        each.more_causes,
        tuple(RebalanceWait(wait.member_id, wait.waited_ms, wait.fate) for wait in each.waited),
    )


def _cause(cause: HistoricCause) -> RebalanceCause:
    return RebalanceCause(
        cause.kind,
        cause.text,
        cause.member_id,
        cause.instance_id,
        cause.client_id,
        cause.client_host,
        None if cause.silent_ms < 0 else cause.silent_ms,
        cause.detail,
    )


def _member(member: DescribedGroupMember) -> GroupMember:
    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()
    try:
        if member.member_metadata:
            topics = tuple(wire.decode_versioned(wire.ConsumerProtocolSubscription, member.member_metadata).topics)
        if member.member_assignment:
            assignment = wire.decode_versioned(wire.ConsumerProtocolAssignment, member.member_assignment)
            partitions = tuple(
                TopicPartition(each.topic, number)
                for each in assignment.assigned_partitions
                for number in each.partitions
            )
    except DecodeError:
        pass  # another kind of group (Connect's workers, say): these bytes are its own
    return GroupMember(
        member.member_id, member.group_instance_id, member.client_id, member.client_host, topics, partitions
    )
