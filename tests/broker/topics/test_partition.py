"""A partition without a wire: what it takes, what its readers may see, and whom it wakes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.broker.purgatory import Purgatory
from odradek.broker.threads import DiskThreads
from odradek.broker.timers import Timers
from odradek.broker.topics.flusher import Flusher
from odradek.broker.topics.partition import Partition
from odradek.broker.topics.partition_state import READ_COMMITTED, PartitionState, Surroundings
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.records.batch import decode_batch, encode_batch, iter_headers
from odradek.protocol.records.record import Record
from odradek.storage.errors import StorageError
from odradek.storage.log import Log, LogConfig
from odradek.tests.support.clients.raw import batch_of
from odradek.tests.support.fakes.clock import FakeClock

PRODUCE_VERSION = 9
EPOCH = 4


class Woken(Purgatory):
    """Notes who is woken instead of asking anyone: there is no loop here."""

    def __init__(self, timers: Timers) -> None:
        super().__init__(timers)
        self.keys: list[object] = []

    def wake(self, key: object) -> None:
        self.keys.append(key)


class Room:
    """A partition with all that it needs."""

    def __init__(self, directory: Path, **config: Any) -> None:
        self.clock = FakeClock(1_700_000_000_000)
        timers = Timers(self.clock)
        self.purgatory = Woken(timers)
        self.log = Log.open(directory, LogConfig(**config), clean=True, now_ms=0)
        self.failures: list[StorageError] = []
        flusher = Flusher(timers, DiskThreads(timers, self.clock), lambda: None)
        self.partition = Partition(
            "t", 0, EPOCH, Surroundings(self.clock, self.purgatory, flusher.schedule, self.note_failure, lambda: None)
        )
        self.partition.lead(self.log)

    def note_failure(self, _: PartitionState, error: StorageError) -> None:
        self.failures.append(error)

    def append(self, data: bytes) -> int:
        return self.partition.append(memoryview(bytearray(data)), PRODUCE_VERSION).base_offset


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    each = Room(tmp_path / "t-0")
    yield each
    each.log.close()


def rejection(room: Room, data: bytes) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        room.append(data)
    return caught.value.code


def test_offsets_follow_and_the_high_watermark_with_them(room: Room) -> None:
    assert room.append(batch_of(b"a", b"b")) == 0
    assert room.append(batch_of(b"c")) == 2
    assert room.partition.high_watermark == room.log.log_end_offset == 3
    assert room.purgatory.keys == [room.partition, room.partition]


def test_batches_are_written_with_their_offset_and_epoch_and_nothing_else_is_changed(room: Room) -> None:
    batch = batch_of(b"a", b"b")
    room.append(batch)
    room.append(batch)
    found = room.partition.read(0, 1 << 20, 0, True)
    assert found is not None
    data = found.read()
    headers = [header for _, header in iter_headers(data)]
    assert [(each.base_offset, each.partition_leader_epoch) for each in headers] == [(0, EPOCH), (2, EPOCH)]
    assert data[16 : len(batch)] == batch[16:]


@given(cut=st.integers(min_value=0, max_value=90))
def test_what_is_refused_leaves_no_trace(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    room = Room(tmp_path_factory.mktemp("cut") / "t-0")
    whole = batch_of(b"a" * 30)
    room.append(whole)
    rejection(room, whole[: min(cut, len(whole) - 1)])
    assert (room.log.log_end_offset, room.log.size_bytes) == (1, len(whole))
    assert room.partition.high_watermark == 1
    assert len(room.purgatory.keys) == 1
    room.log.close()


def test_a_batch_is_as_large_as_the_topic_allows(room: Room) -> None:
    batch = batch_of(b"x" * 100)
    room.partition.max_message_bytes = len(batch)
    room.append(batch)
    room.partition.max_message_bytes = len(batch) - 1
    assert rejection(room, batch) is ErrorCode.MESSAGE_TOO_LARGE


def test_an_epoch_of_another_leader_is_refused(room: Room) -> None:
    partition = room.partition
    partition.check_epoch(-1)
    partition.check_epoch(EPOCH)
    fenced, unknown = ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH
    for epoch, code in ((EPOCH - 1, fenced), (-2, fenced), (EPOCH + 1, unknown)):
        with pytest.raises(KafkaError) as caught:
            partition.check_epoch(epoch)
        assert caught.value.code is code


@pytest.mark.parametrize("isolation_level", [0, READ_COMMITTED])
def test_readers_see_nothing_past_the_high_watermark(room: Room, isolation_level: int) -> None:
    for value in (b"a", b"b", b"c"):
        room.append(batch_of(value))
    room.partition.high_watermark = 2
    found = room.partition.read(0, 1 << 20, isolation_level, True)
    assert found is not None
    assert [header.base_offset for _, header in iter_headers(found.read())] == [0, 1]
    assert room.partition.read(2, 1 << 20, isolation_level, True) is None


def test_a_read_outside_of_the_log_is_refused(room: Room) -> None:
    room.append(batch_of(b"a"))
    for offset in (-1, 2):
        with pytest.raises(KafkaError) as caught:
            room.partition.read(offset, 100, 0, True)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_with_log_append_time_the_broker_sets_the_time(room: Room) -> None:
    room.partition.log_append_time = True
    appended = room.partition.append(memoryview(bytearray(batch_of(b"a", timestamp_ms=5))), PRODUCE_VERSION)
    assert appended.log_append_time_ms == room.clock.now_ms()
    found = room.partition.read(0, 1 << 20, 0, True)
    assert found is not None
    assert [record.timestamp_ms for record in decode_batch(found.read())] == [room.clock.now_ms()]


def test_a_batch_sent_again_gets_its_first_offset_and_wakes_nobody(room: Room) -> None:
    batches = [batch_of(b"x", producer_id=1, producer_epoch=0, base_sequence=at) for at in range(3)]
    assert [room.append(each) for each in batches] == [0, 1, 2]
    assert [room.append(each) for each in batches] == [0, 1, 2]
    assert len(room.purgatory.keys) == 3
    assert rejection(room, batch_of(b"x", producer_id=1, producer_epoch=0, base_sequence=9)) is (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )


def test_replay_gives_every_record_with_a_key(room: Room) -> None:
    records = [Record(0, 0, b"k1", b"v1"), Record(1, 0, None, b"none"), Record(2, 0, b"k2", None)]
    room.append(encode_batch(records))
    room.append(encode_batch([Record(0, 0, b"k1", b"v2")]))
    assert list(room.partition.replay()) == [(b"k1", b"v1"), (b"k2", None), (b"k1", b"v2")]
