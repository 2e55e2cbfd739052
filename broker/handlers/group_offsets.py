"""OffsetCommit, OffsetFetch, TxnOffsetCommit, DescribeShareGroupOffsets: how far groups have come. Coordinators answer.

Version 0 in a cluster keeps offsets in ZooKeeper, apart from those of the coordinator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from ...protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ...protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ...protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from ..coordination.calls import Eventual
from ..coordination.transactions.verification import OffsetsVerification
from ..network.request import RequestContext
from ..services import Services
from ..topics.topic_names import OFFSETS_TOPIC
from ..turns import LargeResponse


def offset_commit(
    services: Services, context: RequestContext, request: OffsetCommitRequest
) -> Eventual[OffsetCommitResponse]:
    """OffsetCommit, API key 8: writes down how far a group has come."""
    if context.api_version == 0 and services.cluster is not None:
        return asyncio.ensure_future(services.cluster.old_offsets.commit(request))
    return services.groups.commit_offsets(context, request)


def offset_fetch(
    services: Services, context: RequestContext, request: OffsetFetchRequest
) -> LargeResponse[OffsetFetchResponse] | Eventual[OffsetFetchResponse]:
    """OffsetFetch, API key 9: returns how far groups have come."""
    if context.api_version == 0 and services.cluster is not None:
        return asyncio.ensure_future(services.cluster.old_offsets.fetch(request))
    return services.groups.fetch_offsets(context, request)


def txn_offset_commit(
    services: Services, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | asyncio.Future[TxnOffsetCommitResponse]:
    """TxnOffsetCommit, API key 28: writes down how far a group has come, once the producer's transaction commits.

    The group coordinator answers once the group's partition is part of the transaction. Versions 0-6 (2 leader epochs,
    3 members and generations, 4 TRANSACTION_ABORTABLE, 5 takes the group into the transaction, 6 topic ids).
    """
    verify = services.verification.of_offsets(request, context.api_version)
    response = services.groups.commit_in_transaction(context, request, verify)
    if isinstance(response, asyncio.Future) or verify.is_late:
        return asyncio.ensure_future(_commit_later(services, context, request, verify, response))
    return response


async def _commit_later(
    services: Services,
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    verify: OffsetsVerification,
    response: Eventual[TxnOffsetCommitResponse],
) -> TxnOffsetCommitResponse:
    """Return the response; where the word of the transaction coordinator came too late for the commit, commit again."""

    async def commit(verify: Callable[[int], ErrorCode]) -> TxnOffsetCommitResponse:
        response = services.groups.commit_in_transaction(context, request, verify)
        return await response if isinstance(response, asyncio.Future) else response

    refused = await response if isinstance(response, asyncio.Future) else response
    partition = services.topics.partition(OFFSETS_TOPIC, services.groups.shards.partition_of(request.group_id))
    if not verify.is_late or partition is None:
        return refused
    return await services.verification.commit_later(request, partition, context.api_version, commit)


async def describe_share_group_offsets(
    services: Services, context: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse | LargeResponse[DescribeShareGroupOffsetsResponse]:
    """DescribeShareGroupOffsets, API key 90: where share groups begin in partitions, and how far they are behind.

    The share coordinator has the states, the leaders of the partitions know where these end.
    """

    async def end_offset(name: str, index: int) -> int:
        partition = services.topics.partition(name, index)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if services.remote_end_offset is not None and services.topics.is_led_elsewhere(name, index):
            return await services.remote_end_offset(name, index)
        partition.check_online()
        return partition.high_watermark

    return await services.groups.share.describe_offsets(request, end_offset)
