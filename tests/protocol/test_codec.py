"""Every message comes back from the wire as it went, and what does not fit a version is refused, not bent."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from odradek.protocol import codec
from odradek.protocol.errors import DecodeError, EncodeError, InvalidField, TooManyValues, TrailingBytes, UnknownVersion
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from odradek.protocol.primitives import encode_uvarint
from odradek.protocol.schema import (
    Message,
    Struct,
    array,
    binary,
    boolean,
    float64,
    int16,
    int32,
    shared_default,
    string,
    struct,
    uint16,
    uint32,
    uuid,
)

Filled = Callable[..., Iterator[Any]]


def encoded(message: Message, version: int) -> bytes:
    return b"".join(codec.encode(message, version))  # type: ignore[arg-type]


@pytest.mark.parametrize("buffer_type", [bytes, bytearray, memoryview])
def test_any_kind_of_buffer_is_read(buffer_type: Callable[[bytes], Any]) -> None:
    message = HeartbeatRequest(group_id="g\u00e9", generation_id=3, member_id="m")
    assert codec.decode(HeartbeatRequest, 4, buffer_type(encoded(message, 4))) == message


def test_every_message_comes_back_at_every_version(cls: type[Message], filled: Filled) -> None:
    for version in cls.VERSIONS:
        for message in filled(cls, version):
            buffer = encoded(message, version)
            assert (version, codec.decode(cls, version, buffer)) == (version, message)
            shifted, end = codec.decoder(cls, version)(b"front" + buffer + b"behind", 5)
            assert (version, shifted, end) == (version, message, 5 + len(buffer))


def test_every_message_has_a_codec_for_its_defaults(classes: list[type[Message]]) -> None:
    for cls in classes:
        for version in cls.VERSIONS:
            assert (version, codec.decode(cls, version, encoded(cls(), version))) == (version, cls())


def test_bytes_behind_the_message_are_refused() -> None:
    buffer = encoded(HeartbeatRequest(), 0)
    with pytest.raises(TrailingBytes, match="offset 8 of 9"):
        codec.decode(HeartbeatRequest, 0, buffer + b"\0")


def test_a_version_that_is_not_declared_is_refused_both_ways() -> None:
    with pytest.raises(UnknownVersion):
        codec.decode(HeartbeatRequest, 5, b"")
    with pytest.raises(EncodeError):
        codec.encode(HeartbeatRequest(), -1)


class TestDefaults:
    def test_a_field_that_the_version_lacks_is_the_schemas_default_not_zero(self) -> None:
        partition = PartitionData(records=b"")
        response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
        decoded = codec.decode(FetchResponse, 4, encoded(response, 4)).responses[0].partitions[0]
        assert decoded.preferred_read_replica == -1
        assert decoded.log_start_offset == -1
        assert decoded.current_leader == LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)

    def test_a_new_message_has_the_schemas_defaults(self) -> None:
        request = FetchRequest()
        assert (request.max_bytes, request.session_epoch, request.replica_id) == (0x7FFFFFFF, -1, -1)
        assert MetadataRequest().allow_auto_topic_creation is True

    def test_a_tagged_field_at_its_default_costs_nothing(self) -> None:
        partition = PartitionProduceResponse(index=1)
        with_leader = PartitionProduceResponse(index=1, current_leader=LeaderIdAndEpoch(2, 3))
        sizes = [
            len(encoded(ProduceResponse([TopicProduceResponse("t", partition_responses=[one])]), 10))
            for one in (partition, with_leader)
        ]
        # Two bytes of tag and size, eight of numbers, one for the struct's own tagged fields.
        assert sizes[1] - sizes[0] == 11

    def test_the_shared_default_of_a_struct_cannot_be_changed(self) -> None:
        first, second = PartitionProduceResponse(), PartitionProduceResponse()
        assert first.current_leader is second.current_leader
        with pytest.raises(EncodeError, match="shared default"):
            first.current_leader.leader_id = 7
        assert second.current_leader.leader_id == -1

    def test_a_message_can_be_copied_and_pickled(self) -> None:
        message = ProduceResponse([TopicProduceResponse("t", partition_responses=[PartitionProduceResponse(1)])])
        for other in (copy.deepcopy(message), pickle.loads(pickle.dumps(message))):
            assert other == message
            assert other.responses[0].partition_responses is not message.responses[0].partition_responses

    def test_lists_are_never_shared(self) -> None:
        ProduceRequest().topic_data.append(TopicProduceData())
        assert ProduceRequest().topic_data == []


class TestWhatTheVersionLacks:
    def test_a_value_that_must_not_be_dropped_is_refused(self) -> None:
        request = FindCoordinatorRequest(key="g", key_type=1)
        with pytest.raises(EncodeError, match=r"FindCoordinatorRequest\.key_type"):
            codec.encode(request, 0)
        assert codec.encode(request, 1)

    def test_an_ignorable_value_is_dropped(self) -> None:
        request = JoinGroupRequest(group_id="g", rebalance_timeout_ms=5000)
        assert codec.decode(JoinGroupRequest, 0, encoded(request, 0)).rebalance_timeout_ms == -1

    def test_a_tagged_field_of_a_later_version_follows_the_same_rule(self) -> None:
        partition = PartitionProduceResponse(current_leader=LeaderIdAndEpoch(1, 1))
        with pytest.raises(EncodeError, match=r"current_leader"):
            codec.encode(ProduceResponse([TopicProduceResponse("t", partition_responses=[partition])]), 9)

    def test_null_where_the_version_has_none_is_refused(self) -> None:
        assert codec.decode(MetadataRequest, 1, encoded(MetadataRequest(topics=None), 1)).topics is None
        with pytest.raises(EncodeError):
            codec.encode(MetadataRequest(topics=None), 0)
        with pytest.raises(EncodeError):
            codec.encode(MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 9)


class TestValuesThatDoNotFit:
    @pytest.mark.parametrize(
        "request_",
        [
            HeartbeatRequest(generation_id=2**31),
            HeartbeatRequest(generation_id="7"),  # type: ignore[arg-type]
            HeartbeatRequest(group_id=b"bytes"),  # type: ignore[arg-type]
            HeartbeatRequest(group_id=None),  # type: ignore[arg-type]
            HeartbeatRequest(group_id="\udc80"),
            HeartbeatRequest(group_id="x" * 32768),
        ],
        ids=["too large", "not a number", "bytes for text", "null", "a lone surrogate", "too long for int16"],
    )
    def test_they_are_encode_errors(self, request_: HeartbeatRequest) -> None:
        with pytest.raises(EncodeError):
            codec.encode(request_, 3)

    def test_a_uuid_of_another_length_is_refused_not_padded(self) -> None:
        with pytest.raises(EncodeError, match="16 bytes"):
            codec.encode(ProduceRequest(topic_data=[TopicProduceData(topic_id=b"short")]), 13)


class FileRange:
    """Stands in for what storage hands over: it has a length and nothing else."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


