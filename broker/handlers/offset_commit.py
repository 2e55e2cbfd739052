"""OffsetCommit, API key 8: writes down how far a group has come. Versions 0-10 (1 generation and timestamps, 2-4 a
retention time, 6 leader epochs, 7 static members, 10 topic ids)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

if TYPE_CHECKING:
    from ..network.request import RequestContext
    from ..services import Services


def handle(
    services: Services, context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | asyncio.Future[OffsetCommitResponse]:
    """The group coordinator answers."""
    return services.groups.commit_offsets(context, request)
