"""ShareAcknowledge, API key 79: a member of a share group says what became of records that it holds (KIP-932).

Version 2 brought renewals, and tells how long a lock lasts. The acknowledgements of one partition take effect together
or not at all, and are answered once they are written. ShareFetch carries the same ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from ..coordination.modern.state import Place
from ..network.guards import counted_turns
from ..network.request import RequestContext
from ..security.acls import Operation, ResourceType
from ..services import Services
from ..share_partitions.machine import Acknowledgement, AcknowledgeType
from ..share_partitions.sessions import FINAL_EPOCH, NEW_EPOCH
from ..turns import keeper
from .reachable_brokers import current_leader, tell_address

FIRST_WITH_RENEWALS = 2
# As long as the text of a UUID.
MAX_MEMBER_ID_CHARS = 36
# Neighbours with the same type are one batch for the share coordinator, which takes no more of them at once.
MAX_BATCHES = 10_000
# The client takes another broker for the leader.
NOT_LEADER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)


class Member(NamedTuple):
    """Who sends a request."""

    group_id: str
    member_id: str


def handle(
    services: Services, context: RequestContext, request: ShareAcknowledgeRequest
) -> asyncio.Future[ShareAcknowledgeResponse]:
    """Respond when everything is written."""
    member = member_of(services, request)
    if request.share_session_epoch == NEW_EPOCH:
        raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    session = services.share_leader.sessions.go_on(*member, request.share_session_epoch)

    async def respond() -> ShareAcknowledgeResponse:
        begun = await begin(services, context, member, request.topics, request.is_renew_ack, tells_missing=True)
        results = await begun.written()
        if request.share_session_epoch == FINAL_EPOCH:
            await asyncio.shield(services.share_leader.sessions.end(session))
        return _response(services, context, member, results)

    return counted_turns(services.quotas, context, respond)


def member_of(services: Services, request: Any) -> Member:
    """Return who sends a request. Raises UNSUPPORTED_VERSION, INVALID_REQUEST."""
    if not services.groups.serves_share_groups:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if request.group_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
    if not request.member_id or len(request.member_id) > MAX_MEMBER_ID_CHARS:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
    return Member(request.group_id, request.member_id)


class Begun(NamedTuple):
    """Acknowledgements that were begun: what is known of each partition, and what is being written."""

    results: dict[Place, KafkaError | None]
    # A request may name a partition twice.
    writes: list[tuple[Place, asyncio.Future[None]]]

    async def written(self) -> dict[Place, KafkaError | None]:
        """Return how it ended for each partition, once everything is written."""
        writes = self.writes
        # A client that goes away does not stop what is being written.
        written = asyncio.gather(*(write for _, write in writes), return_exceptions=True)
        for (place, _), end in zip(writes, await asyncio.shield(written), strict=True):
            if isinstance(end, KafkaError):
                self.results[place] = end
            elif isinstance(end, BaseException):
                raise end
        return self.results


async def begin(
    services: Services,
    context: RequestContext,
    member: Member,
    topics: Iterable[Any],
    is_renewal: bool,
    *,
    tells_missing: bool = False,
) -> Begun:
    """Begin what a request acknowledges: in this turn of the loop, unless there is very much of it.

    `tells_missing`: a partition that does not exist has an error, also where nothing of it is acknowledged.
    """
    begun = Begun({}, [])
    for topic in topics:
        for each in topic.partitions:
            if not each.acknowledgement_batches and not tells_missing:
                continue
            place = (topic.topic_id, each.partition_index)
            try:
                write = await _acknowledge(services, context, member, place, each.acknowledgement_batches, is_renewal)
            except KafkaError as error:
                begun.results[place] = error
            else:
                if each.acknowledgement_batches:
                    begun.results.setdefault(place, None)
                if write is not None:
                    begun.writes.append((place, write))
            await keeper().pause()
    return begun


async def _acknowledge(
    services: Services, context: RequestContext, member: Member, place: Place, batches: list[Any], is_renewal: bool
) -> asyncio.Future[None] | None:
    """Begin the acknowledgements of one partition. Raises KafkaError."""
    topic = services.topics.by_id(place[0])
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    acknowledgements: list[Acknowledgement] = []
    knows_renewals = context.api_version >= FIRST_WITH_RENEWALS
    await keeper().finish(_check(batches, acknowledgements, knows_renewals=knows_renewals, is_renewal=is_renewal))
    if not context.may(Operation.READ, ResourceType.TOPIC, topic.name):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if not batches:
        if topic.partition(place[1]) is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return None
    services.share_leader.partitions.partition(place)
    actor = services.share_leader.partitions.find(member.group_id, place)
    if actor is None or actor.machine is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return actor.acknowledge(member.member_id, acknowledgements)


def _response(
    services: Services, context: RequestContext, member: Member, results: dict[Place, KafkaError | None]
) -> ShareAcknowledgeResponse:
    response = ShareAcknowledgeResponse()
    if context.api_version >= FIRST_WITH_RENEWALS:
        response.acquisition_lock_timeout_ms = services.share_leader.settings_of(member.group_id).limits.lock_ms
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    for (topic_id, index), error in results.items():
        data = PartitionData(index)
        if error is not None:
            data.error_code, data.error_message = int(error.code), error.message
        if data.error_code == NOT_LEADER:
            data.current_leader = leader_of(
                services, context, (topic_id, index), response, LeaderIdAndEpoch, NodeEndpoint
            )
        if topic_id not in topics:
            topics[topic_id] = ShareAcknowledgeTopicResponse(topic_id, [])
            response.responses.append(topics[topic_id])
        topics[topic_id].partitions.append(data)
    return response


def leader_of(
    services: Services, context: RequestContext, place: Place, response: Any, leader_type: Any, endpoint_type: Any
) -> Any:
    """Return the leader of a partition, and add its address to the response."""
    topic = services.topics.by_id(place[0])
    leader, epoch = (-1, -1) if topic is None else current_leader(services, topic.name, place[1])
    tell_address(services, context, leader, response.node_endpoints, endpoint_type)
    return leader_type(leader, epoch)


def _check(
    batches: Iterable[Any], acknowledgements: list[Acknowledgement], *, knows_renewals: bool, is_renewal: bool
) -> Iterator[None]:
    """Add the acknowledgements of one partition, one a step. INVALID_REQUEST where they contradict themselves.

    `is_renewal`: the request may renew locks.
    """
    previous, alike = -1, 0
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last:
            raise _invalid(f"the first offset {first} is behind the last one, {last}")
        if first < previous:
            raise _invalid(f"the batch of offset {first} comes behind that of {previous}")
        if not types or (len(types) > 1 and len(types) != last - first + 1):
            raise _invalid(f"{len(types)} acknowledge types are given for {last - first + 1} records")
        _check_types(types, knows_renewals, is_renewal)
        alike += sum(1 for _ in groupby(types))
        if alike > MAX_BATCHES:
            raise _invalid(f"more than {MAX_BATCHES} batches are acknowledged at once")
        acknowledgements.append(Acknowledgement(first, last, types))
        previous = last
        yield


def _check_types(types: list[int], knows_renewals: bool, is_renewal: bool) -> None:
    highest = AcknowledgeType.RENEW if knows_renewals else AcknowledgeType.REJECT
    if min(types) < 0 or max(types) > highest:
        raise _invalid(f"acknowledge types are from 0 to {int(highest)}")
    if not is_renewal and AcknowledgeType.RENEW in types:
        raise _invalid("the request renews a lock, and does not say that it renews")


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, why)
