"""A heartbeat of a share group under way."""

from __future__ import annotations

from ....protocol.messages.share_group_records import ShareGroupMemberMetadataValue
from ..modern import draft
from .events import ShareHeartbeat
from .state import Member, ShareGroup

Draft = draft.Draft[ShareGroup, ShareHeartbeat, Member, ShareGroupMemberMetadataValue]
