"""Group records against segments of `__consumer_offsets` of a real Kafka 4.3.1.

groups/golden/kafka-4.3.1-one-member.log: a kafka-python consumer had joined group "golden", committed an offset and
left. share_groups/golden/kafka-4.3.1-share-group.log: a member had joined group g2 and left, offsets had been altered
and deleted, and the group had been deleted.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from odradek.broker.coordination.classic.states import GroupState
from odradek.broker.coordination.groups import records
from odradek.broker.coordination.groups.group import Group, GroupLimits
from odradek.broker.coordination.groups.records import GroupRecord, OffsetRecord, PartRecord
from odradek.protocol.codec import encode_versioned
from odradek.protocol.errors import DecodeError
from odradek.protocol.messages import share_group_records as kafka
from odradek.protocol.messages.group_records import GroupMetadataValue, MemberMetadata, OffsetCommitValue
from odradek.protocol.records.batch import decode_batch, iter_headers
from odradek.tests.broker.coordination.classic.world import FakeTopics


def pairs_of(path: str) -> list[tuple[bytes, bytes | None]]:
    segment = (Path(__file__).parents[1] / path).read_bytes()
    return [
        (bytes(record.key or b""), None if record.value is None else bytes(record.value))
        for position, _ in iter_headers(segment)
        for record in decode_batch(segment, position)
    ]


PAIRS = pairs_of("groups/golden/kafka-4.3.1-one-member.log")
OF_SHARES = pairs_of("share_groups/golden/kafka-4.3.1-share-group.log")


def test_records_of_kafka_are_read_and_written_back_byte_by_byte() -> None:
    assert len(PAIRS) == 4 and all(isinstance(records.decode_record(*pair), PartRecord) for pair in OF_SHARES)
    for key, value in PAIRS + OF_SHARES:
        record = records.decode_record(key, value)
        assert record is not None
        assert records.encode(record) == (key, value)


def test_a_share_group_lives_by_kafkas_records() -> None:
    group = Group("g2", GroupLimits(), FakeTopics())
    states: list[tuple[int, int, list[str]]] = []
    for key, value in OF_SHARES:
        record = records.decode_record(key, value)
        assert record is not None
        group.apply(record)
        if group.share is not None and isinstance(record.key, kafka.ShareGroupCurrentMemberAssignmentKey):  # type: ignore[union-attr]
            states.append((group.share.epoch, group.share.assignment_epoch, list(group.share.members)))
    assert states == [(2, 2, ["m1"]), (3, 3, ["m1"]), (3, 3, ["m1"])]
    assert group.share is None and group.is_new()


def test_the_log_of_kafka_makes_the_group_that_kafka_had() -> None:
    group = Group("golden", GroupLimits(), FakeTopics())
    states = []
    for key, value in PAIRS:
        record = records.decode_record(key, value)
        assert record is not None
        group.apply(record)
        states.append((group.state, group.generation, group.protocol_type, group.protocol, len(group.roster)))
    assert states == [
        (GroupState.EMPTY, 0, None, None, 0),
        (GroupState.STABLE, 1, "consumer", "range", 1),
        (GroupState.STABLE, 1, "consumer", "range", 1),
        (GroupState.EMPTY, 2, "consumer", None, 0),
    ]
    committed = group.offsets.get("flights", 0)
    assert committed is not None
    assert (committed.offset, committed.leader_epoch, committed.metadata) == (5, 0, "näh")
    assert committed.topic_id.hex() == "d014ce7de6d34905ac0aa6a072da33c8"


def test_a_commit_with_a_retention_time_is_written_in_version_1() -> None:
    kept = OffsetCommitValue(offset=1, commit_timestamp=10, expire_timestamp=99, leader_epoch=4)
    key, value = records.encode(OffsetRecord("g", "t", 0, kept))
    assert value is not None and value[:2] == b"\x00\x01"
    read = records.decode_record(key, value)
    assert isinstance(read, OffsetRecord) and read.value is not None
    assert (read.value.expire_timestamp, read.value.leader_epoch) == (99, -1)


def test_tombstones_have_no_value() -> None:
    assert records.encode(GroupRecord("g", None)) == (b"\0\2\0\1g", None)
    assert records.encode(OffsetRecord("g", "t", 7, None)) == (b"\0\1\0\1g\0\1t\0\0\0\7", None)
    assert records.decode_record(b"\0\1\0\1g\0\1t\0\0\0\7", None) == OffsetRecord("g", "t", 7, None)


@pytest.mark.parametrize("version", range(4))
def test_older_values_are_read(version: int) -> None:
    member = MemberMetadata("m", client_id="c", client_host="/h", session_timeout=6000, subscription=b"s")
    value = GroupMetadataValue("consumer", 3, "range", "m", members=[member])
    group = Group("g", GroupLimits(), FakeTopics())
    record = records.decode_record(records.group_key("g"), encode_versioned(value, version))
    assert record is not None
    group.apply(record)
    found = group.roster.members["m"]
    # Version 0 has no rebalance timeout: the session timeout takes its place.
    assert (found.session_timeout_ms, found.rebalance_timeout_ms) == (6000, 6000)
    assert found.metadata("range") == b"s"


def test_a_legacy_offset_key_is_read_like_a_new_one() -> None:
    value = encode_versioned(OffsetCommitValue(offset=9), 1)
    record = records.decode_record(b"\0\0\0\1g\0\1t\0\0\0\7", value)
    assert isinstance(record, OffsetRecord)
    assert (record.group_id, record.topic, record.partition) == ("g", "t", 7)


def test_records_of_other_kinds_of_groups_are_recognized() -> None:
    assert records.decode_record(b"\0\x11\0\1g", b"\0\0") is None


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\2", b"\0\2\0\5g", b"\0\1\0\1g\0\1t\0\0", b"\0\2\0\1g!"])
def test_an_unreadable_key_is_a_decode_error_or_another_kind_of_record(key: bytes) -> None:
    with suppress(DecodeError):
        assert records.decode_record(key, None) is None
