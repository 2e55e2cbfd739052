"""Access to groups: their members, their offsets, and who sees them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any

from ....protocol.errors import ErrorCode
from ....protocol.primitives import ZERO_UUID
from ....protocol.shapes.answers import rejecter
from ....protocol.shapes.portions import with_field
from ....protocol.shapes.shape import Items
from ....protocol.shapes.table import lists_in
from ...security.acls import Operation, ResourceType
from .access import (
    NOT_ASKED,
    Access,
    Result,
    amended,
    amending,
    as_access,
    both,
    by_item,
    each,
    for_all,
    keep_allowed,
    list_of,
    named,
    only_seen,
    refuse,
    sees,
    whole,
)
from .caller import Caller, Proceed
from .topics import each_topic

_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_GROUP = ResourceType.GROUP


# Access to what a member of a group does.
member = whole(Operation.READ, _GROUP, "group_id", _DENIED)
# Access to what a member of a share group fetches and acknowledges. Its handler asks about the topics.
share_member = Access(f"{member.needs}; READ on each TOPIC", member.check, (_DENIED, _TOPIC_DENIED))
# Access to OffsetCommit.
commit = both(member, each_topic(Operation.READ))
# Access to OffsetDelete.
delete_offsets = both(whole(Operation.DELETE, _GROUP, "group_id", _DENIED), each_topic(Operation.READ))


def each_group(operation: Operation) -> Access:
    """Return the access of an API that needs one operation on each group of its list."""
    return each(operation, _GROUP, _DENIED)


def _describe(caller: Caller, request: Any, response: Any) -> None:
    for group in response.groups:
        _tell_operations(caller, request, group)


# Access to DescribeGroups, which tells what else the client may do to a group.
describe = amending(each_group(Operation.DESCRIBE), _describe)


def _tell_operations(caller: Caller, request: Any, group: Any) -> None:
    if request.include_authorized_operations and not group.error_code:
        group.authorized_operations = caller.operations(_GROUP, group.group_id)


@as_access("DESCRIBE on each TOPIC that it subscribes by name", denials=(_TOPIC_DENIED,))
def _subscriber(caller: Caller, request: Any, proceed: Proceed) -> Result:
    names = request.subscribed_topic_names
    if not names:
        return proceed(request)
    allowed, denied = partial(proceed, request), partial(refuse, caller, request, _TOPIC_DENIED)
    return for_all(caller, Operation.DESCRIBE, ResourceType.TOPIC, names, allowed, denied)


# Access to ConsumerGroupHeartbeat and ShareGroupHeartbeat. One topic that is denied denies the whole subscription.
consumer_member = both(member, _subscriber)


def _hide(caller: Caller, request: Any, response: Any) -> Iterator[int]:
    for group in response.groups:
        yield from _hide_members(caller, group)
        _tell_operations(caller, request, group)


# Access to ConsumerGroupDescribe and ShareGroupDescribe. A group with a topic that is denied is denied as a whole.
describe_members = amending(each_group(Operation.DESCRIBE), _hide, "; DESCRIBE on each TOPIC of its members")._replace(
    denials=(_DENIED, _TOPIC_DENIED)
)


def _hide_members(caller: Caller, group: Any) -> Iterator[int]:
    """Deny a group whose members have a topic that the client may not describe."""
    for each_member in group.members:
        topics = {*each_member.subscribed_topic_names}
        for field in ("assignment", "target_assignment"):
            assignment = getattr(each_member, field, None)  # a share group has no target
            topics |= {topic.topic_name for topic in assignment.topic_partitions} if assignment is not None else set()
        for name in topics:
            if not sees(caller, ResourceType.TOPIC, name):
                _deny_group(group)
                return
            yield 1
        yield 1


def _deny_group(group: Any) -> None:
    group.error_code, group.error_message = int(_TOPIC_DENIED), _TOPIC_DENIED.text
    group.group_state, group.members, group.authorized_operations = "", [], NOT_ASKED
    group.group_epoch, group.assignment_epoch, group.assignor_name = 0, 0, ""


_seen_alone = only_seen("groups", "group_id", _GROUP, "groups with DESCRIBE")


@as_access("DESCRIBE on the cluster; without it only groups with DESCRIBE are listed")
def list_all(caller: Caller, request: Any, proceed: Proceed) -> Result:
    """Access to ListGroups: all of them, or those that the client may describe."""
    assert _seen_alone.check is not None
    if caller.may_cluster(Operation.DESCRIBE, audited=False):
        return proceed(request)
    return _seen_alone.check(caller, request, proceed)


@as_access(
    "DESCRIBE on the GROUP; DESCRIBE on each TOPIC, others are left out where all are asked for",
    denials=(_DENIED, _TOPIC_DENIED),
)
def fetch_offsets(caller: Caller, request: Any, proceed: Proceed) -> Result:
    """Access to OffsetFetch: each group, then its topics."""
    items = lists_in(caller.api_key, caller.api_version)[0]
    if items.kind == "group":
        return _fetch_of_groups(caller, items, request, proceed)
    if not caller.may(Operation.DESCRIBE, _GROUP, request.group_id):
        return refuse(caller, request, _DENIED)
    asked = _Asked(caller, items, request)
    return amended(proceed(asked.allowed), asked.amend)


def _fetch_of_groups(caller: Caller, items: Items, request: Any, proceed: Proceed) -> Result:
    """Check a request for several groups."""
    assert items.inner is not None
    reject = rejecter(caller.api_key, items, caller.api_version)
    asked = {each.group_id: _Asked(caller, items.inner, each) for each in request.groups}

    def deny(group: Any) -> Any:
        may = caller.may(Operation.DESCRIBE, _GROUP, group.group_id)
        return None if may else reject(group, int(_DENIED), None)

    def amend(response: Any) -> Iterator[int]:
        for group in response.groups:
            if not group.error_code:
                yield from asked[group.group_id].amend(group)

    def proceed_with_topics(allowed: Any) -> Result:
        groups = [asked[each.group_id].allowed for each in allowed.groups]
        return amended(proceed(with_field(allowed, "groups", groups)), amend)

    return by_item(caller, request, items, deny, proceed_with_topics)


class _Asked:
    """The topics whose offsets a request asks for, or one of its groups."""

    def __init__(self, caller: Caller, items: Items, struct: Any) -> None:
        self._caller = caller
        self._items = items
        self._struct = struct
        self._denied: list[Any] = []

    @cached_property
    def allowed(self) -> Any:
        """Return the request or group with the topics that are allowed."""
        if self._struct.topics is None:
            return self._struct
        allowed: list[Any] = []
        for topic in self._struct.topics:
            name = named(self._caller, self._items, topic)
            may = name is None or self._caller.may(Operation.DESCRIBE, ResourceType.TOPIC, name)
            (allowed if may else self._denied).append(topic)
        return with_field(self._struct, "topics", allowed)

    def amend(self, result: Any) -> Iterator[int]:
        """Add errors for the topics that are denied. Of all topics, leave out those that the client may not see."""
        caller, items = self._caller, self._items
        if self._struct.topics is None:
            yield from keep_allowed(result.topics, partial(_may_see, caller, items))
        reject = rejecter(caller.api_key, items, caller.api_version)
        result.topics.extend(reject(each, int(_TOPIC_DENIED), None) for each in self._denied)


def _may_see(caller: Caller, items: Items, topic: Any) -> bool:
    name = named(caller, items, topic)
    return name is not None and sees(caller, ResourceType.TOPIC, name)


@as_access(
    "DESCRIBE on each GROUP or TRANSACTIONAL_ID, CLUSTER_ACTION on the cluster for share groups",
    denials=(_DENIED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
)
def coordinators(caller: Caller, request: Any, proceed: Proceed) -> Result:
    """Access to FindCoordinator: DESCRIBE on the group or transactional id, CLUSTER_ACTION for shares."""
    lists = lists_in(caller.api_key, caller.api_version)
    if not lists:
        code = _coordinator_error(caller, request.key_type, request.key)
        return proceed(request) if code is None else refuse(caller, request, code, code.text)
    reject = rejecter(caller.api_key, lists[0], caller.api_version)

    def deny(key: str) -> Any:
        code = _coordinator_error(caller, request.key_type, key)
        # Kafka gives a text with this error only: a key of a share group is for brokers.
        text = code.text if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED else ""
        return None if code is None else reject(key, int(code), text)

    return by_item(caller, request, lists[0], deny, proceed)


def _coordinator_error(caller: Caller, key_type: int, key: str) -> ErrorCode | None:
    if key_type == 0:
        return None if caller.may(Operation.DESCRIBE, _GROUP, key) else _DENIED
    if key_type == 1:
        may = caller.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key)
        return None if may else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if key_type == 2 and not caller.may_cluster(Operation.CLUSTER_ACTION):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return None


# -- Share groups


def _hide_share_offsets(caller: Caller, request: Any, response: Any) -> Iterator[int]:
    are_all = {group.group_id for group in request.groups if group.topics is None}

    def may_see(topic: Any) -> bool:
        return sees(caller, ResourceType.TOPIC, topic.topic_name)

    for group in response.groups:
        if group.group_id in are_all:
            yield from keep_allowed(group.topics, may_see)
            continue
        for topic in group.topics:
            if not may_see(topic):
                _deny_share_offsets(topic)
            yield 1


# Access to DescribeShareGroupOffsets. Where all topics are asked for, others are left out.
describe_share_offsets = amending(
    each_group(Operation.DESCRIBE), _hide_share_offsets, "; DESCRIBE on each TOPIC"
)._replace(denials=(_DENIED, _TOPIC_DENIED))


def _deny_share_offsets(topic: Any) -> None:
    topic.topic_id = ZERO_UUID
    for partition in topic.partitions:
        partition.start_offset = partition.lag = -1
        partition.error_code, partition.error_message = int(_TOPIC_DENIED), _TOPIC_DENIED.text


def _change_share_offsets(operation: Operation) -> Access:
    """Return the access of an API that needs one operation on the group, and READ on each topic."""
    group = whole(operation, _GROUP, "group_id", _DENIED, _DENIED.text)

    def check(caller: Caller, request: Any, proceed: Proceed) -> Result:
        _, reject = list_of(caller)
        rest: list[Any] = []
        results: list[Any] = []
        for topic in request.topics:
            if caller.may(Operation.READ, ResourceType.TOPIC, topic.topic_name):
                rest.append(topic)
            else:
                results.append(reject(topic, int(_TOPIC_DENIED), _TOPIC_DENIED.text))

        def amend(response: Any) -> None:
            # An error of the group hides what is said of its topics.
            if not response.error_code:
                response.responses.extend(results)

        return amended(proceed(with_field(request, "topics", rest)), amend)

    return both(group, Access("READ on each TOPIC", check, (_TOPIC_DENIED,)))


alter_share_offsets = _change_share_offsets(Operation.READ)
delete_share_offsets = _change_share_offsets(Operation.DELETE)
