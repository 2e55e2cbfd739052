"""Responses that carry an error: for every API and version, where a client looks for it."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.broker.network.routes import ROUTES
from odradek.protocol import codec, frame
from odradek.protocol.apis import ApiKey, message
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.schema import Message, Struct
from odradek.testing import rejections
from odradek.testing.faults import Fault
from odradek.tests.support.documents.messages import filled

ERROR = ErrorCode.REQUEST_TIMED_OUT
# Their responses are made by the broker.
MIRRORED = [route for route in ROUTES if not rejections.is_answered_first(route.key)]


# They have no place for an error.
WITHOUT_ERROR = [(ApiKey.DESCRIBE_LOG_DIRS, version) for version in (1, 2)]


def names(_: bytes) -> None:
    return None


def errors_in(item: Any) -> list[int]:
    """All errors in a message."""
    if not isinstance(item, Struct):
        return []
    own = [getattr(item, name) for name in ("error_code", "partition_error_code") if hasattr(item, name)]
    inner = [getattr(item, each.name) or [] for each in type(item).FIELDS if each.kind == "array"]
    return own + [code for items in inner for each in items for code in errors_in(each)]


@pytest.mark.parametrize("route", MIRRORED, ids=lambda route: route.key.name)
def test_every_response_carries_the_error(route: Any) -> None:
    for version in route.versions:
        if (route.key, version) in WITHOUT_ERROR:
            continue
        request = filled(message(route.key, "request"), version)
        response = rejections.rejection(request, version, ERROR, Fault("f"), names)
        data = b"".join(map(bytes, frame.encode_response(1, response, version)))
        _, back = frame.decode_response(data[4:], message(route.key, "response"), version)
        assert ERROR in errors_in(back), (version, response)


def test_a_rejection_names_the_topics_of_its_request() -> None:
    response: Any = rejections.rejection(produce("a", "b"), 9, ERROR, Fault("f"), names)
    assert [(each.name, each.partition_responses[0].index) for each in response.responses] == [("a", 0), ("b", 0)]
    assert response.responses[0].partition_responses[0].base_offset == -1


def test_a_rejection_of_one_topic_leaves_the_rest_of_the_request() -> None:
    fault = Fault("f", topic="a")
    request = produce("a", "b")
    response: Any = rejections.rejection(request, 9, ERROR, fault, names)
    rest: Any = rejections.rest_of(request, 9, fault, names)
    assert [each.name for each in response.responses] == ["a"]
    assert [each.name for each in rest.topic_data] == ["b"]
    assert rejections.rest_of(produce("a"), 9, fault, names) is None


def test_a_rejection_of_one_partition_leaves_the_others() -> None:
    fault = Fault("f", ApiKey.FETCH, topic="a", partition=1)
    request = FetchRequest(topics=[FetchTopic("a", partitions=[FetchPartition(0), FetchPartition(1)])])
    response: Any = rejections.rejection(request, 11, ERROR, fault, names)
    rest: Any = rejections.rest_of(request, 9, fault, names)
    assert [each.partition_index for each in response.responses[0].partitions] == [1]
    assert [each.partition for each in rest.topics[0].partitions] == [0]


def test_an_error_is_put_into_a_response_where_its_topic_is() -> None:
    response: Any = filled(message(ApiKey.METADATA, "response"), 9)
    response.topics[0].error_code = response.topics[0].partitions[0].error_code = 0
    rejections.put_error(response, 9, ERROR, Fault("f", topic="other"), names)
    assert set(errors_in(response)) == {0}
    rejections.put_error(response, 9, ERROR, Fault("f", topic="x"), names)
    assert response.topics[0].error_code == ERROR


def test_a_rejected_fetch_of_offsets_has_no_offset() -> None:
    topics = [OffsetFetchRequestTopics("a", partition_indexes=[3])]
    old: Any = rejections.rejection(OffsetFetchRequest("g", topics), 1, ERROR, Fault("f"), names)
    assert [(each.partition_index, each.committed_offset) for each in old.topics[0].partitions] == [(3, -1)]
    groups = [OffsetFetchRequestGroup("g", topics=topics)]
    fault = Fault("f", topic="a")
    new: Any = rejections.rejection(OffsetFetchRequest(groups=groups), 8, ERROR, fault, names)
    (group,) = new.groups
    (partition,) = group.topics[0].partitions
    assert (group.error_code, partition.error_code, partition.committed_offset) == (0, ERROR, -1)


def test_the_move_of_replicas_between_directories_is_rejected() -> None:
    moved = [AlterReplicaLogDirTopic(each, [0, 1]) for each in ("a", "b")]
    request = AlterReplicaLogDirsRequest([AlterReplicaLogDir("/d", moved), AlterReplicaLogDir("/e", moved[1:])])
    response: Any = rejections.rejection(request, 2, ERROR, Fault("f", ApiKey.ALTER_REPLICA_LOG_DIRS), names)
    found = [(each.topic_name, [one.error_code for one in each.partitions]) for each in response.results]
    assert found == [("a", [ERROR, ERROR]), ("b", [ERROR, ERROR]), ("b", [ERROR, ERROR])]
    rest: Any = rejections.rest_of(request, 2, Fault("f", topic="b"), names)
    assert [(each.path, [topic.name for topic in each.topics]) for each in rest.dirs] == [("/d", ["a"])]


def produce(*topics: str) -> Message:
    return ProduceRequest(
        topic_data=[TopicProduceData(each, partition_data=[PartitionProduceData(0)]) for each in topics]
    )


def test_the_requests_of_these_tests_are_whole() -> None:
    assert codec.encode(produce("a"), 9)
