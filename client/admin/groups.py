"""Consumer groups: ListGroups (key 16), DeleteGroups (42), OffsetDelete (47), the history of a group; members removed
(LeaveGroup, 13) and offsets set by an administrator.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ...protocol.codec import decode_versioned
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ...protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ...protocol.messages.group_history import GroupHistory, HistoricCause, HistoricRebalance
from ...protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ...protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ...protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ..core.cluster import Cluster
from ..core.committed_offsets import CommittedOffsets, Generation
from ..core.coordinator import Coordinator
from ..core.descriptions import (
    GroupDescription,
    GroupListing,
    GroupRebalance,
    RebalanceCause,
    RebalanceWait,
)
from ..core.leaders import errors_in, for_items, one_by_one, retried
from ..core.options import by_partition, checked_offset, items_of
from ..errors import error_of, only, raise_error
from ..record import OffsetAndMetadata, TopicPartition, by_topic
from .group_states import describe_group, is_newer

_FIRST_STATES_FILTER = 4  # ListGroups 4 filters by state, 5 by type
_FIRST_TYPES_FILTER = 5
_FIRST_SEVERAL_MEMBERS = 3  # LeaveGroup 3 names members, also by instance id

# -- List and describe


@retried
async def list_groups(
    cluster: Cluster, *, states: Collection[str] = (), types: Collection[str] = ()
) -> list[GroupListing]:
    """Return the groups of all brokers by id, only those in `states` (Stable, ...) and of `types` (classic, ...).

    Raises KafkaError, UNSUPPORTED_VERSION if a broker is too old to filter.
    """
    await cluster.refresh()
    found: dict[str, GroupListing] = {}
    request = ListGroupsRequest(states_filter=sorted(states), types_filter=sorted(types))
    for node_id in cluster.view.nodes:
        connection = await cluster.connection(node_id)
        version = connection.version_for(ListGroupsRequest)
        if (states and version < _FIRST_STATES_FILTER) or (types and version < _FIRST_TYPES_FILTER):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{connection.address} cannot filter groups like that")
        response = await connection.request(request, ListGroupsResponse, version=version)
        raise_error(response.error_code, None, f"{connection.address} cannot list its groups")
        for each in response.groups:
            found[each.group_id] = GroupListing(each.group_id, each.protocol_type, each.group_state, each.group_type)
    return [found[group_id] for group_id in sorted(found)]


async def describe_groups(cluster: Cluster, *group_ids: str | Iterable[str]) -> dict[str, GroupDescription]:
    """Return state, assignor and members of groups of any kind.

    Raises KafkaError, GROUP_ID_NOT_FOUND for a group that does not exist; old brokers call it Dead.
    """
    coordinators = {each: Coordinator(cluster, each) for each in items_of("describe_groups", str, group_ids)}
    return await one_by_one(cluster, coordinators, lambda group_id: describe_group(coordinators[group_id]))


async def explain_group(cluster: Cluster, group_id: str) -> list[GroupRebalance]:
    """Return why a group rebalanced, the oldest rebalance first, as far as its broker remembers.

    Groups of the newer kinds do not stop to rebalance, and have none: `describe_groups` says what members wait for.

    Raises KafkaError, UNSUPPORTED_VERSION if the broker keeps no history: Kafka's brokers do not.
    """
    coordinator = Coordinator(cluster, group_id)
    return await cluster.retry(lambda: _explain_once(coordinator))


async def _explain_once(coordinator: Coordinator) -> list[GroupRebalance]:
    request = DescribeGroupsRequest(groups=[coordinator.key], include_history=True)
    response = await coordinator.request(request, DescribeGroupsResponse)
    group = only(response.groups, coordinator.key)
    if ErrorCode.of(group.error_code) is ErrorCode.GROUP_ID_NOT_FOUND and await is_newer(coordinator):
        return []
    coordinator.raise_error(group.error_code, "the history")
    if group.history is None:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, "this broker keeps no history of its groups: only Odradek's brokers do"
        )
    return [_rebalance(each) for each in decode_versioned(GroupHistory, group.history).rebalances]


def _rebalance(rebalance: HistoricRebalance) -> GroupRebalance:
    """Return one rebalance with the durations of its two phases."""
    ended_ms = None if rebalance.ended_ms < 0 else rebalance.ended_ms
    joins_ms = None if rebalance.joined_ms < 0 else max(rebalance.joined_ms - rebalance.began_ms, 0)
    assigned = joins_ms is not None and ended_ms is not None and rebalance.ending != "empty"
    return GroupRebalance(
        rebalance.began_ms,
        ended_ms,
        joins_ms,
        max(rebalance.ended_ms - rebalance.joined_ms, 0) if assigned else None,
        rebalance.ending,
        rebalance.first_round,
        rebalance.old_generation,
        rebalance.generation,
        rebalance.members,
        rebalance.protocol,
        rebalance.leader,
        tuple(_cause(cause) for cause in rebalance.causes),
        rebalance.more_causes,
        tuple(RebalanceWait(wait.member_id, wait.waited_ms, wait.fate) for wait in rebalance.waited),
    )


def _cause(cause: HistoricCause) -> RebalanceCause:
    return RebalanceCause(
        cause.kind,
        cause.text,
        cause.member_id,
        cause.instance_id,
        cause.client_id,
        cause.client_host,
        None if cause.silent_ms < 0 else cause.silent_ms,
        cause.detail,
    )


# -- Offsets and deletion


async def list_group_offsets(cluster: Cluster, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return every offset that a group has committed."""
    return await CommittedOffsets(Coordinator(cluster, group_id)).fetch_all()


