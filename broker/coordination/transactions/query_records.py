"""The records of queries in `__transaction_state`: a type of key of our own, which Kafka steps over (KIP-915)."""

from __future__ import annotations

from ....protocol.codec import decode, decode_versioned, encode_versioned
from ....protocol.messages.odradek_query_records import QueryLogKey, QueryLogValue
from .query import QueryRecord, QueryStanding

KEY_TYPE = 30_000
KEY_VERSION = 0
VALUE_VERSION = 0
_TYPE = KEY_TYPE.to_bytes(2, "big")


def encode(record: QueryRecord) -> tuple[bytes, bytes | None]:
    """Return the key and value of a record."""
    key = _TYPE + encode_versioned(QueryLogKey(record.query_id), KEY_VERSION)[2:]
    standing = record.standing
    if standing is None:
        return key, None
    value = QueryLogValue(standing.run_id, list(standing.former_runs), standing.batch_id, standing.update_ms)
    return key, encode_versioned(value, VALUE_VERSION)


def decode_record(key: bytes, value: bytes | None) -> QueryRecord | None:
    """Return the record, or None for another type of key. DecodeError if the bytes do not fit their type."""
    if key[:2] != _TYPE:
        return None
    query_id = decode(QueryLogKey, KEY_VERSION, key, 2).query_id
    if value is None:
        return QueryRecord(query_id, None)
    found = decode_versioned(QueryLogValue, value)
    standing = QueryStanding(found.run_id, tuple(found.former_runs), found.batch_id, found.last_update_ms)
    return QueryRecord(query_id, standing)
