"""Znodes: the path and the content of everything that Kafka's brokers keep in ZooKeeper.

The paths are relative to the chroot. Contents are the JSON of Apache Kafka 3.9: `encode_…` writes it with Kafka's names
in Kafka's order, `decode_…` reads it and raises BadZnode where it is not what Kafka would write.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from ...protocol.errors import InvalidField
from ...protocol.primitives import uuid_from_text, uuid_to_text
from ...protocol.topic_partition import TopicPartition

BROKER_IDS = "/brokers/ids"
BROKER_SEQUENCE = "/brokers/seqid"
TOPICS = "/brokers/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
# Odradek's own: by which users that there are not get salts. Brokers of Kafka do not look at it.
STRANGER_SECRET = "/cluster/odradek_stranger_secret"
DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"
ISR_CHANGES = "/isr_change_notification"
ISR_CHANGE_PREFIX = f"{ISR_CHANGES}/isr_change_"
LOG_DIR_EVENTS = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX = f"{LOG_DIR_EVENTS}/log_dir_event_"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = f"{CONFIG_CHANGES}/config_change_"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
FEATURE = "/feature"
CONSUMERS = "/consumers"

# Each broker makes them at its start if they are missing.
PERSISTENT = (
    CONSUMERS,
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGES,
    LOG_DIR_EVENTS,
    PRODUCER_ID_BLOCK,
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
)

# A partition without a leader, and one whose topic is being deleted.
NO_LEADER = -1
LEADER_DURING_DELETE = -2

# Names of security protocols with the numbers that requests have for them.
SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
# Ids of brokers, indexes of partitions and epochs are 32 bits wide in requests.
_INT32 = range(1 << 31)
# Producer ids are 64 bits wide.
_INT64 = range(1 << 63)
_PORTS = range(1, 1 << 16)


P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger(__name__)


class BadZnode(Exception):
    """A znode holds what no broker would have written: `path` and `why`."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"the znode {path} cannot be read: {why}")
        self.path = path
        self.why = why


