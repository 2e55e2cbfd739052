"""The responses to heartbeats and descriptions, whose classes differ between kinds of groups in name alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, TypeVar

from ....protocol.errors import ErrorCode
from ....protocol.schema import Message
from ...turns import Made, fill
from ..groups.actor import GroupActor
from ..groups.description import ALL_OPERATIONS
from ..groups.group import Group
from ..groups.records import Record
from ..interfaces import Topics
from ..shards import Shards
from .events import Beat, Rejection
from .state import Member, ModernGroup, Place, by_topic

BeatT = TypeVar("BeatT", bound=Message)


def heartbeat_response(api: Any, response: Callable[..., BeatT], interval_ms: int) -> Callable[[Any], Made[BeatT]]:
    """Return the function that makes the response of an answer. `api` is the module of the message."""

    def respond(answer: Beat | Rejection | ErrorCode) -> Made[BeatT]:
        if isinstance(answer, ErrorCode):
            answer = Rejection(answer)
        if isinstance(answer, Rejection):
            return response(error_code=answer.error, error_message=answer.message)
        topics: list[Any] = []
        told = response(
            member_id=answer.member_id,
            member_epoch=answer.epoch,
            heartbeat_interval_ms=interval_ms if answer.epoch >= 0 else 0,
            assignment=None if answer.assignment is None else api.Assignment(topics),
        )
        places = answer.assignment or ()
        return fill(told, _listed(places, topics, api.TopicPartitions), len(places))

    return respond


def _listed(places: Iterable[Place], topics: list[Any], topic_of: Callable[[bytes, list[int]], Any]) -> Iterator[None]:
    """Add partitions, which are in order, topic by topic."""
    for topic_id, some in groupby(places, itemgetter(0)):
        topics.append(topic_of(topic_id, [index for _, index in some]))
        yield


@dataclass(frozen=True, slots=True)
class Description:
    """How one kind of group is described: the module of its message, its response, and the functions that differ."""

    api: Any
    response: Callable[[], Any]
    # Why a group is not of this kind; None: it is.
    missing: Callable[[str, Group | None], Rejection | None]
    body: Callable[[Group], ModernGroup[Any] | None]
    assignor: Callable[[Group], str]
    member: Callable[[Any, Topics], Any]


def describe(
    kind: Description, shards: Shards[GroupActor, Record], topics: Topics, request: Any, is_served: bool
) -> Any:
    """Return the response to a ConsumerGroupDescribe or ShareGroupDescribe. One with many members is made in turns."""
    response = kind.response()
    steps: list[Iterator[None]] = []
    size = 0
    for group_id in dict.fromkeys(request.group_ids):
        actor = shards.actors.get(group_id)
        error = shards.check(group_id) if actor is None else ErrorCode.NONE
        if not is_served:
            error = ErrorCode.UNSUPPORTED_VERSION
        group = None if actor is None else actor.state
        described = _described(kind, group_id, group, error)
        response.groups.append(described)
        body = None if group is None else kind.body(group)
        if described.error_code or body is None:
            continue
        if request.include_authorized_operations:
            described.authorized_operations = ALL_OPERATIONS
        steps.append(_add_members(kind, described, body, topics))
        size += sum(map(_size, body.members.values()))
    return fill(response, chain.from_iterable(steps), size)


def _described(kind: Description, group_id: str, group: Group | None, error: ErrorCode) -> Any:
    """Return a group without its members."""
    if error is ErrorCode.NONE and not group_id:
        error = ErrorCode.INVALID_GROUP_ID
    why = Rejection(error) if error is not ErrorCode.NONE else kind.missing(group_id, group)
    if why is not None:
        return kind.api.DescribedGroup(error_code=why.error, error_message=why.message, group_id=group_id)
    assert group is not None
    body = kind.body(group)
    assert body is not None
    return kind.api.DescribedGroup(
        group_id=group_id,
        group_state=body.state.value,
        group_epoch=body.epoch,
        assignment_epoch=body.assignment_epoch,
        assignor_name=kind.assignor(group),
    )


def _add_members(kind: Description, described: Any, body: ModernGroup[Any], topics: Topics) -> Iterator[None]:
    """Add the members to a description, one a step."""
    for member in list(body.members.values()):
        if member.said is not None:
            described.members.append(kind.member(member, topics))
        yield


def _size(member: Member[Any, Any]) -> int:
    topics = 0 if member.said is None else len(member.said.subscribed_topic_names)
    return 1 + topics + max(len(member.target), len(member.current.assigned))


def assignment(api: Any, places: Iterable[Place], topics: Topics) -> Any:
    """Return partitions with the names of their topics. A deleted topic is left out."""
    found = ((topics.by_id(topic_id), indexes) for topic_id, indexes in by_topic(places).items())
    listed = (api.TopicPartitions(topic.id, topic.name, indexes) for topic, indexes in found if topic is not None)
    return api.Assignment(list(listed))
