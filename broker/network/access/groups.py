"""Access to groups: their members, their offsets, and who sees them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from ....protocol.errors import ErrorCode, KafkaError
from ...security.acls import Operation, ResourceType
from ..large_messages import Portions
from .access import (
    NOT_ASKED,
    Access,
    Result,
    all_denied,
    amended,
    amending,
    both,
    denied,
    each,
    keep_allowed,
    split,
    whole,
    with_field,
)
from .caller import Caller, Proceed
from .topics import each_topic, topic_of

_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_GROUP = ResourceType.GROUP
# From which version of OffsetFetch on a group has an error of its own, and a request several groups.
_FIRST_WITH_ERROR = 2
_FIRST_WITH_GROUPS = 8
# From this version on a JoinGroup that failed names no protocol.
_FIRST_WITHOUT_PROTOCOL = 7


# Access to what a member of a group does.
member = whole(Operation.READ, _GROUP, "group_id", _DENIED)


@partial(Access, "READ on the GROUP of the request")
def join(caller: Caller, request: Any, proceed: Proceed) -> Result:
    """Access to JoinGroup."""
    if caller.may(Operation.READ, _GROUP, request.group_id):
        return proceed(request)
    from ....protocol.messages.join_group import JoinGroupResponse

    protocol = None if caller.api_version >= _FIRST_WITHOUT_PROTOCOL else ""
    return JoinGroupResponse(error_code=int(_DENIED), protocol_name=protocol)


def each_group(portions: Portions, operation: Operation) -> Access:
    """Return the access of an API that needs one operation on each group of its list."""
    return each(portions, operation, _GROUP, _DENIED, lambda caller, group: group)


def describe(portions: Portions) -> Access:
    """Return the access of DescribeGroups, which tells what else the client may do to a group."""

    def amend(caller: Caller, request: Any, response: Any) -> None:
        for group in response.groups:
            _tell_operations(caller, request, group)

    return amending(each_group(portions, Operation.DESCRIBE), amend)


def _tell_operations(caller: Caller, request: Any, group: Any) -> None:
    if request.include_authorized_operations and not group.error_code:
        group.authorized_operations = caller.operations(_GROUP, group.group_id)


def consumer_member() -> Access:
    """Return the access of ConsumerGroupHeartbeat. One topic that is denied denies the whole subscription."""

    def check(caller: Caller, request: Any, proceed: Proceed) -> Result:
        for topic in request.subscribed_topic_names or ():
            if not caller.may(Operation.DESCRIBE, ResourceType.TOPIC, topic):
                raise KafkaError(_TOPIC_DENIED)
        return proceed(request)

    return both(member, Access("DESCRIBE on each TOPIC that it subscribes by name", check))


@partial(Access, "READ on the GROUP; READ on each TOPIC")
def share_member(caller: Caller, request: Any, proceed: Proceed) -> Result:
    """Access to what a member of a share group fetches and acknowledges. Its handler checks the topics."""
    # A request without a group is invalid; the handler says so.
    if request.group_id is not None and not caller.may(Operation.READ, _GROUP, request.group_id):
        raise KafkaError(_DENIED)
    return proceed(request)


def describe_members(portions: Portions) -> Access:
    """Return the access of ConsumerGroupDescribe and ShareGroupDescribe.

    A group with a topic that is denied is denied as a whole.
    """

    def amend(caller: Caller, request: Any, response: Any) -> Iterator[int]:
        for group in response.groups:
            yield from _hide_members(caller, group)
            _tell_operations(caller, request, group)

    return amending(each_group(portions, Operation.DESCRIBE), amend, "; DESCRIBE on each TOPIC of its members")


def _hide_members(caller: Caller, group: Any) -> Iterator[int]:
    """Deny a group whose members have a topic that the client may not describe."""
    for each_member in group.members:
        topics = {*each_member.subscribed_topic_names}
        for field in ("assignment", "target_assignment"):
            assignment = getattr(each_member, field, None)  # a share group has no target
            topics |= {topic.topic_name for topic in assignment.topic_partitions} if assignment is not None else set()
        for name in topics:
            if not caller.may(Operation.DESCRIBE, ResourceType.TOPIC, name, audited=False):
                group.error_code, group.error_message = int(_TOPIC_DENIED), _TOPIC_DENIED.text
                group.group_state, group.members, group.authorized_operations = "", [], NOT_ASKED
                return
        yield 1 + len(topics)


def commit(portions: Portions) -> Access:
    """Return the access of OffsetCommit."""
    group = whole(Operation.READ, _GROUP, "group_id", _DENIED, portions)
    return both(group, each_topic(portions, Operation.READ))


def delete_offsets(portions: Portions) -> Access:
    """Return the access of OffsetDelete."""
    group = whole(Operation.DELETE, _GROUP, "group_id", _DENIED)
    return both(group, each_topic(portions, Operation.READ))


@partial(Access, "DESCRIBE on the cluster; without it only groups with DESCRIBE are listed")
def list_all(caller: Caller, request: Any, proceed: Proceed) -> Result:
    """Access to ListGroups: all of them, or those that the client may describe."""
    if caller.may_cluster(Operation.DESCRIBE, audited=False):
        return proceed(request)

    def may_see(group: Any) -> bool:
        return caller.may(Operation.DESCRIBE, _GROUP, group.group_id, audited=False)

    return amended(proceed(request), lambda response: keep_allowed(response.groups, may_see))


def fetch_offsets(portions: Portions) -> Access:
    """Return the access of OffsetFetch: the group, then its topics.

    `portions` are those of the versions that ask for one group.
    """

    def check(caller: Caller, request: Any, proceed: Proceed) -> Result:
        if caller.api_version >= _FIRST_WITH_GROUPS:
            return _fetch_of_groups(caller, request, proceed)
        if not caller.may(Operation.DESCRIBE, _GROUP, request.group_id):
            if caller.api_version >= _FIRST_WITH_ERROR:
                raise KafkaError(_DENIED)
            return all_denied(caller, request, portions, _DENIED)
        allowed, refused = _split(caller, request)
        results = denied(caller, portions, refused, _TOPIC_DENIED)

        def amend(response: Any) -> None:
            _hide(caller, response, request.topics is None)
            response.topics.extend(results)

        return amended(proceed(allowed), amend)

    return Access("DESCRIBE on the GROUP; DESCRIBE on each TOPIC, others are left out where all are asked for", check)


def _fetch_of_groups(caller: Caller, request: Any, proceed: Proceed) -> Result:
    """Check a request for several groups."""
    from ....protocol.messages.offset_fetch import OffsetFetchResponseGroup

    groups: list[Any] = []
    results: list[Any] = []
    # By group: what is denied of it, and whether all of its topics are asked for.
    denials: dict[str, list[Any]] = {}
    whole_groups: set[str] = set()
    for group in request.groups:
        if not caller.may(Operation.DESCRIBE, _GROUP, group.group_id):
            results.append(OffsetFetchResponseGroup(group.group_id, [], int(_DENIED)))
            continue
        allowed, refused = _split(caller, group)
        groups.append(allowed)
        if group.topics is None:
            whole_groups.add(group.group_id)
        elif refused:
            denials[group.group_id] = _topics_denied(refused)

    def amend(response: Any) -> None:
        for group in response.groups:
            _hide(caller, group, group.group_id in whole_groups)
            if not group.error_code:
                group.topics.extend(denials.get(group.group_id, ()))
        response.groups.extend(results)

    return amended(proceed(with_field(request, "groups", groups)), amend)


def _topics_denied(topics: list[Any]) -> list[Any]:
    from ....protocol.messages.offset_fetch import OffsetFetchResponsePartitions, OffsetFetchResponseTopics

    def partition(index: int) -> Any:
        return OffsetFetchResponsePartitions(index, -1, -1, "", int(_TOPIC_DENIED))

    return [
        OffsetFetchResponseTopics(each.name, each.topic_id, list(map(partition, each.partition_indexes)))
        for each in topics
    ]


def _split(caller: Caller, struct: Any) -> tuple[Any, list[Any]]:
    """Return a request or its group with the topics that are allowed, and the others."""
    if struct.topics is None:
        return struct, []

    def is_allowed(topic: Any) -> bool:
        name = topic_of(caller, topic)
        return name is None or caller.may(Operation.DESCRIBE, ResourceType.TOPIC, name)

    allowed, refused = split(struct.topics, is_allowed)
    return with_field(struct, "topics", allowed), refused


def _hide(caller: Caller, struct: Any, are_all: bool) -> None:
    """Leave topics out of a group's offsets where the client has asked for all, and may not see them."""
    if are_all:
        for _ in keep_allowed(struct.topics, lambda topic: _may_see(caller, topic)):
            pass


