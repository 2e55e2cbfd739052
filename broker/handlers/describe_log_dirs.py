"""DescribeLogDirs, API key 35: the data directories, their partitions, and how much room there is.

Version 2 has tagged fields, 3 adds an error for the whole request, 4 the size of the volume and its free space, 5
whether the directory is cordoned (none is). An offline directory is KAFKA_STORAGE_ERROR without partitions. The
response leaves out partitions that do not exist, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ...storage.errors import StorageError
from ..log_dirs.log_dirs import LogDir
from ..network.request import RequestContext
from ..topics.partition import Partition

if TYPE_CHECKING:
    from ..services import Services


def handle(services: Services, context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Return one result a data directory, with the requested partitions; null requests all of them."""
    asked: set[tuple[str, int]] | None = None
    if request.topics is not None:
        asked = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    shares: dict[LogDir, list[Partition]] = {each: [] for each in services.log_dirs.all}
    by_path = {each.path: each for each in services.log_dirs.all}
    for partition in services.topics.partitions():
        if asked is None or (partition.topic, partition.index) in asked:
            shares[by_path[partition.log.directory.parent]].append(partition)
    return DescribeLogDirsResponse(results=[_describe(services, each, share) for each, share in shares.items()])


def _describe(services: Services, log_dir: LogDir, partitions: list[Partition]) -> DescribeLogDirsResult:
    try:
        if not log_dir.is_online:
            raise StorageError(f"{log_dir.path} is offline")
        total_bytes, usable_bytes = services.disk.space(log_dir.path)
    except StorageError as error:
        return DescribeLogDirsResult(int(error.code), str(log_dir.path))
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for each in partitions:
        # The offset lag is 0: the leader is the only replica.
        topics.setdefault(each.topic, []).append(DescribeLogDirsPartition(each.index, each.log.size_bytes, 0, False))
    described = [DescribeLogDirsTopic(name, found) for name, found in topics.items()]
    return DescribeLogDirsResult(0, str(log_dir.path), described, total_bytes, usable_bytes)
