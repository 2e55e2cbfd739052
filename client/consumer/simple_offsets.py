"""Offsets by hand, over one connection: a group's offsets at its coordinator, or in ZooKeeper.

Version 0 of OffsetCommit and OffsetFetch means ZooKeeper, at any broker of a cluster that has one. Later versions mean
the group's coordinator, which the connection must lead to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ...protocol.errors import ErrorCode
from ...protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ...protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ...protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from ..core.connection import Connection
from ..core.metadata import Node
from ..core.options import check_choice
from ..errors import raise_error
from ..record import OffsetAndMetadata, TopicPartition

KAFKA = "kafka"
ZOOKEEPER = "zookeeper"
# The last version with one group and topics by name; and the only one that goes to ZooKeeper.
_LAST_VERSIONS = {KAFKA: 7, ZOOKEEPER: 0}
_LAST_SINGLE_KEY = 3  # FindCoordinator 4 takes several keys


async def find_coordinator(connection: Connection, group: str) -> Node:
    """Return the broker that keeps a group's offsets. Raises KafkaError, retriable while there is none."""
    version = connection.version_for(FindCoordinatorRequest, _LAST_SINGLE_KEY)
    request = FindCoordinatorRequest(key=group)
    found = await connection.request(request, FindCoordinatorResponse, version=version)
    raise_error(found.error_code, found.error_message, f"finding the coordinator of group {group!r}")
    return Node(found.node_id, found.host, found.port, None)


async def commit(
    connection: Connection, group: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], storage: str
) -> None:
    """Commit offsets of a group without members. Raises KafkaError, UnsupportedVersion without that storage."""
    version = _version(connection, OffsetCommitRequest, storage)
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (name, number), given in offsets.items():
        offset = OffsetAndMetadata(given) if isinstance(given, int) else given
        wanted = OffsetCommitRequestPartition(number, offset.offset, committed_metadata=offset.metadata)
        topics.setdefault(name, OffsetCommitRequestTopic(name)).partitions.append(wanted)
    request = OffsetCommitRequest(group, topics=list(topics.values()))
    response = await connection.request(request, OffsetCommitResponse, version=version)
    for topic in response.topics:
        for each in topic.partitions:
            where = f"{topic.name}-{each.partition_index}"
            raise_error(each.error_code, None, f"committing the offset of group {group!r} in {where}")


async def fetch(
    connection: Connection, group: str, partitions: Collection[TopicPartition], storage: str
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """Return the committed offsets, None where there is none. Raises KafkaError, UnsupportedVersion."""
    version = _version(connection, OffsetFetchRequest, storage)
    found: dict[TopicPartition, OffsetAndMetadata | None] = dict.fromkeys(partitions)
    topics: dict[str, OffsetFetchRequestTopic] = {}
    for name, number in found:
        topics.setdefault(name, OffsetFetchRequestTopic(name)).partition_indexes.append(number)
    request = OffsetFetchRequest(group, list(topics.values()))
    response = await connection.request(request, OffsetFetchResponse, version=version)
    raise_error(response.error_code, None, f"reading the offsets of group {group!r}")
    for topic in response.topics:
        for each in topic.partitions:
            # In ZooKeeper an offset that is missing is an error.
            if ErrorCode.of(each.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            where = f"{topic.name}-{each.partition_index}"
            raise_error(each.error_code, None, f"reading the offset of group {group!r} in {where}")
            if each.committed_offset >= 0:
                value = OffsetAndMetadata(each.committed_offset, each.metadata or "", each.committed_leader_epoch)
                found[TopicPartition(topic.name, each.partition_index)] = value
    return found


def _version(connection: Connection, request: type[OffsetCommitRequest | OffsetFetchRequest], storage: str) -> int:
    check_choice("storage", storage, _LAST_VERSIONS)
    return connection.version_for(request, _LAST_VERSIONS[storage])
