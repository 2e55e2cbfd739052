"""OffsetCommit, API key 8: writes down how far a group has come.

The group coordinator answers. Version 0 in a cluster keeps offsets in ZooKeeper, apart from those of the coordinator.
"""

from __future__ import annotations

import asyncio

from ...protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ..coordination.calls import Eventual
from ..network.request import RequestContext
from ..services import Services


def handle(services: Services, context: RequestContext, request: OffsetCommitRequest) -> Eventual[OffsetCommitResponse]:
    """Let the group coordinator answer, or for version 0 ZooKeeper."""
    if context.api_version == 0 and services.cluster is not None:
        return asyncio.ensure_future(services.cluster.old_offsets.commit(request))
    return services.groups.commit_offsets(context, request)
