"""The coordinator of the classic groups: which group lives where, whether it is loaded, and who talks to it.

A group belongs to a partition of `__consumer_offsets` (partitions.py). Partitions that this broker owns are `owned`,
those that it is still reading are `loading`; `groups` is the cache of all groups of the owned ones. Each group has an
actor (actor.py) around its machine.

Every request answers with a response where it is known at once, else with a future of one. Loading reads the last
record of each key of a partition, and applies it as it would have been applied when it was written.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from typing import Protocol

from ....protocol.errors import DecodeError, ErrorCode, KafkaError
from ....protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ....protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ....protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ....protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ....protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ....protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ....protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ....protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ....protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ....protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ....protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from ..calls import Call, Clock, TimerHandle, Timers
from . import description, offset_fetch, records, requests
from .actor import GroupActor, OffsetsLog, World
from .events import (
    CommitInTransaction,
    CommitOffsets,
    Create,
    Delete,
    DropTopic,
    EndTransaction,
    ExpireOffsets,
    Heartbeat,
    Joined,
    Left,
    Loaded,
    Synced,
)
from .group import Group, GroupLimits
from .offset_commit import PLAIN_VERSION, Commit, Topics, as_plain, as_transactional
from .partitions import partition_for
from .records import NO_PRODUCER, OffsetRecord
from .replay import Replay, Written

MAX_GROUP_ID_BYTES = 2**15 - 1
"""What a record's key can hold, though newer requests can say more."""

_log = logging.getLogger(__name__)


class GroupsConfig(Protocol):
    """What the coordinator needs of the broker's configuration."""

    @property
    def group_min_session_timeout_ms(self) -> int: ...
    @property
    def group_max_session_timeout_ms(self) -> int: ...
    @property
    def group_initial_rebalance_delay_ms(self) -> int: ...
    @property
    def group_max_size(self) -> int: ...
    @property
    def offset_metadata_max_bytes(self) -> int: ...
    @property
    def offsets_retention_minutes(self) -> int: ...
    @property
    def offsets_retention_check_interval_ms(self) -> int: ...


class Context(Protocol):
    """Who asks."""

    @property
    def api_version(self) -> int: ...
    @property
    def client_id(self) -> str: ...
    @property
    def client_host(self) -> str: ...


def new_member_id(prefix: str) -> str:
    """A member id that was never given out: the client's or the instance's id, and chance."""
    return f"{prefix}-{uuid.uuid4()}"


