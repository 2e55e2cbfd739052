"""Offsets and sizes of topics' partitions, as `odradek topics` prints them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..client import Admin, TopicPartition

PARTITION_ROW = (
    "topic", "partition", "leader", "replicas", "isr", "start_offset", "end_offset", "records", "size_bytes",
)  # fmt: skip
TOPIC_ROW = ("topic", "partitions", "replicas", "records", "size_bytes")


async def partition_rows(admin: Admin, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row for each partition of these topics. UnknownTopic for one that does not exist.

    `records` is the difference of the offsets: compaction and transactions leave fewer. Sizes are those on the leader's
    disk. What the cluster does not tell now is None: offsets too, where a partition has no leader.
    """
    from ..client import EARLIEST, LATEST, TopicPartition

    described = await admin.describe_topics(*names)
    partitions = [TopicPartition(name, each.partition) for name in names for each in described[name].partitions]
    starts = await admin.list_offsets(dict.fromkeys(partitions, EARLIEST), partial=True)
    ends = await admin.list_offsets(dict.fromkeys(partitions, LATEST), partial=True)
    sizes = await _sizes(admin, partitions)
    rows: list[dict[str, Any]] = []
    for each in partitions:
        info = described[each.topic].partitions[each.partition]
        start = starts[each].offset if each in starts else None
        end = ends[each].offset if each in ends else None
        records = None if start is None or end is None else end - start
        size = sizes.get((info.leader, each))
        values = (*each, info.leader, list(info.replicas), list(info.isr), start, end, records, size)
        rows.append(dict(zip(PARTITION_ROW, values, strict=True)))
    return rows


async def topic_rows(admin: Admin, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row for each topic: the sums over its partitions."""
    rows: dict[str, dict[str, Any]] = {}
    for each in await partition_rows(admin, names):
        start = {"topic": each["topic"], "partitions": 0, "replicas": 0, "records": 0, "size_bytes": 0}
        row = rows.setdefault(each["topic"], start)
        row["partitions"] += 1
        row["replicas"] = max(row["replicas"], len(each["replicas"]))
        for name in ("records", "size_bytes"):
            row[name] = None if each[name] is None or row[name] is None else row[name] + each[name]
    return list(rows.values())


async def _sizes(admin: Admin, partitions: list[TopicPartition]) -> dict[tuple[int, TopicPartition], int]:
    from ..client.errors import ErrorCode, KafkaError

    if not partitions:
        return {}
    try:
        found = await admin.describe_log_dirs(partitions=partitions)
    except KafkaError as error:
        # Offsets are worth printing without sizes.
        if error.code in (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION):
            return {}
        raise
    return {
        (log_dir.node_id, replica.partition): replica.size_bytes
        for log_dir in found
        for replica in log_dir.replicas
        if not replica.is_future
    }
