"""Access to share groups: their members, and their offsets."""

from __future__ import annotations

from typing import Any

from ....protocol.errors import ErrorCode
from ...security.acls import Operation, ResourceType
from ..large_messages import Portions
from .access import Access, Result, amended, both, each, keep_allowed, whole
from .caller import Caller, Proceed
from .groups import each_group

_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_GROUP, _TOPIC = ResourceType.GROUP, ResourceType.TOPIC


def describe(portions: Portions) -> Access:
    """Return the access of ShareGroupDescribe. A group with a topic that is denied is denied as a whole."""
    by_group = each_group(portions, Operation.DESCRIBE)
    check_groups = by_group.check
    assert check_groups is not None

    def check(caller: Caller, request: Any, proceed: Proceed) -> Result:
        def amend(response: Any) -> Any:
            for group in response.groups:
                if request.include_authorized_operations and not group.error_code:
                    group.authorized_operations = caller.operations(_GROUP, group.group_id)
                yield from _hide(caller, group)

        return amended(check_groups(caller, request, proceed), amend)

    return Access(f"{by_group.needs}; DESCRIBE on each TOPIC of its members", check)


def _hide(caller: Caller, group: Any) -> Any:
    """Deny a group whose members have a topic that the client may not describe."""
    for member in group.members:
        topics = {*member.subscribed_topic_names, *(each.topic_name for each in member.assignment.topic_partitions)}
        for name in topics:
            if not caller.may(Operation.DESCRIBE, _TOPIC, name, audited=False):
                group.error_code, group.error_message = int(_TOPIC_DENIED), _TOPIC_DENIED.text
                group.group_state, group.members = "", []
                return
        yield 1 + len(topics)


def describe_offsets() -> Access:
    """Return the access of DescribeShareGroupOffsets. Where all topics are asked for, others are left out."""
    by_group = each(Portions("groups", "groups"), Operation.DESCRIBE, _GROUP, _DENIED, lambda _, group: group.group_id)
    check_groups = by_group.check
    assert check_groups is not None

    def check(caller: Caller, request: Any, proceed: Proceed) -> Result:
        are_all = {group.group_id for group in request.groups if group.topics is None}

        def may_see(topic: Any) -> bool:
            return caller.may(Operation.DESCRIBE, _TOPIC, topic.topic_name, audited=False)

        def amend(response: Any) -> Any:
            for group in response.groups:
                if group.group_id in are_all:
                    yield from keep_allowed(group.topics, may_see)
                    continue
                for topic in group.topics:
                    if not may_see(topic):
                        _deny_offsets(topic)
                    yield 1

        return amended(check_groups(caller, request, proceed), amend)

    return Access(f"{by_group.needs}; DESCRIBE on each TOPIC", check)


def _deny_offsets(topic: Any) -> None:
    for partition in topic.partitions:
        partition.start_offset = partition.lag = -1
        partition.error_code, partition.error_message = int(_TOPIC_DENIED), _TOPIC_DENIED.text


def change_offsets(portions: Portions, operation: Operation) -> Access:
    """Return the access of AlterShareGroupOffsets (READ on the group) and DeleteShareGroupOffsets (DELETE)."""
    group = whole(operation, _GROUP, "group_id", _DENIED)
    text = _TOPIC_DENIED.text
    topics = each(portions, Operation.READ, _TOPIC, _TOPIC_DENIED, lambda _, topic: topic.topic_name, text)
    return both(group, topics)
