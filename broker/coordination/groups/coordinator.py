"""The group coordinator: it answers the requests about consumer groups and their committed offsets.

A group belongs to a partition of `__consumer_offsets` (shards.py), and has an actor around its machine (actor.py). Each
request returns a response if that is known at once, otherwise a future of one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ....protocol.errors import ErrorCode
from ....protocol.messages import consumer_group_heartbeat
from ....protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from ....protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ....protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ....protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ....protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ....protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ....protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ....protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ....protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ....protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ....protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from ....protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ....protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from ...clock import Clock, new_uuid
from ...configs.broker_config import BrokerConfig
from ...configs.group_bounds import (
    ASSIGNMENT,
    HEARTBEAT,
    SESSION,
    SHARE_ASSIGNMENT,
    SHARE_HEARTBEAT,
    SHARE_SESSION,
    effective,
)
from ...security.acls import Operation, ResourceType
from ...timers import Timers
from ...topics.topic_names import OFFSETS_TOPIC
from ...turns import LargeResponse, Made, fill, keeper
from ..actor import Actor, Runtime
from ..alarms import Sweep
from ..calls import Call, Eventual, combine
from ..consumer import offsets as consumer_offsets
from ..consumer import regexes
from ..consumer import requests as consumer_requests
from ..consumer.requests import CONSUMER_DESCRIPTION
from ..consumer.state import ConsumerGroup, Match
from ..consumer.target import CONSUMER_TARGET
from ..coordinator_log import CoordinatorLog
from ..interfaces import Aside, Context, Topics, at_once
from ..modern.events import Rejection
from ..modern.responses import describe, heartbeat_response
from ..modern.target import TargetOf
from ..replay import Written
from ..shards import Shards
from ..share_states.routed_persister import RoutedPersister
from . import description, events, offset_commit, offset_fetch, records, requests
from .actor import GROUPS, GroupActor
from .group import Group
from .limits import ConsumerLimits, GroupLimits, ShareLimits
from .records import NO_PRODUCER, OffsetRecord, Record

if TYPE_CHECKING:
    from ..share_groups.coordinator import ShareGroups

_log = logging.getLogger(__name__)


def new_member_id(prefix: str) -> str:
    """Return a new member id: the client's or the instance's id, and a random part."""
    return f"{prefix}-{new_uuid()}"


class GroupCoordinator:
    """The consumer groups of one broker, from `start` to `stop`."""

    def __init__(
        self,
        config: BrokerConfig,
        log: CoordinatorLog,
        timers: Timers,
        clock: Clock,
        topics: Topics,
        persister: RoutedPersister,
        logger: logging.Logger = _log,
        new_member_id: Callable[[str], str] = new_member_id,
        aside: Aside = at_once,
        steps_aside: Aside = at_once,
        own_configs: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    ) -> None:
        """`persister` keeps the states of share groups; `own_configs` has the own configs of groups, by group id.

        `aside` is for work of seconds, `steps_aside` for a step of very many topics.
        """
        self._config = config
        self._clock = clock
        self._topics = topics
        self._new_member_id = new_member_id
        self._aside = aside
        self._own_configs = own_configs
        self._group_version = 1
        self._share_version = 1
        # Whether topics are being matched with the regular expressions of a group. One at a time is enough.
        self._is_matching = False
        # Whether the target of a large group is being computed.
        self._is_assigning = False
        # Topics are forgotten one after the other.
        self.shards: Shards[GroupActor, Record] = Shards(
            OFFSETS_TOPIC, log, timers, clock, logger, self._new_actor, self._decode, aside=steps_aside
        )
        # Invariant: only groups of partitions that this broker owns.
        self.groups = self.shards.actors
        # The groups that a producer's open transaction may have offsets of, by partition and producer id.
        self._in_transactions: dict[tuple[int, int], set[str]] = {}
        self._persister = persister
        self._expiry = Sweep(timers, clock, lambda: config.offsets_retention_check_interval_ms, self._expire)

    @cached_property
    def share(self) -> ShareGroups:
        """The share groups. They are imported with the first request: most brokers never meet one."""
        from ..share_groups.coordinator import ShareGroups

        return ShareGroups(self, self._topics, self._persister, self._config.group_share_assignors)

    def set_version(self, group_version: int) -> None:
        """Set the level of the feature `group.version`: whether there may be consumer groups of KIP-848."""
        self._group_version = group_version

    def set_share_version(self, share_version: int) -> None:
        """Set the level of the feature `share.version`: whether there may be share groups."""
        self._share_version = share_version

    @property
    def serves_share_groups(self) -> bool:
        """Whether there may be share groups."""
        return self._share_version >= 1

    @property
    def _serves_consumer_protocol(self) -> bool:
        return self._group_version >= 1 and "consumer" in self._config.group_coordinator_rebalance_protocols

    def start(self, *, load: bool = True) -> None:
        """Load every partition."""
        if load:
            self.shards.start()
        self._expiry.start()

    def stop(self) -> None:
        """Tell waiting members to look for another coordinator (NOT_COORDINATOR). Idempotent."""
        self._expiry.stop()
        if "share" in self.__dict__:
            self.share.stop()
        for partition in list(self.shards.owned):
            self.unload(partition)
        self.shards.stop()

    def unload(self, partition: int) -> None:
        """Give a partition up, with its groups."""
        self.shards.unload(partition)
        for key in [key for key in self._in_transactions if key[0] == partition]:
            del self._in_transactions[key]

    def _new_actor(self, group_id: str, partition: int, runtime: Runtime) -> GroupActor:
        return Actor(group_id, partition, Group(group_id, self.limits(group_id), self._topics), GROUPS, runtime)

    def limits(self, group_id: str) -> GroupLimits:
        """Return the configs that apply to a group now."""
        return limits_of(self._config, self._own_configs.get(group_id, {}))

    def _decode(self, written: Written, partition: int) -> tuple[str, Record] | None:
        record = records.decode_record(written.key, written.value)
        if record is None:
            return None
        if written.producer_id != NO_PRODUCER and isinstance(record, OffsetRecord):
            record = record._replace(producer_id=written.producer_id)
            self._in_transactions.setdefault((partition, written.producer_id), set()).add(record.group_id)
        return record.group_id, record

    # -- Membership

    def join(self, context: Context, request: JoinGroupRequest) -> Eventual[JoinGroupResponse]:
        """Answer a JoinGroup. The first join without a member id makes the group."""
        version = context.api_version
        respond = requests.join_response(version)
        actor = self.groups.get(request.group_id)
        error = self._check_join(request, is_first=actor is None)
        if error is not ErrorCode.NONE:
            return respond(events.Joined(error, request.member_id))
        actor = actor or self.shards.add(request.group_id)
        actor.feed(events.Create())
        prefix = context.client_id if request.group_instance_id is None else request.group_instance_id
        new_id = "" if request.member_id else self._new_member_id(prefix)
        call = Call(respond)
        actor.feed(requests.join_event(call, request, version, context.client_id, context.client_host, new_id))
        return call.result(lambda: self.compute_target(actor, CONSUMER_TARGET))

    def sync(self, context: Context, request: SyncGroupRequest) -> Eventual[SyncGroupResponse]:
        """Answer a SyncGroup."""
        must_name = context.api_version >= requests.PROTOCOL_NAMED_VERSION
        if must_name and None in (request.protocol_type, request.protocol_name):
            return requests.sync_response(events.Synced(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        actor = self._with_members(request.group_id)
        if actor is None:
            return requests.sync_response(events.Synced(self._absence(request.group_id)))
        call = Call(requests.sync_response)
        actor.feed(requests.sync_event(call, request))
        return call.result()

    def heartbeat(self, context: Context, request: HeartbeatRequest) -> Eventual[HeartbeatResponse]:
        """Answer a Heartbeat. While the group is loading it succeeds, because the member may be in the log."""
        actor = self._with_members(request.group_id)
        if actor is None:
            error = self._absence(request.group_id)
            is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else error)
        call: Call[ErrorCode, HeartbeatResponse] = Call(lambda error: HeartbeatResponse(error_code=error))
        actor.feed(events.Heartbeat(call, request.member_id, request.group_instance_id, request.generation_id))
        if actor.state.consumer is None:
            return call.result()
        return call.result(lambda: self.compute_target(actor, CONSUMER_TARGET))

    def leave(self, context: Context, request: LeaveGroupRequest) -> Eventual[LeaveGroupResponse]:
        """Answer a LeaveGroup."""
        version = context.api_version
        call = Call(requests.leave_response(request, version))
        event = requests.leave_event(call, request, version)
        actor = self._with_members(request.group_id)
        if actor is None:
            error = self._absence(request.group_id)
            if error is not ErrorCode.UNKNOWN_MEMBER_ID:
                return LeaveGroupResponse(error_code=error)
            call.answer(events.Left([error] * len(event.members)))
        else:
            actor.feed(event)
        return call.result()

    # -- Membership of consumer groups (KIP-848)

    def consumer_heartbeat(
        self, context: Context, request: ConsumerGroupHeartbeatRequest
    ) -> Eventual[Made[ConsumerGroupHeartbeatResponse]]:
        """Answer a ConsumerGroupHeartbeat. The first one with epoch 0 makes the group."""
        if not self._serves_consumer_protocol:
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        actor = self.groups.get(request.group_id)
        limits = self.limits(request.group_id)
        respond = heartbeat_response(
            consumer_group_heartbeat, ConsumerGroupHeartbeatResponse, limits.consumer.heartbeat_interval_ms
        )
        rejection = consumer_requests.rejection(request, context.api_version, limits.consumer.assignors)
        if rejection is not None:
            return respond(rejection)
        if actor is None:
            error = self.shards.check(request.group_id)
            if error is not ErrorCode.NONE:
                return respond(error)
            if request.member_epoch:
                noun = "Group" if request.member_epoch < 0 else "Consumer group"
                why = f"{noun} {request.group_id} not found."
                return respond(Rejection(ErrorCode.GROUP_ID_NOT_FOUND, why))
            actor = self.shards.add(request.group_id)
        # A config may have changed since the group was made.
        actor.state.limits = limits
        call = Call(respond)
        member_id = request.member_id or str(new_uuid())
        client = context.client_id, context.client_host
        actor.feed(consumer_requests.heartbeat_event(call, request, member_id, *client))

        def go_on() -> None:
            self._match_topics(actor, context)
            self.compute_target(actor, CONSUMER_TARGET)

        return call.result(go_on)

    def _match_topics(self, actor: GroupActor, context: Context) -> None:
        """Find the topics of the group's regular expressions, if topics, rights or expressions have changed.

        As in Kafka, the rights of the member whose heartbeat this is decide for the group.
        """
        body = actor.state.consumer
        if body is None or not body.regex_subscribers or self._is_matching:
            return
        seen, now_ms = (self._topics.change_count, context.acl_changes), self._clock.monotonic_ms()
        wanted = regexes.unmatched(body, seen, now_ms, self._config.group_consumer_regex_refresh_interval_ms)
        if wanted:
            self._is_matching = True
            keeper().run(self._match(actor, body, wanted, context, Match(frozenset(), seen, now_ms)))

    def _match(
        self, actor: GroupActor, body: ConsumerGroup, wanted: list[str], context: Context, match: Match
    ) -> Iterator[None]:
        """Find the topics that the member may see, and match them elsewhere."""
        visible: list[str] = []
        for name in self._topics.names():
            if context.may(Operation.DESCRIBE, ResourceType.TOPIC, name, audited=False):
                visible.append(name)
            yield
        matching = regexes.Matching(body, wanted, match._replace(names=frozenset(visible)), self._clock.now_ms())
        self._aside(matching.work, lambda: keeper().run(self._matched(actor, matching)))

    def _matched(self, actor: GroupActor, matching: regexes.Matching) -> Iterator[None]:
        self._is_matching = False
        for regex in matching.refused:
            _log.warning("group %s gets no topics by %r, which is no expression of RE2", actor.key, regex)
        for event in matching.events():
            actor.feed(event)
            yield

    def compute_target(self, actor: GroupActor, target: TargetOf[Any]) -> None:
        """Compute the target of a large group in a thread, one group at a time."""
        is_idle = not self._is_assigning
        event = target.beside(actor.state) if is_idle else None
        if event is None:
            return
        self._is_assigning = True

        def done() -> None:
            self._is_assigning = False
            actor.feed(event)

        self._aside(lambda: event.targets.update(event.work()), done)

    def describe_consumers(
        self, context: Context, request: ConsumerGroupDescribeRequest
    ) -> ConsumerGroupDescribeResponse | LargeResponse[ConsumerGroupDescribeResponse]:
        """Answer a ConsumerGroupDescribe."""
        return describe(CONSUMER_DESCRIPTION, self.shards, self._topics, request, self._serves_consumer_protocol)

    # -- Offsets

    def commit_offsets(self, context: Context, request: OffsetCommitRequest) -> Eventual[OffsetCommitResponse]:
        """Answer an OffsetCommit. A consumer without a group (generation -1) makes a group that has no members."""
        commit = self._commit(request, context.api_version)
        if not commit.asks_group:
            return commit.response
        generation = request.generation_id_or_member_epoch
        actor = self.groups.get(request.group_id)
        if actor is None:
            error = self.shards.check(request.group_id)
            if error is ErrorCode.NONE and generation >= 0:
                known = context.api_version >= requests.GROUP_NOT_FOUND_VERSION
                error = ErrorCode.GROUP_ID_NOT_FOUND if known else ErrorCode.ILLEGAL_GENERATION
            if error is not ErrorCode.NONE:
                return commit.answer(error)
            actor = self.shards.add(request.group_id)
        call = Call(commit.answer)
        member = request.member_id, request.group_instance_id
        actor.feed(events.CommitOffsets(call, *member, generation, commit.records, context.api_version))
        return call.result()

    def commit_in_transaction(
        self, context: Context, request: TxnOffsetCommitRequest, verify: Callable[[int], ErrorCode]
    ) -> Eventual[TxnOffsetCommitResponse]:
        """Answer a TxnOffsetCommit. `verify` checks that the group's partition belongs to the open transaction.

        It is called now, and again in the turn in which the offsets are written.
        """
        group_id, producer_id = request.group_id, request.producer_id
        commit = self._commit(request, context.api_version)
        if not commit.asks_group:
            return commit.response

        def respond(error: ErrorCode) -> TxnOffsetCommitResponse:
            return commit.answer(offset_commit.understood(error, context.api_version))

        partition = self.shards.partition_of(group_id)

        def take_part() -> ErrorCode:
            error = verify(partition)
            if error is ErrorCode.NONE:
                self._in_transactions.setdefault((partition, producer_id), set()).add(group_id)
            return error

        error = self.shards.check(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
        if error is ErrorCode.NONE:
            error = verify(partition)
        actor = self.groups.get(group_id)
        if error is ErrorCode.NONE and actor is None and request.generation_id_or_member_epoch >= 0:
            known = context.api_version >= offset_commit.TRANSACTIONAL_ID_VERSION
            error = ErrorCode.GROUP_ID_NOT_FOUND if known else ErrorCode.ILLEGAL_GENERATION
        if error is not ErrorCode.NONE:
            return respond(error)
        actor = actor or self.shards.add(group_id)
        call = Call(respond)
        member = request.member_id, request.group_instance_id, request.generation_id_or_member_epoch
        producer = producer_id, request.producer_epoch
        actor.feed(events.CommitInTransaction(call, *member, commit.records, producer, take_part))
        return call.result()

    def _commit(self, request: OffsetCommitRequest | TxnOffsetCommitRequest, version: int) -> offset_commit.Commit:
        max_bytes, now_ms = self._config.offset_metadata_max_bytes, self._clock.now_ms()
        return offset_commit.Commit(request, version, self._topics, max_bytes, now_ms)

    def end_transaction(self, partition: int, producer_id: int, commit: bool) -> None:
        """Tell the groups of a partition that the marker of a producer's transaction is in it."""
        for group_id in self._in_transactions.pop((partition, producer_id), ()):
            actor = self.groups.get(group_id)
            if actor is not None:
                actor.feed(events.EndTransaction(producer_id, commit))

    def fetch_offsets(self, context: Context, request: OffsetFetchRequest) -> Made[OffsetFetchResponse]:
        """Answer an OffsetFetch. `require_stable` hides offsets that an open transaction may change."""
        requested = offset_fetch.groups_of(request, context.api_version)
        find = partial(self._offsets_of, version=context.api_version)
        return offset_fetch.respond(request, requested, find, self._topics, context.api_version)

    def _offsets_of(self, requested: OffsetFetchRequestGroup, version: int) -> offset_fetch.Found:
        actor = self.groups.get(requested.group_id)
        if actor is None:
            return offset_fetch.Found(self.shards.check(requested.group_id), None)
        error = ErrorCode.NONE
        if version >= consumer_offsets.MEMBER_EPOCH_VERSION:
            error = consumer_offsets.fetch_error(actor.state, requested.member_id, requested.member_epoch)
        return offset_fetch.Found(error, actor.state.offsets)

    def delete_offsets(self, context: Context, request: OffsetDeleteRequest) -> Eventual[OffsetDeleteResponse]:
        """Answer an OffsetDelete."""
        respond = requests.delete_offsets_response(request, self._topics)
        # The group without a name may have offsets, which nothing but their time deletes, as in Kafka.
        actor = self.groups.get(request.group_id) if request.group_id else None
        if actor is None:
            return respond(self._absence(request.group_id, ErrorCode.GROUP_ID_NOT_FOUND))
        call = Call(respond)
        actor.feed(requests.delete_offsets_event(call, request, self._topics))
        return call.result()

    def forget_topic(self, topic: str, topic_id: bytes) -> None:
        """Delete the offsets of a topic that was deleted, and have share groups forget it: some groups in each turn."""
        keeper().run(self._forget_topic(topic, topic_id))

    def _forget_topic(self, name: str, topic_id: bytes) -> Iterator[None]:
        for actor in list(self.groups.values()):
            lost = actor.state.offsets.with_pending(name)
            if lost:
                # A new topic of the name may have offsets since the first turn.
                new = self._topics.get(name)
                actor.feed(events.DropTopic(name, None if new is None or new.id == topic_id else new.id))
            if actor.state.share is not None or actor.is_busy:
                actor.feed(events.ForgetTopic(topic_id))
            yield

    def drop_lost_topics(self) -> None:
        """Delete the offsets of topics that are not there any more, or that were made again under another id.

        A deletion is in the metadata before these offsets are deleted, and a power cut may fall between. Call this at a
        start, once every topic is known.
        """
        for actor in list(self.groups.values()):
            offsets = actor.state.offsets
            for name in offsets.topics():
                topic = self._topics.get(name)
                if topic is None:
                    actor.feed(events.DropTopic(name))
                elif offsets.has_other_topic(name, topic.id):
                    actor.feed(events.DropTopic(name, topic.id))

    def _expire(self) -> Iterator[None]:
        retention_ms = self._config.offsets_retention_minutes * 60_000
        for actor in list(self.groups.values()):
            actor.feed(events.ExpireOffsets(retention_ms))
            yield

    # -- Administration

    def delete(self, context: Context, request: DeleteGroupsRequest) -> Eventual[DeleteGroupsResponse]:
        """Answer a DeleteGroups. A group that is named twice is deleted and answered once."""
        results = [self._delete(group_id) for group_id in dict.fromkeys(request.groups_names)]
        return combine(results, lambda done: DeleteGroupsResponse(results=done))

    def _delete(self, group_id: str) -> Eventual[DeletableGroupResult]:
        respond = partial(DeletableGroupResult, group_id)
        actor = self.groups.get(group_id)
        if actor is None:
            return respond(self.shards.check(group_id) or ErrorCode.GROUP_ID_NOT_FOUND)
        if actor.state.share is not None or actor.is_busy:
            # What it is once its turn comes, is not known yet.
            return self.share.delete(actor, respond)
        call = Call(respond)
        actor.feed(events.Delete(call))
        return call.result()

    def describe(
        self, context: Context, request: DescribeGroupsRequest
    ) -> DescribeGroupsResponse | LargeResponse[DescribeGroupsResponse]:
        """Answer a DescribeGroups."""
        response = DescribeGroupsResponse()
        members: list[tuple[DescribedGroup, Group]] = []
        for group_id in dict.fromkeys(request.groups):
            actor = self.groups.get(group_id)
            error = self.shards.check(group_id) if actor is None else ErrorCode.NONE
            group = None if actor is None else actor.state
            described = description.describe(group_id, group, error, context.api_version)
            if request.include_authorized_operations and not described.error_code:
                described.authorized_operations = description.ALL_OPERATIONS
            if request.include_history and group is not None:
                described.history = description.history(group, self._clock.now_ms())
            response.groups.append(described)
            if group is not None and not described.error_code:
                members.append((described, group))
        steps = (step for each in members for step in description.add_members(*each))
        return fill(response, steps, sum(1 + len(group.roster.members) for _, group in members))

    def list(
        self, context: Context, request: ListGroupsRequest
    ) -> ListGroupsResponse | LargeResponse[ListGroupsResponse]:
        """Answer a ListGroups."""
        if self.shards.loading:
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return description.list_groups([actor.state for actor in self.groups.values()], request)

    # -- Checks

    def _with_members(self, group_id: str) -> GroupActor | None:
        """Return the group of a member. The group with the empty id can hold offsets, as in Kafka, but no members."""
        return self.groups.get(group_id) if group_id else None

    def _absence(self, group_id: str, unknown: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID) -> ErrorCode:
        """Return the error for a group that is not in memory: `unknown` if this broker would coordinate it."""
        return (self.shards.check(group_id) or unknown) if group_id else ErrorCode.INVALID_GROUP_ID

    def _check_join(self, request: JoinGroupRequest, is_first: bool) -> ErrorCode:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        low, high = self._config.group_min_session_timeout_ms, self._config.group_max_session_timeout_ms
        if not low <= request.session_timeout_ms <= high:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if not is_first:
            return ErrorCode.NONE
        return self.shards.check(request.group_id) or _check_first_join(request)


def _check_first_join(request: JoinGroupRequest) -> ErrorCode:
    if request.member_id:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not request.protocol_type or not request.protocols:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def limits_of(config: BrokerConfig, overrides: Mapping[str, str]) -> GroupLimits:
    """Return the limits of a group that has these configs of its own."""
    policy = config.group_consumer_migration_policy.lower()
    consumer = ConsumerLimits(
        effective(config, overrides, SESSION),
        effective(config, overrides, HEARTBEAT),
        effective(config, overrides, ASSIGNMENT),
        config.group_consumer_max_size,
        config.group_consumer_assignors,
        policy in ("bidirectional", "upgrade"),
        policy in ("bidirectional", "downgrade"),
    )
    share = ShareLimits(
        effective(config, overrides, SHARE_SESSION),
        effective(config, overrides, SHARE_HEARTBEAT),
        effective(config, overrides, SHARE_ASSIGNMENT),
        config.group_share_max_size,
    )
    return GroupLimits(config.group_initial_rebalance_delay_ms, config.group_max_size, consumer, share)
