"""DescribeShareGroupOffsets, API key 90: where share groups begin in partitions, and how far they are behind.

The share coordinator has the states, the leaders of the partitions know where these end.
"""

from __future__ import annotations

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from ..network.request import RequestContext
from ..services import Services
from ..turns import LargeResponse


async def handle(
    services: Services, context: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse | LargeResponse[DescribeShareGroupOffsetsResponse]:
    """Return the offsets of each group."""

    async def end_offset(name: str, index: int) -> int:
        partition = services.topics.partition(name, index)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if services.remote_end_offset is not None and services.topics.is_led_elsewhere(name, index):
            return await services.remote_end_offset(name, index)
        partition.check_online()
        return partition.high_watermark

    return await services.groups.share.describe_offsets(request, end_offset)
