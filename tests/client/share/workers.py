"""Share consumers of a fake cluster, and its records."""

from __future__ import annotations

import asyncio
from typing import Any

from odradek.client import ShareConsumer, ShareRecord
from odradek.tests.support.fakes.fake_cluster import FakeCluster


def worker(cluster: FakeCluster, *topics: str, **options: Any) -> ShareConsumer[Any, Any]:
    quick = {"group_id": "g", "retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "bootstrap_servers": cluster.address}
    return ShareConsumer(*topics or ("t",), **quick | options)


def explicit(cluster: FakeCluster, **options: Any) -> ShareConsumer[Any, Any]:
    return worker(cluster, share_acknowledgement_mode="explicit", **options)


async def take(consumer: ShareConsumer[Any, Any], count: int) -> list[ShareRecord[Any, Any]]:
    found: list[ShareRecord[Any, Any]] = []
    async with asyncio.timeout(20):
        while len(found) < count:
            for records in (await consumer.getmany(timeout_ms=50, max_records=count - len(found))).values():
                found += records
    return found


def kinds(cluster: FakeCluster) -> dict[int, int]:
    """What became of the offsets of t-0."""
    return {offset: kind for (place, offset), kind in cluster.share_group.settled.items() if place == ("t", 0)}
