"""DescribeLogDirs, API key 35: the data directories, their partitions, and how much room there is.

Version 2 has tagged fields, 3 adds an error for the whole request, 4 the size of the volume and its free space, 5
whether the directory is cordoned (none is). An offline directory is KAFKA_STORAGE_ERROR without partitions. The
response leaves out partitions that do not exist, as in Kafka.
"""

from __future__ import annotations

from pathlib import Path

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
from ..services import Services
from ..topics.partition import Partition
from ..turns import LargeResponse, fill


def handle(
    services: Services, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse | LargeResponse[DescribeLogDirsResponse]:
    """Return one result a data directory, with the requested partitions; null requests all of them."""
    results = {each.path: _describe(services, each) for each in services.log_dirs.all}
    # By data directory and topic: the partitions of a topic may lie in several.
    topics: dict[tuple[Path, str], DescribeLogDirsTopic] = {}

    def add(partition: Partition) -> int:
        if not partition.is_online:
            return 1  # since an earlier turn
        path = partition.log.directory.parent
        if results[path].error_code:
            return 1
        topic = topics.get((path, partition.topic))
        if topic is None:
            topic = topics[path, partition.topic] = DescribeLogDirsTopic(partition.topic)
            results[path].topics.append(topic)
        # The offset lag is how far a replica's log ends before the high watermark that it knows itself. No log does: so
        # a follower, too, answers 0, as in Kafka.
        topic.partitions.append(DescribeLogDirsPartition(partition.index, partition.log.size_bytes, 0, False))
        return 1

    partitions = services.topics.partitions()
    if request.topics is not None:
        asked = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
        partitions = [each for each in partitions if (each.topic, each.index) in asked]
    return fill(DescribeLogDirsResponse(results=list(results.values())), map(add, partitions), len(partitions))


def _describe(services: Services, log_dir: LogDir) -> DescribeLogDirsResult:
    """Return the result of a data directory, without its partitions."""
    try:
        if not log_dir.is_online:
            raise StorageError(f"{log_dir.path} is offline")
        total_bytes, usable_bytes = services.disk.space(log_dir.path)
    except StorageError as error:
        return DescribeLogDirsResult(int(error.code), str(log_dir.path))
    return DescribeLogDirsResult(0, str(log_dir.path), [], total_bytes, usable_bytes)
