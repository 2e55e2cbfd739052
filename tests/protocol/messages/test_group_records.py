"""Keys and values of __consumer_offsets, as Kafka writes them."""

from __future__ import annotations

import pytest
from odradek.protocol.errors import DecodeError, TruncatedMessage, UnknownVersion
from odradek.protocol.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    Key,
    LegacyOffsetCommitKey,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_versioned,
    encode_key,
    encode_versioned,
)


@pytest.mark.parametrize(
    ("key", "raw"),
    [
        (OffsetCommitKey("g", "t", 7), b"\0\1" + b"\0\1g" + b"\0\1t" + b"\0\0\0\7"),
        (GroupMetadataKey("g"), b"\0\2" + b"\0\1g"),
        (LegacyOffsetCommitKey("g", "t", 7), b"\0\0" + b"\0\1g" + b"\0\1t" + b"\0\0\0\7"),
    ],
)
def test_a_key_stands_behind_its_type(key: Key, raw: bytes) -> None:
    assert encode_key(key) == raw
    decoded = decode_key(raw)
    assert decoded == key and type(decoded) is type(key)


def test_a_key_of_a_newer_kind_of_group_is_left_to_the_reader() -> None:
    assert decode_key(b"\0\3" + b"\0\1g") is None


def test_broken_keys_are_refused() -> None:
    with pytest.raises(TruncatedMessage):
        decode_key(b"\0")
    with pytest.raises(DecodeError):
        decode_key(b"\0\1" + b"\0\1g")


def test_an_offset_has_its_topic_id_as_a_tag_from_version_4() -> None:
    value = OffsetCommitValue(offset=5, leader_epoch=1, metadata="m", commit_timestamp=9, topic_id=b"i" * 16)
    raw = encode_versioned(value, 4)
    assert raw[:2] == b"\0\4"
    assert raw.endswith(b"\1" + b"\0\x10" + b"i" * 16)
    assert decode_versioned(OffsetCommitValue, raw) == value
    assert decode_versioned(OffsetCommitValue, encode_versioned(value, 3)).topic_id == bytes(16)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_a_group_comes_back_at_every_version(version: int) -> None:
    member = MemberMetadata(
        member_id="m",
        group_instance_id="i" if version >= 3 else None,
        client_id="c",
        client_host="/127.0.0.1",
        rebalance_timeout=300 if version else -1,
        session_timeout=45,
        subscription=b"s",
        assignment=b"a",
    )
    group = GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol="range",
        leader=None,
        current_state_timestamp=12 if version >= 2 else -1,
        members=[member],
    )
    assert decode_versioned(GroupMetadataValue, encode_versioned(group, version)) == group


def test_a_value_of_an_unknown_version_is_refused() -> None:
    with pytest.raises(UnknownVersion):
        decode_versioned(OffsetCommitValue, b"\0\5" + bytes(40))
