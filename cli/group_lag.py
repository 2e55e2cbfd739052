"""How far groups are behind: records that they have not read, and the age of the oldest of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .session import CLIENT_ID, PATIENCE_MS, client_options

if TYPE_CHECKING:
    from ..client import Admin, TopicPartition

# Reading the records at the committed offsets ends after this, whatever has come.
_READ_WITHIN_S = 10.0
_POLL_MS = 200


async def lags(admin: Admin, committed: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int]]:
    """Return (end offset, lag in records) of each partition whose topic exists."""
    from ..client import LATEST

    existing = await admin.describe_topics()
    # A deleted topic may have left committed offsets behind; it has no end offset.
    ends = await admin.list_offsets({each: LATEST for each in committed if each.topic in existing})
    return {each: (end.offset, max(end.offset - committed[each], 0)) for each, end in ends.items()}


async def lag_times_ms(bootstrap_server: str, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the age in ms of the first committed record at or after each offset, by its timestamp.

    Partitions without such a record within ten seconds are missing.
    """
    from ..client import Consumer

    ages: dict[TopicPartition, int] = {}
    if not offsets:
        return ages
    options = client_options(
        "admin", client_id=CLIENT_ID, default_api_timeout_ms=PATIENCE_MS, allow_auto_create_topics=False
    )
    # A fetch brings one batch at least, however low the limit is.
    options |= {"isolation_level": "read_committed", "max_partition_fetch_bytes": 1, "enable_auto_commit": False}
    deadline = time.monotonic() + _READ_WITHIN_S
    async with Consumer(bootstrap_servers=bootstrap_server, **options) as consumer:
        consumer.assign(offsets)
        for each, offset in offsets.items():
            consumer.seek(each, offset)
        while len(ages) < len(offsets) and time.monotonic() < deadline:
            for partition, records in (await consumer.getmany(timeout_ms=_POLL_MS, max_records=1)).items():
                ages.setdefault(partition, max(int(time.time() * 1000) - records[0].timestamp_ms, 0))
                consumer.pause(partition)
            await asyncio.sleep(0)
    return ages
