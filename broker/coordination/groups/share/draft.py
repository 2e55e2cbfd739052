"""A heartbeat under way, between what the log has and what the records of its outcome will make of it."""

from __future__ import annotations

from dataclasses import dataclass

from .....protocol.messages.share_group_records import ShareGroupMemberMetadataValue
from ..events import Outcome
from ..group import Group
from .events import ShareHeartbeat
from .state import Member, ShareGroup


@dataclass(slots=True)
class Draft:
    """What holds once the records of the outcome are applied."""

    group: Group
    body: ShareGroup
    event: ShareHeartbeat
    outcome: Outcome
    now_ms: int
    # The member, as the log has it or as it begins.
    member: Member
    said: ShareGroupMemberMetadataValue
    # The group's epoch.
    epoch: int
    subscription_changed: bool = False
