"""A group coordinator among fakes: a log that can delay its commits, timers and a clock that a test moves."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from odradek.broker.coordination.groups.coordinator import GroupCoordinator
from odradek.broker.coordination.interfaces import at_once
from odradek.broker.coordination.replay import Ended, Written
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.tests.support.fakes.clock import FakeClock
from odradek.tests.support.fakes.memory_persister import MemoryPersister

Pair = tuple[bytes, bytes | None]
OnCommitted = Callable[[KafkaError | None], None]
TOPIC_ID = bytes(range(16))


@dataclass
class Config:
    group_min_session_timeout_ms: int = 6000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 0
    group_max_size: int = 2**31 - 1
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5000
    group_consumer_assignment_interval_ms: int = 1000
    group_consumer_min_session_timeout_ms: int = 1
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_min_heartbeat_interval_ms: int = 1
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_min_assignment_interval_ms: int = 0
    group_consumer_max_assignment_interval_ms: int = 15_000
    group_consumer_max_size: int = 2**31 - 1
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_migration_policy: str = "bidirectional"
    group_coordinator_rebalance_protocols: tuple[str, ...] = ("classic", "consumer")
    group_share_session_timeout_ms: int = 45_000
    group_share_min_session_timeout_ms: int = 1
    group_share_max_session_timeout_ms: int = 60_000
    group_share_heartbeat_interval_ms: int = 5000
    group_share_min_heartbeat_interval_ms: int = 1
    group_share_max_heartbeat_interval_ms: int = 15_000
    group_share_assignment_interval_ms: int = 1000
    group_share_min_assignment_interval_ms: int = 0
    group_share_max_assignment_interval_ms: int = 15_000
    group_share_assignors: tuple[str, ...] = ("simple",)
    group_share_max_size: int = 200
    offset_metadata_max_bytes: int = 100
    offsets_retention_minutes: int = 60
    offsets_retention_check_interval_ms: int = 60_000


@dataclass
class FakeContext:
    """The client that sends a request."""

    api_version: int
    client_id: str = "client"
    client_host: str = "/10.0.0.1"
    # Topics that the client may not see, and how often that has changed.
    hidden: frozenset[str] = frozenset()
    acl_changes: int = 0

    def may(self, operation: object, resource_type: object, name: str, **_: object) -> bool:
        return name not in self.hidden


class FakeLog:
    """Partitions as lists. While `hold` is set, an append is committed by `answer` alone."""

    def __init__(self) -> None:
        self.partitions: dict[int, list[Pair | Written | Ended]] = {}
        self.exists = False
        self.hold = False
        self.held: list[tuple[int, list[Pair], OnCommitted]] = []
        self.producers: list[int] = []
        self.while_replaying: Callable[[int], None] = lambda partition: None

    def partition_count(self) -> int:
        return 50

    def ensure_topic(self) -> None:
        self.exists = True

    def append(
        self,
        partition: int,
        records: list[Pair],
        on_committed: OnCommitted,
        producer: tuple[int, int] | None = None,
        durable_after: Sequence[tuple[str, int]] | None = None,
    ) -> None:
        self.exists = True
        self.held.append((partition, records, on_committed))
        self.producers.append(-1 if producer is None else producer[0])
        if not self.hold:
            self.answer()

    def answer(self, error: KafkaError | None = None) -> None:
        """Commit the oldest append that waits, or fail it."""
        partition, records, on_committed = self.held.pop(0)
        producer_id = self.producers.pop(0)
        if error is None:
            self.partitions.setdefault(partition, []).extend(
                record if producer_id < 0 else Written(*record, producer_id) for record in records
            )
        on_committed(error)

    def entries(self, partition: int) -> Iterator[Written | Ended]:
        for entry in self.partitions.get(partition, []):
            self.while_replaying(partition)
            yield entry if isinstance(entry, Ended) else Written(*entry)


class FakeTimer:
    def __init__(self, deadline_ms: int, callback: Callable[[], None]) -> None:
        self.deadline_ms = deadline_ms
        self.callback = callback
        self.live = True

    def cancel(self) -> None:
        self.live = False


class FakeTimers:
    """Timers that go off when `World.wait` moves the clock past them."""

    def __init__(self) -> None:
        self.made: list[FakeTimer] = []

    def at(self, deadline_ms: int, callback: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(deadline_ms, callback)
        self.made.append(timer)
        return timer

    def live(self) -> list[FakeTimer]:
        self.made = [timer for timer in self.made if timer.live]
        return sorted(self.made, key=lambda timer: timer.deadline_ms)


@dataclass
class FakeTopic:
    name: str
    id: bytes
    partitions: int

    def partition(self, index: int) -> object | None:
        return object() if 0 <= index < self.partitions else None

    @property
    def partition_count(self) -> int:
        return self.partitions


class FakeTopics:
    def __init__(self) -> None:
        self.topics = [FakeTopic("t", TOPIC_ID, 3)]
        self.change_count = 0

    def names(self) -> list[str]:
        return [topic.name for topic in self.topics]

    def add(self, name: str, partitions: int) -> FakeTopic:
        """Add a topic, or one of other size in its place."""
        known = self.get(name)
        topic = FakeTopic(name, name.encode().ljust(16, b".") if known is None else known.id, partitions)
        self.topics = [each for each in self.topics if each.name != name] + [topic]
        self.change_count += 1
        return topic

    def get(self, name: str) -> FakeTopic | None:
        return next((topic for topic in self.topics if topic.name == name), None)

    def by_id(self, topic_id: bytes) -> FakeTopic | None:
        return next((topic for topic in self.topics if topic.id == topic_id), None)


class World:
    """A coordinator among fakes, and short methods to send it requests."""

    def __init__(self, config: Config | None = None, log: FakeLog | None = None) -> None:
        self.config = config or Config()
        self.log = log or FakeLog()
        self.timers = FakeTimers()
        self.clock = FakeClock()
        self.topics = FakeTopics()
        # What the share coordinator keeps.
        self.persister = MemoryPersister()
        self.ids = itertools.count(1)
        # Run what a real broker does in a thread; at once, unless a test puts it off.
        self.aside = self.steps_aside = at_once
        self.groups = GroupCoordinator(
            self.config,
            self.log,
            self.timers,
            self.clock,
            self.topics,
            self.persister,
            logging.getLogger("odradek.tests.groups"),
            lambda prefix: f"{prefix}-{next(self.ids)}",
            lambda work, done: self.aside(work, done),
            lambda work, done: self.steps_aside(work, done),
        )

    def restarted(self) -> World:
        """Return another coordinator on the same log."""
        self.groups.stop()
        world = World(self.config, self.log)
        world.groups.start()
        return world

    def wait(self, for_ms: int) -> None:
        """Let time pass. Timers go off in order."""
        end_ms = self.clock.time_ms + for_ms
        while (live := self.timers.live()) and live[0].deadline_ms <= end_ms:
            self.clock.time_ms = max(self.clock.time_ms, live[0].deadline_ms)
            live[0].live = False
            live[0].callback()
        self.clock.time_ms = end_ms

    # -- Requests

    def join(self, member_id: str = "", group: str = "g", version: int = 9, **rest: Any) -> Any:
        protocols = [JoinGroupRequestProtocol("range", rest.pop("metadata", b"x"))]
        options = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 20_000, "protocol_type": "consumer", **rest}
        request = JoinGroupRequest(group, member_id=member_id, **{"protocols": protocols, **options})
        return self.groups.join(FakeContext(version), request)

    def beat(self, member_id: str, epoch: int = 0, **rest: Any) -> Any:
        """Send a ConsumerGroupHeartbeat. With epoch 0 a member joins, for topic t."""
        joining = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
        request = ConsumerGroupHeartbeatRequest("g", member_id, epoch, **({} if epoch else joining) | rest)
        return self.groups.consumer_heartbeat(FakeContext(1), request)

    def sync(self, member_id: str, generation: int, group: str = "g", **assignments: bytes) -> Any:
        given = [SyncGroupRequestAssignment(name.replace("_", "-"), data) for name, data in assignments.items()]
        names = {"protocol_type": "consumer", "protocol_name": "range"}
        request = SyncGroupRequest(group, generation, member_id, assignments=given, **names)
        return self.groups.sync(FakeContext(5), request)

    def heartbeat(self, member_id: str, generation: int, group: str = "g") -> Any:
        return self.groups.heartbeat(FakeContext(4), HeartbeatRequest(group, generation, member_id))

    def leave(self, *member_ids: str, group: str = "g") -> Any:
        request = LeaveGroupRequest(group, members=[MemberIdentity(member) for member in member_ids])
        return self.groups.leave(FakeContext(5), request)

    def commit(
        self, offset: int, member_id: str = "", generation: int = -1, group: str = "g", version: int = 9, **rest: Any
    ) -> Any:
        partition = OffsetCommitRequestPartition(
            rest.pop("partition", 0), offset, committed_metadata=rest.pop("metadata", "")
        )
        topic = OffsetCommitRequestTopic(
            rest.pop("topic", "t"), topic_id=rest.pop("topic_id", TOPIC_ID), partitions=[partition]
        )
        request = OffsetCommitRequest(group, generation, member_id, topics=[topic], **rest)
        return self.groups.commit_offsets(FakeContext(version), request)

    def commit_in_transaction(self, offset: int, producer_id: int) -> int:
        """Commit an offset of t-0 for the group g in an open transaction. Return the error code."""
        response = self.ask_in_transaction(offset, producer_id, lambda partition: ErrorCode.NONE)
        return response.topics[0].partitions[0].error_code

    def ask_in_transaction(self, offset: int, producer_id: int, verify: Callable[[int], ErrorCode]) -> Any:
        """Commit an offset of t-0 for the group g in a transaction."""
        partition = TxnOffsetCommitRequestPartition(0, offset, committed_metadata="")
        topics = [TxnOffsetCommitRequestTopic("t", partitions=[partition])]
        request = TxnOffsetCommitRequest("id", "g", producer_id, 0, topics=topics)
        return self.groups.commit_in_transaction(FakeContext(3), request, verify)

    def delete(self, *groups: str) -> Any:
        return self.groups.delete(FakeContext(2), DeleteGroupsRequest(list(groups)))

    def uncommit(self, *indexes: int, topic: str = "t") -> Any:
        asked = OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(index) for index in indexes])
        return self.groups.delete_offsets(FakeContext(0), OffsetDeleteRequest("g", [asked]))

    def committed(self, group: str = "g", partition: int = 0, topic: str = "t") -> int:
        """Return the offset that a fetch gives, -1 for none."""
        asked = OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics(topic, partition_indexes=[partition])])
        response = self.groups.fetch_offsets(FakeContext(9), OffsetFetchRequest(groups=[asked]))
        (found,) = response.groups
        assert found.error_code == 0, found.error_code
        return found.topics[0].partitions[0].committed_offset

    def stable_pair(self) -> tuple[str, str]:
        """Make a stable group of two in generation 2. Return the leader and the follower."""
        leader = self.join(version=3).member_id
        self.sync(leader, 1, **{leader.replace("-", "_"): b"all"})
        waiting = self.join(version=3)
        self.join(leader)
        follower = waiting.result().member_id
        parked = self.sync(follower, 2)
        self.sync(leader, 2, **{leader.replace("-", "_"): b"one", follower.replace("-", "_"): b"two"})
        assert parked.result().assignment == b"two"
        return leader, follower


def code_of(commit: Any) -> int:
    """Return the error of a commit with one partition."""
    return commit.topics[0].partitions[0].error_code


def is_waiting(answer: Any) -> bool:
    """Return whether a request is parked."""
    return isinstance(answer, asyncio.Future) and not answer.done()
