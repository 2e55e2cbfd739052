"""How old the records are that a group has not read: its lag in time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from .consumer.consumer import Consumer
from .core.clock import wall_clock_ms
from .errors import KafkaError
from .record import TopicPartition

# A fetch brings one batch at least, however low the limit is.
READER_OPTIONS: Mapping[str, Any] = {
    "isolation_level": "read_committed",
    "max_partition_fetch_bytes": 1,
    "enable_auto_commit": False,
}
_POLL_MS = 200


async def ages_ms(
    consumer: Consumer, offsets: Mapping[TopicPartition, int], within_s: float
) -> dict[TopicPartition, int]:
    """Return the age in ms of the first record at or after each offset, by its timestamp.

    `consumer` has READER_OPTIONS and no group. Partitions whose record does not come within `within_s` are missing.
    """
    ages: dict[TopicPartition, int] = {}
    deadline_s = time.monotonic() + within_s
    consumer.assign(offsets)
    for each, offset in offsets.items():
        consumer.seek(each, offset)
    while len(ages) < len(offsets) and time.monotonic() < deadline_s:
        with suppress(KafkaError):  # of a partition, such as one that may not be read
            for partition, records in (await consumer.getmany(timeout_ms=_POLL_MS, max_records=1)).items():
                ages.setdefault(partition, max(wall_clock_ms() - records[0].timestamp_ms, 0))
                consumer.pause(partition)
        await asyncio.sleep(0)
    return ages