def fetch_response(*records: Any) -> FetchResponse:
    partitions = [PartitionData(partition_index=i, records=one) for i, one in enumerate(records)]
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])


class TestRecords:
    def test_they_decode_to_a_view_of_the_frame(self) -> None:
        request = ProduceRequest(topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, b"abc")])])
        frame = bytearray(encoded(request, 9))
        records = codec.decode(ProduceRequest, 9, frame).topic_data[0].partition_data[0].records
        assert isinstance(records, memoryview)
        records[0:1] = b"A"
        assert b"Abc" in frame

    def test_a_file_range_passes_through_as_a_piece_of_its_own(self) -> None:
        first, second = FileRange(100), FileRange(1 << 30)
        pieces = codec.encode(fetch_response(first, second), 12)
        assert [type(piece) for piece in pieces] == [bytes, FileRange, bytes, FileRange, bytes]
        assert pieces[1] is first and pieces[3] is second

    def test_a_list_of_ranges_is_spread_out_behind_one_length(self) -> None:
        ranges = [FileRange(70_000), FileRange(80_000)]
        pieces = codec.encode(fetch_response(ranges), 11)
        assert pieces[1:3] == ranges
        assert isinstance(pieces[0], bytes) and pieces[0].endswith((150_000).to_bytes(4, "big"))

    @pytest.mark.parametrize("version", [4, 11, 12, 18])
    def test_small_bytes_are_merged_and_large_ones_are_not(self, version: int) -> None:
        response = fetch_response(b"small")
        response.responses[0].topic = "t" if version < 13 else ""
        assert len(codec.encode(response, version)) == 1
        large = memoryview(bytes(100_000))
        response.responses[0].partitions[0].records = large
        pieces = codec.encode(response, version)
        assert any(piece is large for piece in pieces)
        assert codec.decode(FetchResponse, version, b"".join(pieces)) == response  # type: ignore[arg-type]

    def test_null_and_empty_are_told_apart(self) -> None:
        response = fetch_response(None, b"")
        decoded = codec.decode(FetchResponse, 12, encoded(response, 12)).responses[0].partitions
        assert decoded[0].records is None
        assert decoded[1].records == b""


