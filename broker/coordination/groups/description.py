"""DescribeGroups and ListGroups: the description of a group, with its history of rebalances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....protocol.codec import encode_versioned
from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from ....protocol.messages.group_history import GroupHistory, HistoricRebalance, HistoricWait
from ....protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ...security import acls
from ...turns import LargeResponse, fill
from ..classic.states import GroupState
from .group import Group
from .history import Ending, Fate, Rebalance, slowest
from .subscriptions import CONSUMER

# Since this version an unknown group is GROUP_ID_NOT_FOUND. Before, it is Dead and no error (KIP-1043).
NOT_FOUND_VERSION = 6

CLASSIC_TYPE, CONSUMER_TYPE, SHARE_TYPE = "classic", "consumer", "share"

# What everyone may do without an authorizer.
ALL_OPERATIONS = acls.ALL_OPERATIONS[acls.ResourceType.GROUP]


def describe(group_id: str, group: Group | None, error: ErrorCode, version: int) -> DescribedGroup:
    """Return one group of DescribeGroups, without its members.

    `group` is None if it is unknown; `error` says why it cannot be looked up.
    """
    if error is not ErrorCode.NONE:
        return DescribedGroup(error_code=error, group_id=group_id)
    is_other = group is not None and (group.consumer is not None or group.share is not None)
    if group is None or group.state is GroupState.DEAD or is_other:
        missing = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        if version >= NOT_FOUND_VERSION:
            what = "is not a classic group" if is_other else "not found"
            why = KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")
            missing.error_code, missing.error_message = why.code, why.message
        return missing
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if group.state is GroupState.STABLE else "",
    )


def add_members(described: DescribedGroup, group: Group) -> Iterator[None]:
    """Add the members to a description, one a step, as they were when it was made."""
    # During a rebalance no protocol is elected, and the metadata of a protocol cannot be chosen.
    protocol = group.protocol if described.group_state == GroupState.STABLE.value else None
    for member in list(group.roster.members.values()):
        described.members.append(
            DescribedGroupMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                b"" if protocol is None else member.metadata(protocol),
                member.assignment,
            )
        )
        yield


def history(group: Group, now_ms: int) -> bytes:
    """Return the group's rebalances, the oldest first, as the tagged field `history` carries them."""
    rebalances = [_rebalance(each) for each in group.rebalances]
    if rebalances and group.rebalances[-1].ending is Ending.RUNNING:
        rebalances[-1].waited = _missing(group, group.rebalances[-1], now_ms)
    return encode_versioned(GroupHistory(rebalances), 0)


def _rebalance(each: Rebalance) -> HistoricRebalance:
    return HistoricRebalance(
        each.began_ms,
        each.joined_ms,
        each.ended_ms,
        each.ending.value,
        each.first_round,
        each.old_generation,
        each.generation,
        each.members,
        each.protocol,
        each.leader,
        each.causes,
        each.more_causes,
        each.waited,
    )


def _missing(group: Group, current: Rebalance, now_ms: int) -> list[HistoricWait]:
    """Return the members that the running rebalance waits for: those that have not joined, later the leader."""
    if group.state is GroupState.PREPARING_REBALANCE:
        waited_ms = max(now_ms - current.began_ms, 0)
        return slowest([HistoricWait(member_id, waited_ms, Fate.MISSING) for member_id in group.roster.missing()])
    if group.leader is None:
        return current.waited
    leader = HistoricWait(group.leader, max(now_ms - current.joined_ms, 0), Fate.MISSING)
    return slowest([*current.waited, leader])


def list_groups(
    groups: Sequence[Group], request: ListGroupsRequest
) -> ListGroupsResponse | LargeResponse[ListGroupsResponse]:
    """Return a ListGroups response. An empty filter means all; the case of states and types does not matter."""
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    response = ListGroupsResponse()

    def add(group: Group) -> None:
        listed = _listed(group)
        fits = (not states or listed.group_state.lower() in states) and (not types or listed.group_type in types)
        if fits:
            response.groups.append(listed)

    return fill(response, map(add, groups), len(groups))


def _listed(group: Group) -> ListedGroup:
    if group.consumer is not None:
        return ListedGroup(group.group_id, CONSUMER, group.consumer.state.value, CONSUMER_TYPE)
    if group.share is not None:
        return ListedGroup(group.group_id, SHARE_TYPE, group.share.state.value, SHARE_TYPE)
    return ListedGroup(group.group_id, group.protocol_type or "", group.state.value, CLASSIC_TYPE)
