"""TxnOffsetCommit, API key 28: writes down how far a group has come, to count once the producer's transaction commits.

Versions 0-5 (2 leader epochs, 3 members and generations, 4 TRANSACTION_ABORTABLE, 5 takes the group into the
transaction).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ...protocol.errors import ErrorCode
from ...protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from ..network.request import RequestContext
from ..services import Services
from ..topics.partition import Partition
from ..topics.topic_names import OFFSETS_TOPIC


def handle(
    services: Services, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | asyncio.Future[TxnOffsetCommitResponse]:
    """Let the group coordinator answer, once the group's partition is part of the transaction."""
    verification, version = services.verification, context.api_version
    if services.replicas is not None:
        index = services.groups.shards.partition_of(request.group_id)
        topic = services.topics.get(OFFSETS_TOPIC)
        partition = topic.partition(index) if topic is not None else None
        is_here = partition is not None and partition.not_leading is None
        if partition is not None and is_here and verification.is_offset_commit_remote(request, index, version):
            return asyncio.ensure_future(_commit_later(services, context, request, partition))
    return services.groups.commit_in_transaction(context, request, verification.of_offsets(request, version))


async def _commit_later(
    services: Services, context: RequestContext, request: TxnOffsetCommitRequest, partition: Partition
) -> TxnOffsetCommitResponse:
    """Commit with the word of a transaction coordinator on another broker."""

    async def commit(verify: Callable[[int], ErrorCode]) -> TxnOffsetCommitResponse:
        response = services.groups.commit_in_transaction(context, request, verify)
        return await response if isinstance(response, asyncio.Future) else response

    return await services.verification.commit_with_remote(request, partition, context.api_version, commit)