def test_plain_bytes_are_copies_that_outlive_the_frame() -> None:
    frame = bytearray(encoded(Everything(data=b"kept", optional=Part()), 1))
    data = codec.decode(Everything, 1, frame).data
    frame[:] = bytes(len(frame))
    assert type(data) is bytes and data == b"kept"


# What Kafka's schema language can say and the messages above happen not to.


class Everything(Message, versions="0-2", flexible="1+"):
    yes: bool = boolean("0+", default=True)
    small: int = uint16("0+", default=7)
    wide: int = uint32("0+")
    real: float = float64("0+")
    data: bytes = binary("0+")
    maybe: bytes | None = binary("0+", nullable="1+")
    ids: list[bytes] = array("0+", of="uuid")
    texts: list[str] | None = array("0+", of="string", nullable="0+")
    blobs: list[bytes] = array("0+", of="bytes")
    flags: list[bool] = array("0+", of="bool")
    shorts: list[int] = array("0+", of="int16")
    part: Part = struct("0+")
    optional: Part | None = struct("1+", nullable="2+", default=None, ignorable=True)
    name: str | None = string("1+", nullable="1+", default="-", tag=3)
    more: list[Part] = array("1+", tag=1)
    tagged: Part | None = struct("1+", nullable="1+", default=None, tag=300)


class Part(Struct):
    number: int = int32("0+", default=-5)
    inner: Inner = struct("1+", ignorable=True)
    late: int = int16("2+", default=9, ignorable=True)


class Inner(Struct):
    identity: bytes = uuid("0+")


class TestTheWholeSchemaLanguage:
    @pytest.mark.parametrize("number", [0, 1, 2])
    def test_everything_comes_back(self, number: int, filled: Filled) -> None:
        for message in filled(Everything, number, 4):
            assert codec.decode(Everything, number, encoded(message, number)) == message

    def test_a_null_struct_is_a_byte_below_zero(self) -> None:
        message = Everything(optional=None)
        present = Everything(optional=Part(1, Inner(b"i" * 16), 2))
        assert codec.decode(Everything, 2, encoded(message, 2)).optional is None
        assert codec.decode(Everything, 2, encoded(present, 2)) == present
        with pytest.raises(EncodeError):
            codec.encode(message, 1)  # a struct is expected there

    def test_tagged_fields_are_written_in_the_order_of_their_tags(self) -> None:
        message = Everything(optional=Part(), name=None, more=[Part(1)], tagged=Part(2))
        tail = encoded(message, 1)[len(encoded(Everything(optional=Part()), 1)) - 1 :]
        assert tail[:2] == b"\x03\x01"  # three of them, tag 1 first
        assert tail[-29:-24] == b"\x03\x01\x00\xac\x02"  # tag 3 with one byte, null; then 300 as a varint
        assert codec.decode(Everything, 1, encoded(message, 1)) == message

    def test_unknown_tagged_fields_are_kept_out_of_the_way(self) -> None:
        plain = encoded(HeartbeatRequest("g", 1, "m"), 4)
        unknown = b"\x02" + b"\x00\x00" + b"\xff\xff\x03\x03abc"
        assert codec.decode(HeartbeatRequest, 4, plain[:-1] + unknown) == HeartbeatRequest("g", 1, "m")

    def test_unknown_tagged_fields_stand_beside_known_ones(self) -> None:
        known = encoded(Everything(optional=Part(), name="n"), 1)
        head = known[: -len(b"\x01\x03\x02\x02n")]
        buffer = head + b"\x03" + b"\x02\x01z" + b"\x03\x02\x02n" + b"\x81\x01\x00"
        assert codec.decode(Everything, 1, buffer) == Everything(optional=Part(), name="n")

    def test_a_tagged_field_whose_size_lies_is_refused(self) -> None:
        known = encoded(Everything(optional=Part(), name="n"), 1)
        with pytest.raises(InvalidField, match="name"):
            codec.decode(Everything, 1, known[:-3] + b"\x01\x02n")

    def test_a_count_of_more_than_a_byte(self) -> None:
        message = Everything(texts=["x"] * 300, shorts=list(range(200)), blobs=[b"y" * 200], optional=Part())
        for version in (0, 1, 2):
            expected = (
                message if version else Everything(texts=message.texts, shorts=message.shorts, blobs=message.blobs)
            )
            assert codec.decode(Everything, version, encoded(message, version)) == expected


