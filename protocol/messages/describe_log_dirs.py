"""DescribeLogDirs, API key 35: the data directories, their partitions and their free space.

Versions: 2 flexible; 3 an error for the whole request; 4 total and free bytes of the volume; 5 whether the directory
takes new partitions (KIP-1066). Kafka 4 removed 0.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, boolean, int16, int32, int64, string


class DescribeLogDirsRequest(Message, key=35, versions="1-5", flexible="2+"):
    topics: list[DescribableLogDirTopic] | None = array("0+", nullable="0+")


class DescribableLogDirTopic(Struct):
    topic: str = string("0+")
    partitions: list[int] = array("0+", of="int32")


class DescribeLogDirsResponse(Message, request=DescribeLogDirsRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("3+", ignorable=True)
    results: list[DescribeLogDirsResult] = array("0+")


class DescribeLogDirsResult(Struct):
    error_code: int = int16("0+")
    log_dir: str = string("0+")
    topics: list[DescribeLogDirsTopic] = array("0+")
    total_bytes: int = int64("4+", ignorable=True, default=-1)
    usable_bytes: int = int64("4+", ignorable=True, default=-1)
    is_cordoned: bool = boolean("5+", ignorable=True)


class DescribeLogDirsTopic(Struct):
    name: str = string("0+")
    partitions: list[DescribeLogDirsPartition] = array("0+")


class DescribeLogDirsPartition(Struct):
    partition_index: int = int32("0+")
    partition_size: int = int64("0+")
    offset_lag: int = int64("0+")
    is_future_key: bool = boolean("0+")
