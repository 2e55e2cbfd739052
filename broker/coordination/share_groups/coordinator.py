"""The part of the group coordinator that answers the requests about share groups, and deletes them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages import share_group_heartbeat
from ....protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from ....protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from ....protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from ....protocol.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from ....protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ...turns import LargeResponse, Made, fill
from ..calls import Call, Eventual, awaited
from ..groups.actor import GroupActor
from ..groups.events import Delete
from ..groups.limits import GroupLimits
from ..groups.records import Record
from ..interfaces import Context, Topics
from ..modern.events import Rejection
from ..modern.responses import describe, heartbeat_response
from ..modern.target import TargetOf
from ..shards import Shards
from ..share_states.routed_persister import RoutedPersister
from ..share_states.share_state import ShareKey
from . import initialization, offsets, requests
from .events import AlterStates, DeleteStates, ShareHeartbeat, StatesDeleted, StatesWanted
from .state_work import StateWork
from .target import SHARE_TARGET


class Groups(Protocol):
    """What the group coordinator does for groups of every kind."""

    @property
    def shards(self) -> Shards[GroupActor, Record]: ...
    @property
    def serves_share_groups(self) -> bool: ...
    def limits(self, group_id: str) -> GroupLimits: ...
    def compute_target(self, actor: GroupActor, target: TargetOf[Any]) -> None: ...


class ShareGroups:
    """The share groups of one broker."""

    def __init__(self, groups: Groups, topics: Topics, persister: RoutedPersister, assignors: tuple[str, ...]) -> None:
        self._groups = groups
        self._shards = groups.shards
        self._topics = topics
        self._persister = persister
        self._description = requests.description(assignors[0])
        self._work = StateWork(persister, groups.shards.actors.get)

    def stop(self) -> None:
        """End what is under way. Idempotent."""
        self._work.stop()

    # -- Members

    def heartbeat(
        self, context: Context, request: ShareGroupHeartbeatRequest
    ) -> Eventual[Made[ShareGroupHeartbeatResponse]]:
        """Answer a ShareGroupHeartbeat. The first one with epoch 0 makes the group."""
        if not self._groups.serves_share_groups:
            return ShareGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        group_id = request.group_id
        limits = self._groups.limits(group_id)
        respond = heartbeat_response(
            share_group_heartbeat, ShareGroupHeartbeatResponse, limits.share.heartbeat_interval_ms
        )
        rejection = requests.rejection(request)
        if rejection is not None:
            return respond(rejection)
        actor = self._shards.actors.get(group_id)
        if actor is None:
            error = self._shards.check(group_id)
            if error is not ErrorCode.NONE:
                return respond(error)
            actor = self._shards.add(group_id)
        # A config may have changed since the group was made.
        actor.state.limits = limits
        call = Call(respond)
        client = context.client_id, context.client_host
        said = request.rack_id, request.subscribed_topic_names

        def start(answer: StatesWanted | ErrorCode) -> None:
            if isinstance(answer, StatesWanted):
                self._work.want(group_id, answer)

        starter: Call[StatesWanted | ErrorCode, None] = Call(start)
        actor.feed(ShareHeartbeat(call, starter, request.member_id, request.member_epoch, *client, *said))
        return call.result(lambda: self._groups.compute_target(actor, SHARE_TARGET))

    def describe(
        self, context: Context, request: ShareGroupDescribeRequest
    ) -> ShareGroupDescribeResponse | LargeResponse[ShareGroupDescribeResponse]:
        """Answer a ShareGroupDescribe."""
        return describe(self._description, self._shards, self._topics, request, self._groups.serves_share_groups)

    # -- Offsets

    async def describe_offsets(
        self, request: DescribeShareGroupOffsetsRequest, end_offset: Callable[[str, int], Awaitable[int]]
    ) -> DescribeShareGroupOffsetsResponse | LargeResponse[DescribeShareGroupOffsetsResponse]:
        """Answer a DescribeShareGroupOffsets. `end_offset` finds the end of a partition, and raises KafkaError."""
        reader = offsets.Reader(self._persister, self._topics, self._work.each, end_offset)
        response = DescribeShareGroupOffsetsResponse()
        for each in request.groups:
            error = self._error(each.group_id, may_be_empty=True)
            actor = self._shards.actors.get(each.group_id)
            response.groups.append(await reader.describe(each, None if actor is None else actor.state, error))
        size = sum(len(topic.partitions) for group in response.groups for topic in group.topics)
        return fill(response, iter(()), size)

    async def alter_offsets(
        self, context: Context, request: AlterShareGroupOffsetsRequest
    ) -> AlterShareGroupOffsetsResponse:
        """Answer an AlterShareGroupOffsets. It makes the group if there is none."""
        group_id = request.group_id
        starts = offsets.starts_of(request, self._topics)
        async with self._work.turn(group_id):
            error = self._error(group_id)
            if error is not ErrorCode.NONE:
                return AlterShareGroupOffsetsResponse(error_code=error, error_message=error.text)
            actor = self._shards.actors.get(group_id)
            errors: dict[tuple[bytes, int], KafkaError] = {}
            if starts.places or actor is not None:
                actor = actor or self._shards.add(group_id)
                answer = await _fed(actor, lambda call: AlterStates(call, starts.topics))
                if not isinstance(answer, StatesWanted):
                    return AlterShareGroupOffsetsResponse(error_code=answer.error, error_message=answer.message)
                begin, epoch = self._persister.initialize, answer.state_epoch
                errors = await self._work.each(
                    answer.places, lambda place: begin(ShareKey(group_id, *place), epoch, starts.places[place])
                )
                self._work.tell(group_id, answer.places, errors)
        return offsets.altered(request, self._topics, errors)

    async def delete_offsets(
        self, context: Context, request: DeleteShareGroupOffsetsRequest
    ) -> DeleteShareGroupOffsetsResponse:
        """Answer a DeleteShareGroupOffsets."""
        group_id = request.group_id
        async with self._work.turn(group_id):
            error = self._error(group_id)
            if error is not ErrorCode.NONE:
                return DeleteShareGroupOffsetsResponse(error_code=error, error_message=error.text)
            actor = self._shards.actors.get(group_id)
            ids = offsets.ids_of(request, self._topics)
            answer = initialization.not_share(group_id, None)
            if actor is not None:
                answer = await _fed(actor, lambda call: DeleteStates(call, frozenset(ids.values())))
            if not isinstance(answer, StatesWanted):
                assert answer is not None
                return DeleteShareGroupOffsetsResponse(error_code=answer.error, error_message=answer.message)
            errors = await self._delete_states(group_id, answer)
        known = {name: topic_id for name, topic_id in ids.items() if topic_id in answer.topics}
        return offsets.deleted(request, known, self._topics, errors)

    async def _delete_states(self, group_id: str, wanted: StatesWanted) -> dict[tuple[bytes, int], KafkaError]:
        """Delete states, and note of which topics all are deleted. Return the errors."""
        errors = await self._work.each(wanted.places, lambda place: self._work.delete(group_id, place))
        actor = self._shards.actors.get(group_id)
        if actor is not None:
            actor.feed(StatesDeleted(wanted.topics - {topic_id for topic_id, _ in errors}))
        return errors

    # -- The ends of groups and topics

    def delete(self, actor: GroupActor, respond: Callable[[ErrorCode], Any]) -> asyncio.Future[Any]:
        """Delete a group that has no members, with the states of a share group's partitions.

        Return what `respond` makes of it.
        """
        return asyncio.ensure_future(self._delete(actor, respond))

    async def _delete(self, actor: GroupActor, respond: Callable[[ErrorCode], Any]) -> Any:
        async with self._work.turn(actor.key):
            answer = await _fed(actor, lambda call: DeleteStates(call, None))
            if isinstance(answer, StatesWanted):
                errors = await self._work.each(answer.places, lambda place: self._work.delete(actor.key, place))
                if errors:
                    return respond(next(iter(errors.values())).code)
            elif answer.error is not ErrorCode.GROUP_ID_NOT_FOUND:
                return respond(answer.error)
            # It is a share group without states, a group of another kind, or none.
            if self._shards.actors.get(actor.key) is not actor:
                return respond(self._shards.check(actor.key) or ErrorCode.GROUP_ID_NOT_FOUND)
            call: Call[Any, Any] = Call(respond)
            actor.feed(Delete(call))
            return await awaited(call.result())

    def _error(self, group_id: str, *, may_be_empty: bool = False) -> ErrorCode:
        """Return why share groups, or this one, are not served here."""
        if not self._groups.serves_share_groups:
            return ErrorCode.UNSUPPORTED_VERSION
        if not group_id and not may_be_empty:
            return ErrorCode.INVALID_GROUP_ID
        return ErrorCode.NONE if group_id in self._shards.actors else self._shards.check(group_id)


async def _fed(actor: GroupActor, event: Callable[[Any], AlterStates | DeleteStates]) -> StatesWanted | Rejection:
    """Feed an event, and return its answer. An error has its own text."""
    call: Call[Any, Any] = Call(lambda answer: answer)
    actor.feed(event(call))
    answer = await awaited(call.result())
    return Rejection(answer, answer.text) if isinstance(answer, ErrorCode) else answer
