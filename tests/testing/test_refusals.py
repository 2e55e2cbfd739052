"""Responses that carry an error: for every API and version, where a client looks for it."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.broker.network.routes import ROUTES
from odradek.protocol import codec, frame
from odradek.protocol.apis import ApiKey, message
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.schema import Message, Struct, span
from odradek.testing import refusals
from odradek.testing.faults import Fault

ERROR = ErrorCode.REQUEST_TIMED_OUT
VALUES = {"string": "x", "bytes": b"", "records": b"", "bool": True, "uuid": bytes(16), "float64": 1.0}
# Their responses are made by the broker.
MIRRORED = [route for route in ROUTES if not refusals.is_answered_first(route.key)]


def names(_: bytes) -> None:
    return None


def filled(cls: type[Struct], version: int) -> Any:
    """A struct with one entry in each list."""
    made = cls()
    for each in cls.FIELDS:
        if version not in span(each.versions):
            continue
        if each.kind == "array":
            entry = VALUES.get(each.of, 1) if each.of else filled(each.struct(), version)
            setattr(made, each.name, [entry])
        elif each.kind == "struct":
            setattr(made, each.name, filled(each.struct(), version))
        else:
            setattr(made, each.name, VALUES.get(each.kind, 1))
    return made


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
        request = filled(message(route.key, "request"), version)
        response = refusals.refusal(request, version, ERROR, Fault("f"), names)
        data = b"".join(map(bytes, frame.encode_response(1, response, version)))
        _, back = frame.decode_response(data[4:], message(route.key, "response"), version)
        assert ERROR in errors_in(back), (version, response)


def test_a_refusal_names_the_topics_of_its_request() -> None:
    response: Any = refusals.refusal(produce("a", "b"), 9, ERROR, Fault("f"), names)
    assert [(each.name, each.partition_responses[0].index) for each in response.responses] == [("a", 0), ("b", 0)]
    assert response.responses[0].partition_responses[0].base_offset == -1


def test_a_refusal_of_one_topic_leaves_the_rest_of_the_request() -> None:
    fault = Fault("f", topic="a")
    request = produce("a", "b")
    response: Any = refusals.refusal(request, 9, ERROR, fault, names)
    rest: Any = refusals.rest_of(request, fault, names)
    assert [each.name for each in response.responses] == ["a"]
    assert [each.name for each in rest.topic_data] == ["b"]
    assert refusals.rest_of(produce("a"), fault, names) is None


def test_a_refusal_of_one_partition_leaves_the_others() -> None:
    fault = Fault("f", ApiKey.FETCH, topic="a", partition=1)
    request = FetchRequest(topics=[FetchTopic("a", partitions=[FetchPartition(0), FetchPartition(1)])])
    response: Any = refusals.refusal(request, 11, ERROR, fault, names)
    rest: Any = refusals.rest_of(request, fault, names)
    assert [each.partition_index for each in response.responses[0].partitions] == [1]
    assert [each.partition for each in rest.topics[0].partitions] == [0]


def test_an_error_is_put_into_a_response_where_its_topic_is() -> None:
    response: Any = filled(message(ApiKey.METADATA, "response"), 9)
    response.topics[0].error_code = response.topics[0].partitions[0].error_code = 0
    refusals.put_error(response, 9, ERROR, Fault("f", topic="other"), names)
    assert set(errors_in(response)) == {0}
    refusals.put_error(response, 9, ERROR, Fault("f", topic="x"), names)
    assert response.topics[0].error_code == ERROR


def produce(*topics: str) -> Message:
    return ProduceRequest(
        topic_data=[TopicProduceData(each, partition_data=[PartitionProduceData(0)]) for each in topics]
    )


def test_the_requests_of_these_tests_are_whole() -> None:
    assert codec.encode(produce("a"), 9)
