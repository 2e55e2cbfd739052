"""The bytes of Java's own classes: decoded they say the same, encoded again they are the same."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from odradek.protocol import apis, codec
from odradek.protocol.messages import (
    consumer_protocol,
    fetch,
    group_records,
    list_offsets,
    produce,
    share_group_records,
    share_state_records,
    transaction_records,
)
from odradek.protocol.primitives import uuid_to_text
from odradek.protocol.schema import Field, Message, Struct, span
from odradek.tests.support.documents.apis import DECLARED

GOLDEN = Path(__file__).parents[1] / "golden"


def golden_lines() -> Iterator[tuple[str, int, bytes, str]]:
    for version in ("kafka-4.4.0", "kafka-3.9.1"):
        for line in (GOLDEN / version / "java-messages.txt").read_text(encoding="utf-8").splitlines():
            name, number, raw, text = line.split(" ", 3)
            yield name, int(number), bytes.fromhex(raw), text


LINES = list(golden_lines())

CLASSES: dict[str, type[Message]] = {
    cls.__name__: cls
    for cls in (
        *(apis.message(key, kind) for key in DECLARED for kind in ("request", "response")),
        *(getattr(group_records, name) for name in group_records.__all__ if name.endswith(("Key", "Value"))),
        *(
            cls
            for records in (share_group_records, share_state_records)
            for name, cls in vars(records).items()
            if name.startswith("Share")
        ),
        transaction_records.TransactionLogKey,
        transaction_records.TransactionLogValue,
        consumer_protocol.ConsumerProtocolSubscription,
        consumer_protocol.ConsumerProtocolAssignment,
    )
    if isinstance(cls, type)
}


def java_name(name: str) -> str:
    if name == "is_kraft_controller":
        return "isKRaftController"
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def java_value(kind: str, value: Any) -> Any:
    if value is None:
        return None
    if kind in ("bytes", "records"):
        return base64.b64encode(value).decode()
    return uuid_to_text(value) if kind == "uuid" else value


def java_json(value: Struct, version: int) -> dict[str, Any]:
    """The value as Java's JsonConverter would write it."""

    def convert(field: Field, value: Any) -> Any:
        if value is None:
            return None
        if field.kind == "array":
            return [java_value(field.of, one) if field.of else java_json(one, version) for one in value]
        return java_json(value, version) if field.kind == "struct" else java_value(field.kind, value)

    return {
        java_name(field.name): convert(field, getattr(value, field.name))
        for field in type(value).FIELDS
        if version in span(field.versions) and (field.tag is None or getattr(value, field.name) != field.default())
    }


@pytest.mark.parametrize("name", sorted({line[0] for line in LINES}))
def test_a_message_of_java_is_read_and_written_to_the_byte(name: str) -> None:
    for version, raw, text in [line[1:] for line in LINES if line[0] == name]:
        message = codec.decode(CLASSES[name], version, raw)
        assert (version, java_json(message, version)) == (version, json.loads(text))
        assert (version, b"".join(codec.encode(message, version))) == (version, raw)  # type: ignore[arg-type]


def test_every_declared_version_is_among_them(classes: list[type[Message]]) -> None:
    declared = {cls.__name__: {*cls.VERSIONS} for cls in classes}
    assert {name: {version for each, version, _, _ in LINES if each == name} for name in declared} == declared


def full(cls: type[Message], version: int) -> Any:
    raw = next(raw for name, number, raw, _ in LINES if (name, number) == (cls.__name__, version))
    return codec.decode(cls, version, raw)


def test_produce_13_names_topics_by_id() -> None:
    topic = full(produce.ProduceRequest, 13).topic_data[0]
    assert topic.name == ""
    assert len(topic.topic_id) == 16 and any(topic.topic_id)
    assert isinstance(topic.partition_data[0].records, memoryview)


def test_fetch_18_carries_its_tagged_fields() -> None:
    request = full(fetch.FetchRequest, 18)
    assert request.cluster_id == "t\u00e9xt-1"
    assert request.replica_state.replica_id == 3 * 0x01020304
    assert request.topics[0].partitions[0].high_watermark not in (0, 2**63 - 1)


def test_list_offsets_0_answers_with_a_list() -> None:
    partition = full(list_offsets.ListOffsetsResponse, 0).topics[0].partitions[0]
    assert len(partition.old_style_offsets) == 2
    assert (partition.timestamp, partition.offset) == (-1, -1)
