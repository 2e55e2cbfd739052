"""Access to the offsets of share groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ....protocol.errors import ErrorCode
from ....protocol.primitives import ZERO_UUID
from ....protocol.shapes.portions import with_field
from ...security.acls import Operation, ResourceType
from .access import Access, Result, amended, amending, both, keep_allowed, list_of, whole
from .caller import Caller, Proceed
from .groups import each_group

_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_TOPIC = ResourceType.TOPIC


def _hide_offsets(caller: Caller, request: Any, response: Any) -> Iterator[int]:
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


# Access to DescribeShareGroupOffsets. Where all topics are asked for, others are left out.
describe_offsets = amending(each_group(Operation.DESCRIBE), _hide_offsets, "; DESCRIBE on each TOPIC")._replace(
    denials=(_DENIED, _TOPIC_DENIED)
)


def _deny_offsets(topic: Any) -> None:
    topic.topic_id = ZERO_UUID
    for partition in topic.partitions:
        partition.start_offset = partition.lag = -1
        partition.error_code, partition.error_message = int(_TOPIC_DENIED), _TOPIC_DENIED.text


def change_offsets(operation: Operation) -> Access:
    """Return the access of AlterShareGroupOffsets (READ on the group) and DeleteShareGroupOffsets (DELETE)."""
    group = whole(operation, ResourceType.GROUP, "group_id", _DENIED, _DENIED.text)

    def check(caller: Caller, request: Any, proceed: Proceed) -> Result:
        _, reject = list_of(caller)
        rest: list[Any] = []
        results: list[Any] = []
        for topic in request.topics:
            if caller.may(Operation.READ, _TOPIC, topic.topic_name):
                rest.append(topic)
            else:
                results.append(reject(topic, int(_TOPIC_DENIED), _TOPIC_DENIED.text))

        def amend(response: Any) -> None:
            # An error of the group hides what is said of its topics.
            if not response.error_code:
                response.responses.extend(results)

        return amended(proceed(with_field(request, "topics", rest)), amend)

    return both(group, Access("READ on each TOPIC", check, (_TOPIC_DENIED,)))
