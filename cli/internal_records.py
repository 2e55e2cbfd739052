"""The broker's own records in words: keys and values of the internal topics.

Fields have the names of Kafka's formats, and times are milliseconds. A record of a kind that this version does not know
stays as it is.
"""

from __future__ import annotations

import re
from base64 import b64encode
from contextlib import suppress
from typing import Any, cast

from ..broker.coordination.groups import records as group_records
from ..broker.coordination.share_states import records as share_records
from ..broker.coordination.transactions import query_records
from ..broker.coordination.transactions import records as transaction_records
from ..broker.topics.topic_names import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from ..protocol.errors import DecodeError
from ..protocol.messages import consumer_protocol
from ..protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from ..protocol.messages.group_records import GroupMetadataValue, MemberMetadata, OffsetCommitValue
from ..protocol.primitives import ZERO_UUID, uuid_to_text
from ..protocol.schema import Struct

Fields = dict[str, Any]
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


def decode(topic: str, key: bytes | None, value: bytes | None) -> tuple[Fields, Fields | None] | None:
    """Return key and value of a record of an internal topic as fields, or None if they cannot be read."""
    if key is None:
        return None
    read = _OF_TOPIC.get(topic, _of_transaction)
    try:
        return read(key, value)
    except DecodeError:
        return None


def _of_group(key: bytes, value: bytes | None) -> tuple[Fields, Fields | None] | None:
    record = group_records.decode_record(key, value)
    if record is None:
        return None
    if isinstance(record, group_records.GroupRecord):
        return {"type": "group_metadata", "group": record.group_id}, record.value and _generation(record.value)
    if isinstance(record, group_records.PartRecord):
        return _of_part(record)
    assert isinstance(record, group_records.OffsetRecord)
    found = {"type": "offset_commit", "group": record.group_id, "topic": record.topic, "partition": record.partition}
    return found, record.value and _commit(record.value)


def _of_part(record: group_records.PartRecord) -> tuple[Fields, Fields | None]:
    """Return a part of a consumer or share group. Its type is the format: `consumer_group_member_metadata`."""
    words = _CAPITAL.sub("_", type(record.key).__name__.removesuffix("Key")).lower()
    return {"type": words, **_plain(record.key)}, record.value and _plain(record.value)


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return {name: _plain(each) for name, each in _fields(value).items()}
    if isinstance(value, list):
        return [_plain(each) for each in cast("list[Any]", value)]
    if not isinstance(value, bytes):
        return value
    return uuid_to_text(value) if len(value) == len(ZERO_UUID) else {"base64": b64encode(value).decode()}


def _commit(value: OffsetCommitValue) -> Fields:
    return _fields(value) | {"topic_id": None if value.topic_id == ZERO_UUID else uuid_to_text(value.topic_id)}


def _generation(value: GroupMetadataValue) -> Fields:
    return _fields(value) | {"members": [_member(each, value.protocol_type) for each in value.members]}


def _member(member: MemberMetadata, protocol_type: str) -> Fields:
    row = _fields(member)
    for name, cls in (("subscription", ConsumerProtocolSubscription), ("assignment", ConsumerProtocolAssignment)):
        row[name] = _consumers(cls, row[name], protocol_type)
    return row


def _consumers(cls: type[ConsumerProtocolSubscription | ConsumerProtocolAssignment], data: bytes, kind: str) -> Any:
    """Return what a consumer told its group, or the bytes in base 64 if the member is none."""
    if kind == "consumer" and data:
        with suppress(DecodeError):
            found = consumer_protocol.decode_versioned(cls, data)
            if isinstance(found, ConsumerProtocolAssignment):
                return _partitions(found.assigned_partitions)
            return {"topics": found.topics, "owned_partitions": _partitions(found.owned_partitions)}
    return {"base64": b64encode(data).decode()}


def _partitions(found: list[consumer_protocol.TopicPartition]) -> list[str]:
    return [f"{each.topic}-{number}" for each in found for number in each.partitions]


def _fields(value: Struct) -> Fields:
    return {field.name: getattr(value, field.name) for field in type(value).FIELDS}


def _of_transaction(key: bytes, value: bytes | None) -> tuple[Fields, Fields | None] | None:
    record = transaction_records.decode_record(key, value)
    if record is None:
        return _of_query(key, value)
    found = {"type": "transaction", "transactional_id": record.transactional_id}
    if record.standing is None:
        return found, None
    row = record.standing._asdict()
    row["state"] = record.standing.state.value
    row["partitions"] = [f"{topic}-{number}" for topic, number in sorted(record.standing.partitions)]
    del row["last_producer_epoch"]  # the format does not have it
    return found, row


def _of_query(key: bytes, value: bytes | None) -> tuple[Fields, Fields | None] | None:
    record = query_records.decode_record(key, value)
    if record is None:
        return None
    found = {"type": "query", "query": record.query_id}
    return found, None if record.standing is None else record.standing._asdict()


def _of_share_state(key: bytes, value: bytes | None) -> tuple[Fields, Fields | None] | None:
    record = share_records.decode_record(key, value)
    if record is None:
        return None
    kind = "share_update" if int.from_bytes(key[:2], "big") == share_records.UPDATE_KEY else "share_snapshot"
    found = {"type": kind, **record.key._asdict(), "topic_id": uuid_to_text(record.key.topic_id)}
    return found, record.value and _plain(record.value)


_OF_TOPIC = {OFFSETS_TOPIC: _of_group, SHARE_STATE_TOPIC: _of_share_state}