async def alter_group_offsets(
    cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> None:
    """Set offsets of a group without members; it is created if it does not exist.

    Raises KafkaError, NON_EMPTY_GROUP if it has members; ItemsFailed if some of several offsets are not taken.
    """
    given = by_partition("alter_group_offsets", offsets, "offset")
    offsets = {each: checked_offset(at) for each, at in given.items()}
    coordinator = Coordinator(cluster, group_id)
    committed = CommittedOffsets(coordinator)
    text = f"the offsets of group {group_id!r} are its members' to commit: stop its consumers first"
    has_members = KafkaError(ErrorCode.NON_EMPTY_GROUP, text)

    async def attempt(some: list[TopicPartition]) -> dict[TopicPartition, KafkaError | None]:
        codes = await committed.commit_once({each: offsets[each] for each in some}, Generation())
        return {
            each: has_members
            if code is ErrorCode.UNKNOWN_MEMBER_ID
            else coordinator.error_of(code, f"committing the offset of {each}")
            for each, code in codes.items()
        }

    await for_items(cluster, offsets, attempt)


async def delete_group_offsets(
    cluster: Cluster,
    group_id: str,
    partitions: TopicPartition | Iterable[TopicPartition] = (),
    *more: TopicPartition,
) -> None:
    """Delete offsets of a group. Raises KafkaError, GROUP_SUBSCRIBED_TO_TOPIC if a member reads the topic."""
    wanted = items_of("delete_group_offsets", TopicPartition, (partitions, *more))
    coordinator = Coordinator(cluster, group_id)

    async def attempt(some: list[TopicPartition]) -> dict[TopicPartition, KafkaError | None]:
        topics = [
            OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(each) for each in numbers])
            for name, numbers in by_topic(some).items()
        ]
        request = OffsetDeleteRequest(group_id, topics)
        response = await coordinator.request(request, OffsetDeleteResponse)
        coordinator.raise_error(response.error_code, "the deletion of offsets")
        return errors_in(response, lambda each: f"the offset of group {group_id!r} was not deleted for {each}")

    await for_items(cluster, wanted, attempt)


async def remove_group_members(
    cluster: Cluster,
    group_id: str,
    *member_ids: str | Iterable[str],
    instance_ids: Collection[str] = (),
    reason: str = "removed by an administrator",
) -> None:
    """Remove members of a group, by member id or by `group_instance_id`; their partitions go to the others.

    A member that still runs joins again. Raises KafkaError, UNKNOWN_MEMBER_ID for one that the group does not have.
    """
    wanted = items_of("remove_group_members", str, member_ids)
    coordinator = Coordinator(cluster, group_id)
    members = {each: MemberIdentity(each, None, reason) for each in wanted}
    members |= {each: MemberIdentity("", each, reason) for each in instance_ids}

    async def attempt(some: list[str]) -> dict[str, KafkaError | None]:
        connection = await coordinator.connection()
        if connection.version_for(LeaveGroupRequest) < _FIRST_SEVERAL_MEMBERS:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{connection.address} cannot remove members of a group")
        request = LeaveGroupRequest(group_id, members=[members[each] for each in some])
        response = await coordinator.request_over(connection, request, LeaveGroupResponse)
        coordinator.raise_error(response.error_code, "the removal of members")
        found: dict[str, KafkaError | None] = {}
        for each in response.members:
            name = each.group_instance_id or each.member_id
            found[name] = error_of(each.error_code, None, f"member {name!r} of group {group_id!r}")
        return found

    await for_items(cluster, members, attempt)


async def delete_groups(cluster: Cluster, *group_ids: str | Iterable[str]) -> None:
    """Delete groups without members, and their offsets. Raises KafkaError, NON_EMPTY_GROUP."""
    # One after another, because each has a coordinator.
    coordinators = {each: Coordinator(cluster, each) for each in items_of("delete_groups", str, group_ids)}
    await one_by_one(cluster, coordinators, lambda group_id: _delete(coordinators[group_id]))


async def _delete(coordinator: Coordinator) -> None:
    request = DeleteGroupsRequest(groups_names=[coordinator.key])
    response = await coordinator.request(request, DeleteGroupsResponse)
    coordinator.raise_error(only(response.results, coordinator.key).error_code, "the deletion")
