"""A running Kafka as a test sees it from outside: what it holds, what its groups have read, and what a test puts in.

All of it goes over the wire, so it works with any Kafka. The kit's own requests have a client id of their own, which
faults and recordings leave alone.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

from ..broker.configs.definition import suggestion
from ..client import EARLIEST, LATEST, ConfigResource, ConsumerRecord, NewTopic, TopicPartition
from ..client.blocking import Admin, Consumer, Producer
from ..client.core.descriptions import GroupRebalance
from ..protocol.errors import ErrorCode, KafkaError
from .errors import Unavailable
from .record import Record, RecordLike, records_of, to_bytes
from .security import Security

KIT_CLIENT_ID = "odradek-testing"
# How often a wait looks again.
_LOOK_AGAIN_S = 0.02
# How long a topic may take to be read: a broker that answers nothing must not hold a test up for ever.
_READ_WITHIN_S = 120.0
_SHOWN_RECORDS = 20

# By (topic, partition).
Offsets = dict[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group. `assignment` holds (topic, partition)."""

    member_id: str
    client_id: str
    assignment: list[tuple[str, int]]


class Kafka:
    """A Kafka at an address. `close` it at the end."""

    def __init__(self, address: str, *, security: Security | None = None) -> None:
        """`security`: how clients connect to it; None: in plain text."""
        self.address = address
        # Where the kit itself connects, in plain text.
        self._kit_address = address
        self._security = security or Security()
        # By name, because a client of an earlier test may make one anew at any time.
        self._made_topics: set[str] = set()
        # What was there before this run, and stays.
        self._topics_before: set[str] = set()
        self._groups_before: set[str] | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address}>"

    @cached_property
    def _admin(self) -> Admin:
        admin = Admin(self._kit_address, client_id=KIT_CLIENT_ID)
        admin.start()
        return admin

    def close(self) -> None:
        """Close the kit's own connections. Idempotent."""
        self._disconnect()

    def _disconnect(self) -> None:
        admin = self.__dict__.pop("_admin", None)
        if admin is not None:
            admin.stop()

    def options(self, client: str, user: str | None = None) -> dict[str, Any]:
        """Return the options with which a client connects: of "confluent-kafka", "kafka-python", "aiokafka",
        "odradek" or "java". The first of `users`, unless another one is named.
        """
        return self._security.options(client, self.address, user)

    def _set_passwords(self) -> None:
        """Give the users their passwords of SCRAM."""
        if self._security.users:
            self._admin.alter_user_scram_credentials(*self._security.passwords())

    # -- Topics and records

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int | None = None,
        config: Mapping[str, object] | None = None,
    ) -> str:
        """Create a topic, and return its name."""
        configs = {key: config_text(value) for key, value in (config or {}).items()}
        factor = -1 if replication_factor is None else replication_factor
        self._admin.create_topics([NewTopic(name, partitions, factor, configs)])
        self._made_topics.add(name)
        return name

    def topics(self) -> list[str]:
        """Return the names of all topics but Kafka's own."""
        return self._admin.list_topics()

    def put(self, topic: str, records: Iterable[RecordLike], *, transactional_id: str | None = None) -> None:
        """Write records, and return when they are acknowledged: values, pairs of key and value, or `Record`s.

        With a `transactional_id` they are committed in one transaction.
        """
        given = records_of(records, self._now_ms())
        self._made_topics.add(topic)
        options = {"client_id": KIT_CLIENT_ID, "linger_ms": 0, "transactional_id": transactional_id}
        with Producer(self._kit_address, **options) as producer:  # pyright: ignore[reportArgumentType]
            if transactional_id is None:
                _send(producer, topic, given)
            else:
                with producer.transaction():
                    _send(producer, topic, given)

    def _now_ms(self) -> int | None:
        """The time of a record that has none of its own. None: the real time."""
        return None

    def records(self, topic: str, *, isolation: str = "read_committed") -> list[ConsumerRecord[bytes, bytes]]:
        """Return the records of a topic, partition by partition in the order of their offsets.

        Those that are committed, or with `isolation="read_uncommitted"` all.
        """
        self._check_topic(topic)
        options: dict[str, Any] = {"client_id": KIT_CLIENT_ID, "isolation_level": isolation, "fetch_max_wait_ms": 10}
        with Consumer(bootstrap_servers=self._kit_address, allow_auto_create_topics=False, **options) as consumer:
            partitions = [TopicPartition(topic, number) for number in consumer.partitions_for(topic)]
            ends = consumer.end_offsets(partitions)
            consumer.assign(partitions)
            consumer.seek_to_beginning()
            found: list[ConsumerRecord[bytes, bytes]] = []
            deadline_s = time.monotonic() + _READ_WITHIN_S
            while behind := [each for each in partitions if consumer.position(each) < ends[each]]:
                if time.monotonic() > deadline_s:
                    raise Unavailable(f"{behind} could not be read to the end within {_READ_WITHIN_S:g} s")
                for batch in consumer.getmany(timeout_ms=50).values():
                    found += batch
        return sorted(found, key=lambda record: (record.partition, record.offset))

    @overload
    def wait_for(self, *, records: int, topic: str, within: float = 5) -> list[ConsumerRecord[bytes, bytes]]: ...

    @overload
    def wait_for(self, *, lag: int, group: str, topic: str | None = None, within: float = 5) -> Offsets: ...

    def wait_for(
        self,
        *,
        records: int | None = None,
        topic: str | None = None,
        lag: int | None = None,
        group: str | None = None,
        within: float = 5,
    ) -> list[ConsumerRecord[bytes, bytes]] | Offsets:
        """Wait until a topic has so many committed records, and return them.

        Or until a group is at most `lag` records behind, in all partitions together of a topic, or of all that it has
        committed or is assigned; return its lag. The failure says what is there instead. `within` is in seconds.
        """
        if records is not None and topic is not None and lag is None and group is None:
            return self._wait_for_records(records, topic, within)
        if records is None and lag is not None and group is not None:
            return self._wait_for_lag(lag, group, topic, within)
        raise Unavailable("wait_for takes records= and topic=, or lag= and group=")

    def _wait_for_lag(self, lag: int, group: str, topic: str | None, within: float) -> Offsets:
        deadline_s = time.monotonic() + within
        while True:
            groups = self.groups()
            found = self._whole_lag(group, topic) if group in groups else {}
            if found and sum(found.values()) <= lag:
                return found
            if time.monotonic() > deadline_s:
                raise AssertionError(_too_far(groups, group, lag, within, found))
            time.sleep(_LOOK_AGAIN_S)

    def _whole_lag(self, group: str, topic: str | None) -> Offsets:
        """Return the lag of a group, also where it has not committed yet; nothing before its first commit."""
        committed = self.committed(group)
        assigned = {place for each in self.members(group) for place in each.assignment}
        topics = sorted(({topic} if topic else {name for name, _ in {*committed, *assigned}}) & set(self.topics()))
        if not topics or not any(name in topics for name, _ in committed):
            return {}
        described = self._admin.describe_topics(*topics)
        places = [TopicPartition(name, at) for name in topics for at in range(len(described[name].partitions))]
        starts, ends = (self._admin.list_offsets(dict.fromkeys(places, spec)) for spec in (EARLIEST, LATEST))
        return {
            (at.topic, at.partition): ends[at].offset - committed.get((at.topic, at.partition), starts[at].offset)
            for at in places
        }

    def _wait_for_records(self, records: int, topic: str, within: float) -> list[ConsumerRecord[bytes, bytes]]:
        deadline_s, found = time.monotonic() + within, list[ConsumerRecord[bytes, bytes]]()
        while True:
            if topic in self.topics():
                found = self.records(topic)
            if len(found) >= records:
                return found
            if time.monotonic() > deadline_s:
                raise AssertionError(_too_few(self.topics(), topic, records, within, found))
            time.sleep(_LOOK_AGAIN_S)

    # -- Groups

    def groups(self) -> list[str]:
        """Return the ids of all groups."""
        return [each.group_id for each in self._admin.list_groups()]

    def committed(self, group: str) -> Offsets:
        """Return the offsets that a group has committed, by (topic, partition)."""
        self._check_group(group)
        return {(at.topic, at.partition): found.offset for at, found in self._admin.list_group_offsets(group).items()}

    def lag(self, group: str) -> Offsets:
        """Return how many offsets a group is behind the end, by (topic, partition), where it has committed any."""
        committed = self.committed(group)
        ends = self._admin.list_offsets({TopicPartition(*place): LATEST for place in committed})
        return {place: ends[TopicPartition(*place)].offset - offset for place, offset in committed.items()}

    def members(self, group: str) -> list[Member]:
        """Return the members of a group."""
        self._check_group(group)
        described = self._admin.describe_groups(group)[group]
        return [
            Member(each.member_id, each.client_id, [(at.topic, at.partition) for at in each.partitions])
            for each in described.members
        ]

    def dead_letters(self, group: str) -> list[ConsumerRecord[bytes, bytes]]:
        """Return the dead letters of a share group, in its topic (errors.deadletterqueue.topic.name); none without one.

        Their headers say where each comes from, and why it is dead.
        """
        name = "errors.deadletterqueue.topic.name"
        asked = ConfigResource.group(group)
        configs = self._admin.describe_configs([asked])[asked]
        # Brokers before Kafka 4.4 do not have it.
        topic = configs[name].value if name in configs else None
        if not topic or topic not in self.topics():
            return []
        own = ("__dlq.errors.group", group.encode())
        return [each for each in self.records(topic) if own in each.headers]

    def history(self, group: str) -> list[GroupRebalance]:
        """Return why a group rebalanced, the oldest rebalance first. Kafka's own brokers keep no history."""
        self._check_group(group)
        return self._admin.explain_group(group)

    # -- Transactions

    def abort_open_transactions(self) -> list[str]:
        """Abort every open transaction and fence its producer, as a time-out would. Return their transactional ids."""
        ids = [each.transactional_id for each in self._admin.list_transactions(states=["Ongoing"])]
        if ids:
            self._admin.fence_producers(*ids)
        return ids

    # -- Configs and the end

    def configure(self, config: Mapping[str, object], *, topic: str | None = None) -> None:
        """Change configs of a topic, or of the broker while it runs."""
        resource = ConfigResource.every_broker() if topic is None else ConfigResource.topic(topic)
        self._admin.alter_configs({resource: {key: config_text(value) for key, value in config.items()}})

    def reset(self) -> None:
        """Remove what this run has made: its topics, and the groups that have come since it began."""
        if self._groups_before is None:
            self._groups_before, self._topics_before = set(self.groups()), set(self.topics())
        made = self._made_topics & set(self.topics())
        if made:
            self._admin.delete_topics(*made)
        ended = [each.group_id for each in self._admin.list_groups(states=["Empty", "Dead"])]
        new = [each for each in ended if each not in self._groups_before]
        if new:
            self._admin.delete_groups(*new)

    # -- Checks

    def _check_topic(self, topic: str) -> None:
        known = self.topics()
        if topic not in known:
            why = f"there is no topic {topic!r}{suggestion(topic, known)}; there are {sorted(known)}"
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)
        if self._groups_before is not None and topic not in self._topics_before:
            # A program under test has made it.
            self._made_topics.add(topic)

    def _check_group(self, group: str) -> None:
        known = self.groups()
        if group not in known:
            why = f"there is no group {group!r}{suggestion(group, known)}; there are {sorted(known)}"
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, why)


