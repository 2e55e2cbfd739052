"""The record of a generation: a group's members, each with its assignment, as `__consumer_offsets` keeps them."""

from __future__ import annotations

from collections.abc import Collection

from ....protocol.messages.group_records import GroupMetadataValue
from .group import Group
from .records import GroupRecord
from .roster import Member


def generation_record(
    group: Group, generation: int, members: Collection[tuple[Member, bytes]], leader: str | None, now_ms: int
) -> GroupRecord:
    """Return the record of a generation. `members` holds each member with its assignment."""
    protocol = group.protocol if members else None
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=generation,
        protocol=protocol,
        leader=leader,
        current_state_timestamp=now_ms,
        members=[member.record(protocol or "", assignment) for member, assignment in members],
    )
    return GroupRecord(group.group_id, value)
