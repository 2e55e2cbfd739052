"""Access to share groups: their members, and their offsets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ....protocol.errors import ErrorCode
from ...security.acls import Operation, ResourceType
from ..large_messages import Portions
from .access import (
    Access,
    Result,
    all_denied,
    amended,
    amending,
    both,
    cluster,
    denied,
    each,
    keep_allowed,
    split,
    whole,
    with_field,
)
from .caller import Caller, Proceed

_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_GROUP, _TOPIC = ResourceType.GROUP, ResourceType.TOPIC


def describe_offsets() -> Access:
    """Return the access of DescribeShareGroupOffsets. Where all topics are asked for, others are left out."""
    by_group = each(Portions("groups", "groups"), Operation.DESCRIBE, _GROUP, _DENIED, lambda _, group: group.group_id)

    def amend(caller: Caller, request: Any, response: Any) -> Iterator[int]:
        are_all = {group.group_id for group in request.groups if group.topics is None}

        def may_see(topic: Any) -> bool:
            return caller.may(Operation.DESCRIBE, _TOPIC, topic.topic_name, audited=False)

        for group in response.groups:
            if group.group_id in are_all:
                yield from keep_allowed(group.topics, may_see)
                continue
            for topic in group.topics:
                if not may_see(topic):
                    _deny_offsets(topic)
                yield 1

    return amending(by_group, amend, "; DESCRIBE on each TOPIC")


def _deny_offsets(topic: Any) -> None:
    for partition in topic.partitions:
        partition.start_offset = partition.lag = -1
        partition.error_code, partition.error_message = int(_TOPIC_DENIED), _TOPIC_DENIED.text


def change_offsets(portions: Portions, operation: Operation) -> Access:
    """Return the access of AlterShareGroupOffsets (READ on the group) and DeleteShareGroupOffsets (DELETE)."""
    group = whole(operation, _GROUP, "group_id", _DENIED)

    def check(caller: Caller, request: Any, proceed: Proceed) -> Result:
        rest, refused = split(request.topics, lambda topic: caller.may(Operation.READ, _TOPIC, topic.topic_name))
        results = denied(caller, portions, refused, _TOPIC_DENIED, _TOPIC_DENIED.text)

        def amend(response: Any) -> None:
            # An error of the group hides what is said of its topics.
            if not response.error_code:
                response.responses.extend(results)

        return amended(proceed(with_field(request, "topics", rest)), amend)

    return both(group, Access("READ on each TOPIC", check))


def states(portions: Portions) -> Access:
    """Return the access of what brokers ask the share coordinator. A denial is an error of each partition."""
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return cluster(
        Operation.CLUSTER_ACTION, lambda caller, request: all_denied(caller, request, portions, code, code.text)
    )
