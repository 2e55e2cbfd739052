"""DescribeLogDirs, API key 35: the data directories, what lies in them, how much room there is.

Version 2 has tagged fields, 3 brought an error for the whole, 4 the size of the volume and what is free of it, 5
whether the directory takes new partitions (each does: there is no cordoning here). A directory that is offline is
KAFKA_STORAGE_ERROR, with nothing in it. Partitions that are not there are left out, as Kafka does.
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
    """One result a data directory, with the partitions asked for; null asks for all."""
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
        # What was not replicated yet: the leader is the only replica.
        topics.setdefault(each.topic, []).append(DescribeLogDirsPartition(each.index, each.log.size_bytes, 0, False))
    described = [DescribeLogDirsTopic(name, found) for name, found in topics.items()]
    return DescribeLogDirsResult(0, str(log_dir.path), described, total_bytes, usable_bytes)
