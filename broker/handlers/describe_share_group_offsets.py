"""DescribeShareGroupOffsets, API key 90: where share groups begin in partitions, and how far they are behind.

The share coordinator has the states, the leaders of the partitions know where these end.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from ..network.request import RequestContext
from ..turns import LargeResponse

if TYPE_CHECKING:
    from ..services import Services


def handle(
    services: Services, context: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> asyncio.Future[DescribeShareGroupOffsetsResponse | LargeResponse[DescribeShareGroupOffsetsResponse]]:
    """Return the offsets of each group."""

    async def end_offset(name: str, index: int) -> int:
        topic = services.topics.get(name)
        partition = None if topic is None else topic.partition(index)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if services.remote_end_offset is not None and services.topics.is_led_elsewhere(name, index):
            return await services.remote_end_offset(name, index)
        partition.check_online()
        return partition.high_watermark

    return asyncio.ensure_future(services.groups.share.describe_offsets(request, end_offset))
