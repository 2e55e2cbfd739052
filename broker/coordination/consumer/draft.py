"""A heartbeat of a consumer group under way."""

from __future__ import annotations

from ....protocol.messages.consumer_group_records import ConsumerGroupMemberMetadataValue
from ..modern import draft
from .events import ConsumerHeartbeat
from .state import ConsumerGroup, Member

Draft = draft.Draft[ConsumerGroup, ConsumerHeartbeat, Member, ConsumerGroupMemberMetadataValue]
