"""A heartbeat under way, between what the log has and what the records of its outcome will make of it."""

from __future__ import annotations

from dataclasses import dataclass

from .....protocol.messages.consumer_group_records import ConsumerGroupMemberMetadataValue
from ..events import Outcome
from ..group import Group
from .events import ConsumerHeartbeat
from .state import ConsumerGroup, Member


@dataclass(slots=True)
class Draft:
    """What holds once the records of the outcome are applied."""

    group: Group
    body: ConsumerGroup
    event: ConsumerHeartbeat
    outcome: Outcome
    now_ms: int
    # The member, as the log has it or as it begins.
    member: Member
    said: ConsumerGroupMemberMetadataValue
    # The group's epoch.
    epoch: int
    subscription_changed: bool = False
