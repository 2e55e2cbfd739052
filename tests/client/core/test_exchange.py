"""Frames out of bytes and answers to requests, without a socket."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.client.core.exchange import Exchange, FrameBuffer, api_versions_version
from odradek.client.errors import BadResponse, UnsupportedVersion, ValueOutOfRange
from odradek.protocol import frame
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

FRAMES = st.lists(st.binary(min_size=4, max_size=60), max_size=8)


def feed(buffer: FrameBuffer, data: bytes, steps: list[int]) -> list[bytes | memoryview]:
    """Write `data` into the buffer, as many bytes at a time as `steps` say in turn. Return the frames, no copies."""
    frames: list[bytes | memoryview] = []
    turn = 0
    while data:
        room = buffer.writable()
        assert len(room) > 0
        count = min(len(room), len(data), steps[turn % len(steps)])
        turn += 1
        room[:count] = data[:count]
        data = data[count:]
        frames += buffer.received(count)
    return frames


def framed(bodies: list[bytes]) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


@given(FRAMES, st.lists(st.integers(1, 40), min_size=1, max_size=5))
def test_frames_come_out_whole_however_the_bytes_arrive(bodies: list[bytes], steps: list[int]) -> None:
    # 20 bytes of staging: most of these frames are larger than that and get a buffer of their own.
    assert feed(FrameBuffer(staging_bytes=20), framed(bodies), steps) == bodies


def test_a_frame_that_was_handed_over_is_not_written_to_again() -> None:
    buffer = FrameBuffer(staging_bytes=16)
    [small] = feed(buffer, framed([b"12345678"]), [100])
    [large] = feed(buffer, framed([b"a" * 30]), [100])
    view = memoryview(large)
    feed(buffer, framed([b"z" * 8, b"y" * 40]), [7])
    assert (small, bytes(view)) == (b"12345678", b"a" * 30)


@pytest.mark.parametrize("size", [-1, 0, 3, 101, 0x48545450])
def test_a_length_that_no_broker_sends_ends_it(size: int) -> None:
    buffer = FrameBuffer(limit_bytes=100)
    with pytest.raises(BadResponse, match="not a Kafka broker"):
        feed(buffer, size.to_bytes(4, "big", signed=True), [4])


def answer_bytes(correlation_id: int, message: HeartbeatResponse | ApiVersionsResponse, version: int) -> bytes:
    return b"".join(bytes(piece) for piece in frame.encode_response(correlation_id, message, version))[4:]


def exchange_with(versions: dict[int, tuple[int, int]]) -> Exchange[str]:
    exchange: Exchange[str] = Exchange("test")
    exchange.versions = versions
    return exchange


def test_answers_find_who_asked() -> None:
    exchange = exchange_with({})
    exchange.send(HeartbeatRequest(), 4, HeartbeatResponse, "first")
    exchange.send(HeartbeatRequest(), 0, HeartbeatResponse, "second")
    assert exchange.receive(answer_bytes(0, HeartbeatResponse(error_code=27), 4)) == (
        "first",
        HeartbeatResponse(error_code=27),
    )
    assert exchange.receive(answer_bytes(1, HeartbeatResponse(), 0))[0] == "second"
    assert exchange.in_flight == {}


def test_an_answer_out_of_turn_is_refused() -> None:
    exchange = exchange_with({})
    exchange.send(HeartbeatRequest(), 4, HeartbeatResponse, "first")
    exchange.send(HeartbeatRequest(), 4, HeartbeatResponse, "second")
    with pytest.raises(BadResponse, match="request 1 came where 0 is next"):
        exchange.receive(answer_bytes(1, HeartbeatResponse(), 4))


def test_an_answer_that_was_not_asked_for_is_refused() -> None:
    with pytest.raises(BadResponse, match="where None is next"):
        exchange_with({}).receive(answer_bytes(5, HeartbeatResponse(), 4))


def test_a_garbled_answer_says_which() -> None:
    exchange = exchange_with({})
    exchange.send(HeartbeatRequest(), 4, HeartbeatResponse, "who")
    with pytest.raises(BadResponse, match="Heartbeat version 4"):
        exchange.receive(answer_bytes(0, HeartbeatResponse(), 4) + b"more")


def test_correlation_ids_start_over() -> None:
    exchange = exchange_with({})
    exchange._next_id = 0x7FFFFFFF  # pyright: ignore[reportPrivateUsage]
    exchange.send(HeartbeatRequest(), 4, HeartbeatResponse, "last")
    exchange.send(HeartbeatRequest(), 4, HeartbeatResponse, "first again")
    assert list(exchange.in_flight) == [0x7FFFFFFF, 0]


@pytest.mark.parametrize(
    ("theirs", "at_most", "expected"),
    [((0, 99), None, 13), ((0, 5), None, 5), ((13, 20), None, 13), ((0, 99), 9, 9), ((0, 5), 9, 5)],
)
def test_the_highest_common_version_is_taken(theirs: tuple[int, int], at_most: int | None, expected: int) -> None:
    assert exchange_with({3: theirs}).version_for(MetadataRequest, at_most) == expected


@pytest.mark.parametrize(("theirs", "says"), [((14, 20), "speaks versions 14-20"), (None, "does not offer it")])
def test_no_common_version_names_the_api_and_both_ranges(theirs: tuple[int, int] | None, says: str) -> None:
    exchange = exchange_with({} if theirs is None else {3: theirs})
    with pytest.raises(UnsupportedVersion, match=f"Metadata: the broker {says}, this client versions 0-13") as caught:
        exchange.version_for(MetadataRequest)
    assert (caught.value.api, caught.value.theirs, caught.value.retriable) == ("Metadata", theirs, False)


def test_a_value_that_does_not_fit_its_field_is_an_error_of_the_client() -> None:
    exchange = exchange_with({})
    with pytest.raises(ValueOutOfRange, match="a value does not fit the request: MetadataRequest"):
        exchange.send(MetadataRequest([MetadataRequestTopic(name="x" * 40_000)]), 1, MetadataResponse, "who")
    assert not exchange.in_flight


def test_a_refused_version_is_read_in_the_form_of_version_0() -> None:
    exchange = exchange_with({})
    exchange.send(ApiVersionsRequest(), 4, ApiVersionsResponse, "who")
    rejection = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[ApiVersion(18, 0, 3)])
    _, answer = exchange.receive(answer_bytes(0, rejection, 0))
    assert isinstance(answer, ApiVersionsResponse)
    assert api_versions_version(answer) == 3


@pytest.mark.parametrize(("offered", "version"), [([], 0), ([(18, 0, 2)], 2), ([(18, 0, 9)], 5), ([(3, 0, 9)], 0)])
def test_the_second_try_goes_by_what_the_rejection_lists(offered: list[tuple[int, int, int]], version: int) -> None:
    assert api_versions_version(ApiVersionsResponse(api_keys=[ApiVersion(*each) for each in offered])) == version


def large(fill: bytes) -> bytes:
    return fill * 100_000


def test_the_memory_of_a_large_frame_is_used_again_when_nobody_reads_it() -> None:
    buffer = FrameBuffer()
    (first,) = feed(buffer, framed([large(b"a")]), [100_004])
    held = memoryview(first)[10:20]
    del first
    (second,) = feed(buffer, framed([large(b"b")]), [100_004])
    assert bytes(held) == b"a" * 10 and bytes(second) == large(b"b")
    memory = id(memoryview(second).obj)
    del second
    (third,) = feed(buffer, framed([b"c" * 90_000]), [90_004])
    assert bytes(third) == b"c" * 90_000 and len(third) == 90_000
    assert id(memoryview(third).obj) == memory
    del third
    (fourth,) = feed(buffer, framed([large(b"d")]), [100_004])
    assert bytes(fourth) == large(b"d") and bytes(held) == b"a" * 10


def test_a_frame_that_is_in_use_is_not_written_to_where_a_lone_name_counts_as_one_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python 3.14 counts so, earlier ones count two: who holds a frame is no matter of reference counts."""
    counted = sys.getrefcount
    monkeypatch.setattr(sys, "getrefcount", lambda each: counted(each) - 2)
    buffer = FrameBuffer()
    held = feed(buffer, framed([large(b"a")]), [100_004])
    feed(buffer, framed([large(b"b")]), [100_004])
    feed(buffer, framed([large(b"c")]), [100_004])
    assert held == [large(b"a")]


@pytest.mark.parametrize("hold", [memoryview, np.frombuffer, pa.py_buffer, lambda frame: memoryview(frame)[5:]])
def test_each_kind_of_view_keeps_the_memory_of_its_frame(hold: Callable[..., Any]) -> None:
    buffer = FrameBuffer()
    held = hold(feed(buffer, framed([large(b"a")]), [100_004])[0])
    for fill in (b"b", b"c", b"d"):
        feed(buffer, framed([large(fill)]), [100_004])
    assert set(bytes(memoryview(held))) == {ord("a")}


def test_reading_large_frames_one_after_another_takes_one_piece_of_memory() -> None:
    buffer, places = FrameBuffer(), set[int]()
    for _ in range(20):
        (frame,) = feed(buffer, framed([large(b"x")]), [100_004])
        places.add(id(memoryview(frame).obj))
        del frame
    assert len(places) <= 2