def sound(decode: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T | None:
    """Return what a `decode_…` returns; None, and a line in the log, where the znode cannot be read.

    For znodes that people and tools write too: one that makes no sense must not keep others from being read.
    """
    try:
        return decode(*arguments, **options)
    except BadZnode as error:
        _log.error("%s", error)
        return None


# -- Paths


def broker_path(broker_id: int) -> str:
    """Return the path of a broker's registration."""
    return f"{BROKER_IDS}/{broker_id}"


def topic_path(topic: str) -> str:
    """Return the path of a topic's assignment."""
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    """Return the path under which a topic's partitions are."""
    return f"{TOPICS}/{topic}/partitions"


def partition_path(place: TopicPartition) -> str:
    """Return the path of a partition, which is empty."""
    return f"{TOPICS}/{place.topic}/partitions/{place.partition}"


def state_path(place: TopicPartition) -> str:
    """Return the path of a partition's leader and ISR."""
    return f"{partition_path(place)}/state"


def config_path(entity: str, name: str) -> str:
    """Return the path of the configs of an entity: `topics`, `brokers`, `clients`, `users` or `ips`."""
    return f"/config/{entity}/{name}"


def delete_topic_path(topic: str) -> str:
    """Return the path that asks for the deletion of a topic."""
    return f"{DELETE_TOPICS}/{topic}"


# -- Contents


@dataclass(frozen=True, slots=True)
class Registration:
    """A broker that is alive. Source: `/brokers/ids/N`. `epoch` is the znode's czxid."""

    broker_id: int
    endpoints: tuple[str, ...]
    security_protocols: dict[str, str]
    rack: str | None = None
    timestamp_ms: int = 0
    epoch: int = -1
    features: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first endpoint."""
        return endpoint_address(self.endpoints[0])

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        """Host and port of each endpoint, by the name of its listener."""
        return {each.partition("://")[0]: endpoint_address(each) for each in self.endpoints}

    def shares_address(self, other: Registration) -> bool:
        """Return whether an endpoint of both has the same host and port: they are runs of one broker."""
        return not {*self.addresses.values()}.isdisjoint(other.addresses.values())

    def protocol(self, listener: str) -> str:
        """Return the security protocol of a listener."""
        return self.security_protocols.get(listener, listener)


def endpoint_address(endpoint: str) -> tuple[str, int]:
    """Return host and port of `LISTENER://HOST:PORT`."""
    host, _, port = endpoint.partition("://")[2].rpartition(":")
    return host.strip("[]"), int(port)


def encode_registration(broker: Registration) -> bytes:
    """Return the content of `/brokers/ids/N`, version 5."""
    plain = (each for name, each in broker.addresses.items() if broker.protocol(name) == "PLAINTEXT")
    # As in Kafka: for clients that know no other protocol.
    host, port = next(plain, (None, -1))
    fields: dict[str, Any] = {
        "features": broker.features,
        "listener_security_protocol_map": broker.security_protocols,
        "endpoints": list(broker.endpoints),
    }
    if broker.rack is not None:
        fields["rack"] = broker.rack
    fields |= {"jmx_port": -1, "port": port, "host": host, "version": 5, "timestamp": str(broker.timestamp_ms)}
    return write_fields(fields)


def decode_registration(broker_id: int, data: bytes | None, epoch: int) -> Registration:
    """Return the broker of `/brokers/ids/N`. Raises BadZnode."""
    path = broker_path(broker_id)
    fields = read_fields(path, data)
    endpoints = tuple(get_field(path, fields, "endpoints", list)) or (
        f"PLAINTEXT://{get_field(path, fields, 'host', str)}:{get_field(path, fields, 'port', int)}",
    )
    protocols = fields.get("listener_security_protocol_map", {"PLAINTEXT": "PLAINTEXT"})
    with _taking_apart(path, fields):
        protocols = dict(protocols)
        for each in endpoints:
            _within(endpoint_address(each)[1], _PORTS)
            listener = each.partition("://")[0]
            SECURITY_PROTOCOLS[protocols.get(listener, listener)]
        timestamp, rack = int(fields.get("timestamp", -1)), fields.get("rack")
        _within(broker_id, _INT32)
    return Registration(
        broker_id,
        endpoints,
        protocols,
        None if rack is None else str(rack),
        timestamp,
        epoch,
        fields.get("features", {}),
    )


@dataclass(frozen=True, slots=True)
class Replicas:
    """The brokers of one partition. During a reassignment `adding` come and `removing` go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_moving(self) -> bool:
        """Whether a reassignment is under way."""
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas that there will be when the reassignment is complete."""
        return tuple(each for each in self.replicas if each not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas that there were before the reassignment."""
        return tuple(each for each in self.replicas if each not in self.adding)


@dataclass(frozen=True, slots=True)
class Assignment:
    """A topic's id and the replicas of its partitions. Source: `/brokers/topics/T`. An old broker gave no id."""

    topic_id: bytes | None
    partitions: dict[int, Replicas]


def encode_assignment(assignment: Assignment) -> bytes:
    """Return the content of `/brokers/topics/T`, version 3."""
    partitions = sorted(assignment.partitions.items())
    return write_fields(
        {
            "partitions": {str(index): list(each.replicas) for index, each in partitions},
            **({"topic_id": uuid_to_text(assignment.topic_id)} if assignment.topic_id is not None else {}),
            "adding_replicas": {str(index): list(each.adding) for index, each in partitions if each.adding},
            "removing_replicas": {str(index): list(each.removing) for index, each in partitions if each.removing},
            "version": 3,
        }
    )


def decode_assignment(topic: str, data: bytes | None) -> Assignment:
    """Return the assignment of `/brokers/topics/T`. Raises BadZnode."""
    path = topic_path(topic)
    fields = read_fields(path, data)
    topic_id = fields.get("topic_id")
    come, go = fields.get("adding_replicas", {}), fields.get("removing_replicas", {})
    with _taking_apart(path, fields):
        partitions = {
            _within(index, _INT32): Replicas(
                _brokers(replicas), _brokers(come.get(index, ())), _brokers(go.get(index, ()))
            )
            for index, replicas in get_field(path, fields, "partitions", dict).items()
        }
        if not all(each.replicas for each in partitions.values()):
            raise BadZnode(path, "a partition has no replicas")
        return Assignment(None if topic_id is None else uuid_from_text(topic_id), partitions)


@dataclass(frozen=True, slots=True)
class LeaderAndIsr:
    """Who leads a partition and which replicas are in sync. Source: the partition's `state`."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    # The version of the znode, which Kafka calls the partition epoch.
    partition_epoch: int = 0


def encode_state(state: LeaderAndIsr) -> bytes:
    """Return the content of a partition's `state`."""
    return write_fields(
        {
            "controller_epoch": state.controller_epoch,
            "leader": state.leader,
            "version": 1,
            "leader_epoch": state.leader_epoch,
            "isr": list(state.isr),
        }
    )


def decode_state(place: TopicPartition, data: bytes | None, version: int) -> LeaderAndIsr:
    """Return a partition's leader and ISR; `version` is the znode's. Raises BadZnode."""
    path = state_path(place)
    fields = read_fields(path, data)
    with _taking_apart(path, fields):
        isr = _brokers(get_field(path, fields, "isr", list))
        leader = get_field(path, fields, "leader", int)
        if leader != NO_LEADER:
            _within(leader, _INT32)
        epochs = (_within(get_field(path, fields, each, int), _INT32) for each in ("leader_epoch", "controller_epoch"))
        leader_epoch, controller_epoch = epochs
    return LeaderAndIsr(leader, leader_epoch, isr, controller_epoch, version)


def encode_feature() -> bytes:
    """Return the content of `/feature`: no feature is finalized."""
    return write_fields({"features": {}, "version": 2, "status": 1})


def encode_controller(broker_id: int, now_ms: int) -> bytes:
    """Return the content of `/controller`."""
    return write_fields({"version": 2, "brokerid": broker_id, "timestamp": str(now_ms), "kraftControllerEpoch": -1})


def decode_controller(data: bytes | None) -> int:
    """Return the broker that is the controller. Raises BadZnode."""
    return get_field(CONTROLLER, read_fields(CONTROLLER, data), "brokerid", int)


def encode_controller_epoch(epoch: int) -> bytes:
    """Return the content of `/controller_epoch`."""
    return str(epoch).encode()


def decode_controller_epoch(data: bytes | None) -> int:
    """Return the epoch of the last controller. Raises BadZnode."""
    digits = data or b""
    if not digits.isdigit() or len(digits) > 10 or int(digits) not in _INT32:
        raise BadZnode(CONTROLLER_EPOCH, f"{digits[:20]!r} is not the number of an epoch")
    return int(digits)


def encode_cluster_id(cluster_id: str) -> bytes:
    """Return the content of `/cluster/id`."""
    return write_fields({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes | None) -> str:
    """Return the cluster's id. Raises BadZnode."""
    return get_field(CLUSTER_ID, read_fields(CLUSTER_ID, data), "id", str)


def encode_config(configs: dict[str, str]) -> bytes:
    """Return the content of `/config/ENTITY/NAME`."""
    return write_fields({"version": 1, "config": configs})


def decode_config(path: str, data: bytes | None) -> dict[str, str]:
    """Return the configs of `/config/ENTITY/NAME`. Raises BadZnode."""
    return {str(name): str(value) for name, value in get_field(path, read_fields(path, data), "config", dict).items()}


def encode_config_change(entity: str, name: str) -> bytes:
    """Return the content of a notification under `/config/changes`."""
    return write_fields({"version": 2, "entity_path": f"{entity}/{name}"})


def decode_config_change(path: str, data: bytes | None) -> tuple[str, str]:
    """Return entity and name of a notification, of version 1 or 2. Raises BadZnode."""
    fields = read_fields(path, data)
    if "entity_path" in fields:
        entity, _, name = str(fields["entity_path"]).partition("/")
    else:
        entity, name = get_field(path, fields, "entity_type", str), get_field(path, fields, "entity_name", str)
    if not all(map(is_znode_name, name.split("/"))):
        raise BadZnode(path, f"no znode can have the name {name!r}")
    return entity, name


def is_znode_name(name: str) -> bool:
    """Return whether a znode can have this name."""
    return name not in ("", ".", "..") and "/" not in name and name.isprintable()


@dataclass(frozen=True, slots=True)
class ProducerIds:
    """The producer ids `first` to `last`, which one broker hands out. Source: `/latest_producer_id_block`."""

    broker_id: int
    first: int
    last: int


def encode_producer_ids(block: ProducerIds) -> bytes:
    """Return the content of `/latest_producer_id_block`."""
    fields = {"version": 1, "broker": block.broker_id, "block_start": str(block.first), "block_end": str(block.last)}
    return write_fields(fields)


def decode_producer_ids(data: bytes | None) -> ProducerIds | None:
    """Return the newest block; None where no broker has taken one yet. Raises BadZnode."""
    if not data:
        return None
    fields = read_fields(PRODUCER_ID_BLOCK, data)
    with _taking_apart(PRODUCER_ID_BLOCK, fields):
        first, last = (_within(fields[each], _INT64) for each in ("block_start", "block_end"))
        return ProducerIds(int(fields["broker"]), first, last)


def encode_reassignment(targets: dict[TopicPartition, tuple[int, ...]]) -> bytes:
    """Return the content of `/admin/reassign_partitions`."""
    partitions = [
        {"topic": each.topic, "partition": each.partition, "replicas": list(to)} for each, to in targets.items()
    ]
    return write_fields({"version": 1, "partitions": partitions})


def decode_reassignment(data: bytes | None) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the wanted replicas of `/admin/reassign_partitions`. Raises BadZnode."""
    path = REASSIGN_PARTITIONS
    entries = get_field(path, read_fields(path, data), "partitions", list)
    with _taking_apart(path, entries):
        return {_place(each): _brokers(each["replicas"]) for each in entries}


def decode_places(path: str, data: bytes | None) -> list[TopicPartition]:
    """Return the partitions of `/admin/preferred_replica_election`, or of a notification under
    `/isr_change_notification`. Raises BadZnode.
    """
    entries = get_field(path, read_fields(path, data), "partitions", list)
    with _taking_apart(path, entries):
        return [_place(each) for each in entries]


def encode_isr_change(places: Iterable[TopicPartition]) -> bytes:
    """Return the content of a notification under `/isr_change_notification`."""
    partitions = [{"topic": each.topic, "partition": each.partition} for each in places]
    return write_fields({"version": 1, "partitions": partitions})


def encode_log_dir_event(broker_id: int) -> bytes:
    """Return the content of a notification under `/log_dir_event_notification`: replicas of a broker went offline."""
    return write_fields({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(path: str, data: bytes | None) -> int:
    """Return the broker of a notification under `/log_dir_event_notification`. Raises BadZnode."""
    return get_field(path, read_fields(path, data), "broker", int)


# -- Parts


def _place(entry: dict[str, Any]) -> TopicPartition:
    return TopicPartition(str(entry["topic"]), _within(entry["partition"], _INT32))


def _brokers(ids: Iterable[Any]) -> tuple[int, ...]:
    return tuple(_within(each, _INT32) for each in ids)


def _within(number: Any, bounds: range) -> int:
    """Return the number that was read. Raises ValueError for one that no request can carry."""
    value = int(number)
    # It is the range that raises.
    bounds.index(value)
    return value


@contextmanager
def _taking_apart(path: str, content: object) -> Generator[None]:
    """Raise BadZnode where JSON of another shape than Kafka's is taken apart."""
    try:
        yield
    except (AttributeError, InvalidField, KeyError, TypeError, ValueError) as error:
        raise BadZnode(path, f"{content} lacks the fields that Kafka writes") from error


def write_fields(fields: dict[str, Any]) -> bytes:
    """Return JSON as Kafka writes it."""
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def read_fields(path: str, data: bytes | None) -> dict[str, Any]:
    """Return the fields of a content that is a JSON object. Raises BadZnode."""
    try:
        fields = json.loads(data or b"")
    except ValueError as error:
        raise BadZnode(path, f"{data!r} is no JSON") from error
    if not isinstance(fields, dict):
        raise BadZnode(path, f"{data!r} is no JSON object")
    return fields  # pyright: ignore[reportUnknownVariableType]


def get_field(path: str, fields: dict[str, Any], name: str, kind: type[Any]) -> Any:
    """Return a field that must be there and of this type. Raises BadZnode."""
    value = fields.get(name)
    if not isinstance(value, kind):
        raise BadZnode(path, f"it has no {name}")
    return value