class TestVersioned:
    def test_a_value_stands_behind_its_version(self) -> None:
        message = HeartbeatRequest("g", 1, "m")
        raw = codec.encode_versioned(message, 3)
        assert raw[:2] == b"\x00\x03"
        assert codec.decode_versioned(HeartbeatRequest, raw) == message

    @pytest.mark.parametrize("raw", [b"", b"\x00", b"\x00\x63", b"\xff\xff"])
    def test_a_missing_or_unknown_version_is_a_decode_error(self, raw: bytes) -> None:
        with pytest.raises(DecodeError):
            codec.decode_versioned(HeartbeatRequest, raw)


def test_a_struct_compares_and_shows_its_fields() -> None:
    assert HeartbeatRequest("g") == HeartbeatRequest(group_id="g")
    assert HeartbeatRequest("g") != HeartbeatRequest("h")
    assert shared_default(LeaderIdAndEpoch) == LeaderIdAndEpoch()
    assert repr(LeaderIdAndEpoch(1, 2)) == "LeaderIdAndEpoch(leader_id=1, leader_epoch=2)"
    with pytest.raises(TypeError, match="unhashable"):
        hash(LeaderIdAndEpoch())
    with pytest.raises(AttributeError):
        LeaderIdAndEpoch().leader = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("left", [0, 1, 5])
def test_values_are_counted_before_they_are_made(left: int) -> None:
    topics = [MetadataRequestTopic(name="t") for _ in range(left)]
    data = b"".join(map(bytes, codec.encode(MetadataRequest(topics=topics), 12)))
    decode = codec.decoder(MetadataRequest, 12)
    assert len(decode(data, 0, left)[0].topics or []) == left
    with pytest.raises(TooManyValues):
        decode(data, 0, left - 1)


def test_no_array_and_no_tagged_section_is_larger_than_kafkas() -> None:
    ids = codec.decoder(DescribeTransactionsRequest, 0)
    for count, is_read in ((1_000_000, True), (1_000_001, False)):
        data = encode_uvarint(count + 1) + bytes(count)
        with pytest.raises(InvalidField if is_read else TooManyValues):
            ids(data, 0)
    empty = b"\x01"
    assert not ids(empty + encode_uvarint(10_000) + b"\x63\x00" * 10_000, 0)[0].transactional_ids
    with pytest.raises(TooManyValues):
        ids(empty + encode_uvarint(10_001) + b"\x63\x00" * 10_001, 0)


def test_values_inside_others_and_unknown_tagged_fields_count_too() -> None:
    nested = OffsetCommitRequest(topics=[OffsetCommitRequestTopic(partitions=[OffsetCommitRequestPartition()] * 3)] * 2)
    data = b"".join(map(bytes, codec.encode(nested, 8)))
    codec.decoder(OffsetCommitRequest, 8)(data, 0, 8)
    with pytest.raises(TooManyValues):
        codec.decoder(OffsetCommitRequest, 8)(data, 0, 7)
    tagged = data[:-1] + b"\x03" + b"\x63\x00" * 3
    codec.decoder(OffsetCommitRequest, 8)(tagged, 0, 11)
    with pytest.raises(TooManyValues):
        codec.decoder(OffsetCommitRequest, 8)(tagged, 0, 10)