class GroupCoordinator:
    """The groups of one broker. `start` reads them all, `stop` sends everyone on who waits."""

    def __init__(
        self,
        config: GroupsConfig,
        log: OffsetsLog,
        timers: Timers,
        clock: Clock,
        topics: Topics,
        logger: logging.Logger = _log,
        new_member_id: Callable[[str], str] = new_member_id,
    ) -> None:
        self._config = config
        self._log = log
        self._clock = clock
        self._topics = topics
        self._logger = logger
        self._new_member_id = new_member_id
        self._limits = GroupLimits(config.group_initial_rebalance_delay_ms, config.group_max_size)
        self._world = World(log, timers, clock, logger.info, self._forget)
        self.groups: dict[str, GroupActor] = {}
        """The group cache. Invariant: only groups of `owned` partitions."""
        self.owned: set[int] = set()
        self.loading: set[int] = set()
        # The groups that a producer's undecided transaction may have offsets of, by log partition and producer id.
        self._in_transactions: dict[tuple[int, int], set[str]] = {}
        self._expiry: TimerHandle | None = None

    # Start and stop.

    def start(self) -> None:
        """Reads every partition. Until its partition is read a group is COORDINATOR_LOAD_IN_PROGRESS."""
        partitions = range(self._log.partition_count())
        self.loading.update(partitions)
        for partition in partitions:
            self.load(partition)
        self._arm_expiry()

    def stop(self) -> None:
        """Idempotent. Parked requests are answered NOT_COORDINATOR, so that members look for their group elsewhere."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        for partition in list(self.owned):
            self.unload(partition)
        self.loading.clear()

    def load(self, partition: int) -> None:
        """Takes a partition over: reads its records, restores its groups and gives their members fresh sessions."""
        self.loading.add(partition)
        replay = Replay()
        try:
            for each in self._log.entries(partition):
                replay.take(each)
        except KafkaError as error:
            # Its groups are refused (NOT_COORDINATOR): without their offsets they would start over.
            self._logger.error("groups of partition %d are not served: %s", partition, error.message)
            self.loading.discard(partition)
            return
        restored: dict[str, GroupActor] = {}
        for record in replay.outcome():
            self._restore(record, partition, restored)
        self.groups.update(restored)
        self.loading.discard(partition)
        self.owned.add(partition)
        for actor in restored.values():
            actor.feed(Loaded())

    def unload(self, partition: int) -> None:
        """Lets a partition go, with its groups."""
        self.owned.discard(partition)
        for group_id in [group_id for group_id, actor in self.groups.items() if actor.partition == partition]:
            self.groups.pop(group_id).close()
        for key in [key for key in self._in_transactions if key[0] == partition]:
            del self._in_transactions[key]

    def ensure_topic(self) -> None:
        """Creates `__consumer_offsets` at first need: someone asks for a coordinator."""
        self._log.ensure_topic()

    # Membership.

    def join(
        self, context: Context, request: JoinGroupRequest
    ) -> JoinGroupResponse | asyncio.Future[JoinGroupResponse]:
        """JoinGroup. A first join without a member id makes the group."""
        version = context.api_version
        respond = requests.join_response(version)
        error = self._check_join(request)
        actor = self.groups.get(request.group_id)
        if error is ErrorCode.NONE and actor is None:
            error = self._admission(request.group_id)
            if error is ErrorCode.NONE:
                error = _check_first_join(request)
        if error is not ErrorCode.NONE:
            return respond(Joined(error, request.member_id))
        if actor is None:
            actor = self._new_actor(request.group_id)
            actor.feed(Create())
        prefix = context.client_id if request.group_instance_id is None else request.group_instance_id
        new_id = "" if request.member_id else self._new_member_id(prefix)
        call = Call(respond)
        actor.feed(requests.join_event(call, request, version, context.client_id, context.client_host, new_id))
        return call.result()

    def sync(
        self, context: Context, request: SyncGroupRequest
    ) -> SyncGroupResponse | asyncio.Future[SyncGroupResponse]:
        """SyncGroup."""
        if context.api_version >= requests.PROTOCOL_NAMED_VERSION and None in (
            request.protocol_type,
            request.protocol_name,
        ):
            return requests.sync_response(Synced(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        actor = self._joined(request.group_id)
        if actor is None:
            return requests.sync_response(Synced(self._absent(request.group_id)))
        call = Call(requests.sync_response)
        actor.feed(requests.sync_event(call, request))
        return call.result()

    def heartbeat(
        self, context: Context, request: HeartbeatRequest
    ) -> HeartbeatResponse | asyncio.Future[HeartbeatResponse]:
        """Heartbeat. While the group is being read nobody can say that the member is unknown, so it is let be."""
        actor = self._joined(request.group_id)
        if actor is None:
            error = self._absent(request.group_id)
            return HeartbeatResponse(
                error_code=ErrorCode.NONE if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error
            )
        call = Call(requests.heartbeat_response)
        actor.feed(Heartbeat(call, request.member_id, request.group_instance_id, request.generation_id))
        return call.result()

    def leave(
        self, context: Context, request: LeaveGroupRequest
    ) -> LeaveGroupResponse | asyncio.Future[LeaveGroupResponse]:
        """LeaveGroup."""
        version = context.api_version
        respond = requests.leave_response(request, version)
        actor = self._joined(request.group_id)
        if actor is not None:
            call = Call(respond)
            actor.feed(requests.leave_event(call, request, version))
            return call.result()
        error = self._absent(request.group_id)
        if error is not ErrorCode.UNKNOWN_MEMBER_ID:
            return LeaveGroupResponse(error_code=error)
        return respond(Left([error] * requests.leavers(request, version)))

    # Offsets.

    def commit_offsets(
        self, context: Context, request: OffsetCommitRequest
    ) -> OffsetCommitResponse | asyncio.Future[OffsetCommitResponse]:
        """OffsetCommit. From outside of any group (generation -1) it makes a group that has offsets and no members."""
        commit = Commit(
            request, context.api_version, self._topics, self._config.offset_metadata_max_bytes, self._clock.now_ms()
        )
        if not commit.asks_group:
            return commit.response
        generation = request.generation_id_or_member_epoch
        actor = self.groups.get(request.group_id)
        if actor is None:
            error = self._admission(request.group_id)
            if error is ErrorCode.NONE and generation >= 0:
                known = context.api_version >= requests.GROUP_NOT_FOUND_VERSION
                error = ErrorCode.GROUP_ID_NOT_FOUND if known else ErrorCode.ILLEGAL_GENERATION
            if error is not ErrorCode.NONE:
                return commit.answer(error)
            actor = self._new_actor(request.group_id)
        call = Call(commit.answer)
        actor.feed(CommitOffsets(call, request.member_id, request.group_instance_id, generation, commit.records))
        return call.result()

    def commit_in_transaction(
        self, context: Context, request: TxnOffsetCommitRequest, admit: Callable[[int], ErrorCode]
    ) -> TxnOffsetCommitResponse | asyncio.Future[TxnOffsetCommitResponse]:
        """TxnOffsetCommit. `admit` asks whether the group's partition of the log belongs to the transaction."""
        version, producer_id = context.api_version, request.producer_id
        commit = Commit(
            as_plain(request),
            PLAIN_VERSION,
            self._topics,
            self._config.offset_metadata_max_bytes,
            self._clock.now_ms(),
            producer_id,
        )
        if not commit.asks_group:
            return as_transactional(commit.response, version)
        group_id = request.group_id
        error = self._admission(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
        partition = partition_for(group_id, self._log.partition_count())
        if error is ErrorCode.NONE:
            error = admit(partition)
        actor = self.groups.get(group_id)
        if error is ErrorCode.NONE and actor is None and request.generation_id >= 0:
            error = ErrorCode.ILLEGAL_GENERATION
        if error is not ErrorCode.NONE:
            return as_transactional(commit.answer(error), version)
        actor = actor or self._new_actor(group_id)
        self._in_transactions.setdefault((partition, producer_id), set()).add(group_id)
        call = Call(lambda answer: as_transactional(commit.answer(answer), version))
        producer = producer_id, request.producer_epoch
        actor.feed(
            CommitInTransaction(
                call, request.member_id, request.group_instance_id, request.generation_id, commit.records, producer
            )
        )
        return call.result()

    def end_transaction(self, partition: int, producer_id: int, commit: bool) -> None:
        """The marker of a producer's transaction is in this partition of the log: its groups learn how it ended."""
        for group_id in self._in_transactions.pop((partition, producer_id), ()):
            actor = self.groups.get(group_id)
            if actor is not None:
                actor.feed(EndTransaction(producer_id, commit))

    def fetch_offsets(self, context: Context, request: OffsetFetchRequest) -> OffsetFetchResponse:
        """OffsetFetch, from the cache. `require_stable` holds back what an undecided transaction may change."""
        version = context.api_version
        groups = [
            offset_fetch.fetch_group(
                asked, self._offsets_of(asked.group_id), self._topics, version, request.require_stable
            )
            for asked in offset_fetch.groups_of(request, version)
        ]
        return offset_fetch.response_of(request, groups, version)

    def delete_offsets(
        self, context: Context, request: OffsetDeleteRequest
    ) -> OffsetDeleteResponse | asyncio.Future[OffsetDeleteResponse]:
        """OffsetDelete."""
        respond = requests.delete_offsets_response(request, self._topics)
        actor = self.groups.get(request.group_id)
        if actor is None:
            return respond(self._missing(request.group_id))
        call = Call(respond)
        actor.feed(requests.delete_offsets_event(call, request, self._topics))
        return call.result()

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted: every group forgets how far it had come in it."""
        for actor in list(self.groups.values()):
            if actor.group.offsets.with_pending(topic):
                actor.feed(DropTopic(topic))

    def _arm_expiry(self) -> None:
        interval_ms = self._config.offsets_retention_check_interval_ms
        self._expiry = self._world.timers.at(self._clock.monotonic_ms() + interval_ms, self._expire)

    def _expire(self) -> None:
        retention_ms = self._config.offsets_retention_minutes * 60_000
        for actor in list(self.groups.values()):
            actor.feed(ExpireOffsets(retention_ms))
        self._arm_expiry()

    # Administration.

    def delete(
        self, context: Context, request: DeleteGroupsRequest
    ) -> DeleteGroupsResponse | asyncio.Future[DeleteGroupsResponse]:
        """DeleteGroups. A group that is named twice is deleted and answered once."""
        results = [self._delete(group_id) for group_id in dict.fromkeys(request.groups_names)]
        return requests.deletions(results)

    def _delete(self, group_id: str) -> DeletableGroupResult | asyncio.Future[DeletableGroupResult]:
        respond = requests.deletion(group_id)
        actor = self.groups.get(group_id)
        if actor is None:
            error = self._admission(group_id)
            return respond(ErrorCode.GROUP_ID_NOT_FOUND if error is ErrorCode.NONE else error)
        call = Call(respond)
        actor.feed(Delete(call))
        return call.result()

    # Seen from outside.

    def describe(self, context: Context, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        """DescribeGroups."""
        response = DescribeGroupsResponse()
        for group_id in dict.fromkeys(request.groups):
            actor = self.groups.get(group_id)
            error = self._admission(group_id) if actor is None else ErrorCode.NONE
            group = None if actor is None else actor.group
            response.groups.append(description.describe(group_id, group, error, context.api_version))
            if request.include_authorized_operations and not response.groups[-1].error_code:
                response.groups[-1].authorized_operations = description.ALL_OPERATIONS
            if request.include_history and group is not None:
                response.groups[-1].history = description.history(group, self._clock.now_ms())
        return response

    def list(self, context: Context, request: ListGroupsRequest) -> ListGroupsResponse:
        """ListGroups."""
        if self.loading:
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        groups = (actor.group for actor in self.groups.values())
        return ListGroupsResponse(groups=description.list_groups(groups, request.states_filter, request.types_filter))

    # Parts.

    def _admission(self, group_id: str) -> ErrorCode:
        """Whether a group that is not in the cache may be asked for here."""
        if len(group_id.encode()) > MAX_GROUP_ID_BYTES:
            return ErrorCode.INVALID_GROUP_ID
        partition = partition_for(group_id, self._log.partition_count())
        if partition in self.loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE if partition in self.owned else ErrorCode.NOT_COORDINATOR

    def _joined(self, group_id: str) -> GroupActor | None:
        """The group that a member speaks of. The empty name can hold offsets, as Kafka's, but no members."""
        return self.groups.get(group_id) if group_id else None

    def _absent(self, group_id: str) -> ErrorCode:
        """What a member is told whose group is not in the cache."""
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        error = self._admission(group_id)
        return ErrorCode.UNKNOWN_MEMBER_ID if error is ErrorCode.NONE else error

    def _missing(self, group_id: str) -> ErrorCode:
        """What an administrator is told whose group is not in the cache."""
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        error = self._admission(group_id)
        return ErrorCode.GROUP_ID_NOT_FOUND if error is ErrorCode.NONE else error

    def _check_join(self, request: JoinGroupRequest) -> ErrorCode:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        low, high = self._config.group_min_session_timeout_ms, self._config.group_max_session_timeout_ms
        if not low <= request.session_timeout_ms <= high:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        return ErrorCode.NONE

    def _new_actor(self, group_id: str) -> GroupActor:
        self._log.ensure_topic()
        partition = partition_for(group_id, self._log.partition_count())
        actor = GroupActor(Group(group_id, self._limits), partition, self._world)
        self.groups[group_id] = actor
        return actor

    def _forget(self, actor: GroupActor) -> None:
        if self.groups.get(actor.group.group_id) is actor:
            del self.groups[actor.group.group_id]
        actor.close()

    def _offsets_of(self, group_id: str) -> offset_fetch.Found:
        actor = self.groups.get(group_id)
        if actor is not None:
            return offset_fetch.Found(ErrorCode.NONE, actor.group.offsets)
        return offset_fetch.Found(self._admission(group_id), None)

    def _restore(self, written: Written, partition: int, restored: dict[str, GroupActor]) -> None:
        key, value, producer_id = written
        if value is None:
            return
        try:
            record = records.decode_record(key, value)
        except DecodeError as error:
            # One record that cannot be read must not take all groups of its partition with it.
            self._logger.error("__consumer_offsets-%d: a record was left out: %s (key %s)", partition, error, key.hex())
            return
        if record is None:
            self._logger.warning("__consumer_offsets-%d: a record of a kind that is not served here", partition)
            return
        actor = restored.get(record.group_id)
        if actor is None:
            actor = restored[record.group_id] = GroupActor(Group(record.group_id, self._limits), partition, self._world)
        if producer_id != NO_PRODUCER and isinstance(record, OffsetRecord):
            record = record._replace(producer_id=producer_id)
            self._in_transactions.setdefault((partition, producer_id), set()).add(record.group_id)
        actor.group.apply(record)


def _check_first_join(request: JoinGroupRequest) -> ErrorCode:
    """For a group that does not exist: what it would be made from must make sense, and its member cannot have an id."""
    if request.member_id:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not request.protocol_type or not request.protocols:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE
