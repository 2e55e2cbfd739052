"""AlterReplicaLogDirs, API key 34: moves replicas to another data directory of their broker.

Versions: 2 flexible. Kafka 4 has no version 0.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int16, int32, string


class AlterReplicaLogDirsRequest(Message, key=34, versions="1-2", flexible="2+"):
    dirs: list[AlterReplicaLogDir] = array("0+")


class AlterReplicaLogDir(Struct):
    path: str = string("0+")
    topics: list[AlterReplicaLogDirTopic] = array("0+")


class AlterReplicaLogDirTopic(Struct):
    name: str = string("0+")
    partitions: list[int] = array("0+", of="int32")


class AlterReplicaLogDirsResponse(Message, request=AlterReplicaLogDirsRequest):
    throttle_time_ms: int = int32("0+")
    results: list[AlterReplicaLogDirTopicResult] = array("0+")


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str = string("0+")
    partitions: list[AlterReplicaLogDirPartitionResult] = array("0+")


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
