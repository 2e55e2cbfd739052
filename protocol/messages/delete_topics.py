"""DeleteTopics, API key 20.

Versions: 1 throttle time; 3 may say TOPIC_DELETION_DISABLED; 4 flexible; 5 error message; 6 by name or by topic id.
0 is gone since Kafka 4.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int16, int32, string, uuid


class DeleteTopicsRequest(Message, key=20, versions="1-6", flexible="4+"):
    topics: list[DeleteTopicState] = array("6+")
    topic_names: list[str] = array("0-5", of="string", ignorable=True)
    timeout_ms: int = int32("0+")


class DeleteTopicState(Struct):
    name: str | None = string("6+", nullable="6+", default=None)
    topic_id: bytes = uuid("6+")


class DeleteTopicsResponse(Message, request=DeleteTopicsRequest):
    throttle_time_ms: int = int32("1+", ignorable=True)
    responses: list[DeletableTopicResult] = array("0+")


class DeletableTopicResult(Struct):
    name: str | None = string("0+", nullable="6+")
    topic_id: bytes = uuid("6+", ignorable=True)
    error_code: int = int16("0+")
    error_message: str | None = string("5+", nullable="5+", default=None, ignorable=True)
