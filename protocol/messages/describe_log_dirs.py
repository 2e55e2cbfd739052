"""DescribeLogDirs, API key 35: the data directories, what lies in them, how much room there is.

Version 1 is the first, 2 has tagged fields, 3 brought an error for the whole, 4 the size of the volume and what is
free of it, 5 whether the directory takes new partitions (KIP-1066).
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