def _may_see(caller: Caller, topic: Any) -> bool:
    name = topic_of(caller, topic)
    return name is not None and caller.may(Operation.DESCRIBE, ResourceType.TOPIC, name, audited=False)


@partial(Access, "DESCRIBE on each GROUP or TRANSACTIONAL_ID, CLUSTER_ACTION on the cluster for share groups")
def coordinators(caller: Caller, request: Any, proceed: Proceed) -> Result:
    """Access to FindCoordinator: DESCRIBE on the group or transactional id, CLUSTER_ACTION for shares."""
    is_list = caller.api_version >= 4
    keys = request.coordinator_keys if is_list else [request.key]
    refused = {key: code for key in keys if (code := _coordinator_error(caller, request.key_type, key))}
    if not refused:
        return proceed(request)
    if not is_list:
        return _no_coordinator(refused[request.key])
    results = _no_coordinators(refused)
    rest = [key for key in keys if key not in refused]
    if not rest:
        # Nothing is to be looked for, and no topic of coordinators to be created.
        return _response_of(results)
    allowed = with_field(request, "coordinator_keys", rest)
    return amended(proceed(allowed), lambda response: response.coordinators.extend(results))


def _coordinator_error(caller: Caller, key_type: int, key: str) -> ErrorCode | None:
    if key_type == 0:
        return None if caller.may(Operation.DESCRIBE, _GROUP, key) else _DENIED
    if key_type == 1:
        may = caller.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key)
        return None if may else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if key_type == 2 and not caller.may_cluster(Operation.CLUSTER_ACTION):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return None


def _no_coordinator(code: ErrorCode) -> Any:
    from ....protocol.messages.find_coordinator import FindCoordinatorResponse

    return FindCoordinatorResponse(error_code=int(code), error_message=code.text, node_id=-1, host="", port=-1)


def _no_coordinators(refused: dict[str, ErrorCode]) -> list[Any]:
    from ....protocol.messages.find_coordinator import Coordinator

    # Kafka says in words only that share groups are for brokers.
    texts = {ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ErrorCode.CLUSTER_AUTHORIZATION_FAILED.text}
    return [Coordinator(key, -1, "", -1, int(code), texts.get(code, "")) for key, code in refused.items()]


def _response_of(coordinators: list[Any]) -> Any:
    from ....protocol.messages.find_coordinator import FindCoordinatorResponse

    return FindCoordinatorResponse(coordinators=coordinators)