def config_text(value: object) -> str:
    """Return the text of a config's value."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _send(producer: Producer[bytes, bytes], topic: str, records: Iterable[Record]) -> None:
    sent = [
        producer.send(
            topic,
            to_bytes(each.value),
            to_bytes(each.key),
            each.partition,
            each.timestamp,
            list(each.headers.items()) if isinstance(each.headers, Mapping) else list(each.headers),
        )
        for each in records
    ]
    for each in sent:
        each.result()


def _too_far(groups: list[str], group: str, wanted: int, within: float, lag: Offsets) -> str:
    """Return what there is instead of the lag that a test waited for."""
    if group not in groups:
        return f"after {within:g} s there is no group {group!r}{suggestion(group, groups)}; there are {sorted(groups)}"
    if not lag:
        return f"after {within:g} s group {group!r} has committed nothing"
    return f"after {within:g} s group {group!r} has a lag of {sum(lag.values())}, not {wanted}, by partition {lag}"


def _too_few(
    topics: list[str], topic: str, wanted: int, within: float, found: list[ConsumerRecord[bytes, bytes]]
) -> str:
    """Return what there is instead of the records that a test waited for."""
    if topic not in topics:
        near = suggestion(topic, topics)
        return f"after {within:g} s there is no topic {topic!r}{near}; there are {sorted(topics)}"
    counts = dict(sorted(Counter(each.partition for each in found).items()))
    shown = "".join(
        f"\n  {each.partition}@{each.offset} {each.key!r}: {each.value!r}" for each in found[-_SHOWN_RECORDS:]
    )
    return f"after {within:g} s topic {topic!r} has {len(found)} of {wanted} records, by partition {counts}{shown}"
