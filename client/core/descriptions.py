"""The values that `Admin` takes and returns: topics, configs, groups, transactions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..record import TopicPartition
from .metadata import Node

# Use the broker's num.partitions or default.replication.factor.
BROKER_DEFAULT = -1

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
GROUP_RESOURCE = 32

_RESOURCES = {TOPIC_RESOURCE: "topic", GROUP_RESOURCE: "group"}


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. With `assignments` (partition to node ids) the two numbers stay at BROKER_DEFAULT."""

    name: str
    num_partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict[str, str])
    assignments: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """The owner of configs. Use `ConfigResource.topic("flights")`, `.broker(1)` or `.every_broker()`."""

    type: int
    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.type, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError("use ConfigResource.topic(name), .broker(node_id), .every_broker() or .group(group_id)")

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
        """Return the resource of the configs that apply to every broker of the cluster."""
        return cls(BROKER_RESOURCE, "")

    @classmethod
    def group(cls, group_id: str) -> ConfigResource:
        return cls(GROUP_RESOURCE, group_id)

    @property
    def node_id(self) -> int | None:
        """The broker that must get the request; None if any broker can respond."""
        return int(self.name) if self.type == BROKER_RESOURCE and self.name else None


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One config: its value and its `source` (1 topic, 2 dynamic broker config, 4 the broker's file, 5 default ...)."""

    name: str
    value: str | None
    source: int = -1
    read_only: bool = False
    sensitive: bool = False
    type: int = 0
    documentation: str | None = None
    # (name, value, source) of every config that sets it, the one with the highest precedence first.
    synonyms: tuple[tuple[str, str | None, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A change of one config: `set` it, `delete` it (back to its default), `append` to a list or `subtract` from it."""

    name: str
    value: str | None = None
    operation: str = "set"


# The changes of one resource; in a dict by name, a value is set, and None deletes it.
ConfigChanges = Iterable[ConfigChange] | Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id as ListTransactions shows it; `state` is Kafka's word (Ongoing, CompleteCommit, ...)."""

    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class QueryDescription:
    """A query whose tasks write in transactions that commit together. Times are the broker's wall clock in ms.

    `committed_batch` is None before the first commit; `current_batch` is None where no task has joined one since the
    coordinator has started.
    """

    query_id: str
    run_id: str
    committed_batch: int | None
    current_batch: int | None
    updated_ms: int
    # Those whose transaction is open.
    transactional_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """The state of a transactional id. `began_ms` is the broker's wall clock, None if no transaction is open."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    began_ms: int | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """A producer that a partition remembers; `began_at` is the first offset of its open transaction, or None."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    began_at: int | None


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """A cluster's id, its controller and its brokers."""

    cluster_id: str
    controller_id: int
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group as ListGroups shows it; state and type are empty if the broker is too old for them."""

    group_id: str
    protocol_type: str
    state: str = ""
    type: str = ""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a group; topics and partitions are empty if it is no consumer.

    `epoch`, `target` (what it is to have), `pattern` and `protocol` (classic or consumer) are those of consumer groups.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...] = ()
    # In a consumer group, with those that it still has to give up.
    partitions: tuple[TopicPartition, ...] = ()
    epoch: int = -1
    target: tuple[TopicPartition, ...] = ()
    pattern: str | None = None
    protocol: str = "classic"


@dataclass(frozen=True, slots=True)
class AwaitedPartition:
    """A partition that a member is to have and does not have yet. `holder` must give it up; None: nobody has it."""

    partition: TopicPartition
    member: GroupMember
    holder: GroupMember | None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group; its `type` is classic, consumer or share.

    `state` is Kafka's word (Stable, Empty, PreparingRebalance, Reconciling, ...), `protocol` the assignor in use,
    `coordinator` the broker that described it. `epoch` and `assignment_epoch` are those of the newer kinds, and equal
    where the assignment is up to date.
    """

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[GroupMember, ...] = ()
    coordinator: Node | None = None
    type: str = "classic"
    epoch: int = -1
    assignment_epoch: int = -1

    def awaited(self) -> list[AwaitedPartition]:
        """Return what members of a consumer group wait for: nothing if they all have what they are to have."""
        if self.type != "consumer":
            return []
        holders = {partition: member for member in self.members for partition in member.partitions}
        return [
            AwaitedPartition(partition, member, holders.get(partition))
            for member in self.members
            for partition in sorted(set(member.target).difference(member.partitions))
        ]


@dataclass(frozen=True, slots=True)
class ShareOffset:
    """Where a share group begins in a partition, and how many records it has left: None if that is not known."""

    start_offset: int
    leader_epoch: int
    lag: int | None


@dataclass(frozen=True, slots=True)
class ShareQueue:
    """What of a share group's records waits, is held, and is dead, by cause. None: the brokers do not tell.

    What is dead counts since the brokers started.
    """

    # Where its dead letters go; "" where it has none.
    dead_letter_topic: str
    # Those that no member has; where `held` is not known, also those that one has.
    waiting: int | None
    held: int | None = None
    # Being written as dead letters.
    archiving: int | None = None
    # Dead: a member has rejected them, or they were delivered as often as is allowed.
    rejected: int | None = None
    delivered_too_often: int | None = None
    # Dead, and not in the topic: the broker's log says why.
    lost: int | None = None


@dataclass(frozen=True, slots=True)
class RebalanceCause:
    """Why a group rebalanced: a `kind` (joined, left, expired, changed-subscription, ...) and a `text` for people."""

    kind: str
    text: str
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    # For `expired`: the time since the member's last request; None for other kinds, or if it sent none.
    silent_ms: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RebalanceWait:
    """A member that a rebalance waited for; `fate` is came, dropped, kept (a static member) or missing (still)."""

    member_id: str
    waited_ms: int
    fate: str


@dataclass(frozen=True, slots=True)
class GroupRebalance:
    """One rebalance of a group. `ending` is stable, empty, overtaken (by the next one) or running.

    Times are the broker's wall clock in ms. `joins_ms` is the time until all members had joined, `assignment_ms` the
    time until the leader's assignment came; None for a phase that did not end.
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
    # How many more causes there were.
    more_causes: int
    # The longest waits, the longest first.
    waited: tuple[RebalanceWait, ...]


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition that is moving to other brokers: its replicas, those that come and those that go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
