from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from random import Random
from sys import getsizeof

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records.batch import BatchHeader
from odradek.protocol.records.crc import crc32c
from odradek.storage import producers
from odradek.storage.errors import DamagedFile
from odradek.storage.producer_snapshot import decode as decode_snapshot
from odradek.storage.producer_snapshot import encode as encode_snapshot
from odradek.storage.producer_snapshot import load_snapshot, snapshot_offsets, snapshot_path, write_snapshot
from odradek.storage.producers import Duplicate, InvalidProducerEpoch, OutOfOrderSequence, Producer, ProducerStates

MAX_INT32 = 2**31 - 1
TRANSACTIONAL, CONTROL = 0x10, 0x20
# A high watermark behind all.
_END = 1_000


def header(
    sequence: int,
    count: int = 1,
    *,
    offset: int = 0,
    epoch: int = 0,
    producer_id: int = 9,
    timestamp_ms: int = 0,
    attributes: int = 0,
) -> BatchHeader:
    delta = count - 1
    return BatchHeader(
        offset, 49, 0, 2, 0, attributes, delta, timestamp_ms, timestamp_ms, producer_id, epoch, sequence, count
    )  # fmt: skip


def written(*headers: BatchHeader) -> ProducerStates:
    states = ProducerStates()
    for each in headers:
        assert states.check(each) is None
        states.apply(each)
    return states


def test_batches_without_a_producer_are_ignored() -> None:
    states = written(header(-1, producer_id=-1, epoch=-1), header(-1, producer_id=-1, epoch=-1))
    assert len(states) == 0


@pytest.mark.parametrize("sequence", [0, 1, 77, MAX_INT32])
def test_an_unknown_producer_may_start_anywhere(sequence: int) -> None:
    assert written(header(sequence)).check(header((sequence + 1) & MAX_INT32)) is None


@pytest.mark.parametrize("sequence", [2, 4, 100])
def test_a_sequence_that_does_not_follow_is_out_of_order(sequence: int) -> None:
    states = written(header(0, 3))
    with pytest.raises(OutOfOrderSequence, match="where 3 was due") as caught:
        states.check(header(sequence))
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_last_five_batches_are_known_again_and_the_sixth_is_out_of_order() -> None:
    sent = [header(3 * n, 3, offset=100 + 3 * n, timestamp_ms=50 + n) for n in range(6)]
    states = written(*sent)
    for n in range(1, 6):
        assert states.check(sent[n]) == Duplicate(100 + 3 * n, 102 + 3 * n, 50 + n)
    with pytest.raises(OutOfOrderSequence):
        states.check(sent[0])


def test_a_part_of_a_batch_or_more_than_one_is_no_duplicate() -> None:
    states = written(header(0, 3), header(3, 3))
    for other in (header(0, 2), header(1, 2), header(0, 6)):
        with pytest.raises(OutOfOrderSequence):
            states.check(other)


@pytest.mark.parametrize("count", [1, 2, 3, 10])
def test_sequences_wrap_to_zero(count: int) -> None:
    first = header(MAX_INT32 - 1, count, offset=5)
    states = written(header(MAX_INT32 - 2), first)
    assert states.check(first) == Duplicate(5, 4 + count, 0)
    after = (MAX_INT32 - 1 + count) & MAX_INT32
    assert after == count - 2 if count > 1 else MAX_INT32
    assert states.check(header(after)) is None
    with pytest.raises(OutOfOrderSequence):
        states.check(header(after + 1 & MAX_INT32))


def test_a_new_epoch_starts_at_zero_and_forgets_the_old_batches() -> None:
    states = written(header(0, 5), header(5, 5))
    with pytest.raises(OutOfOrderSequence, match="where 0 was due"):
        states.check(header(10, epoch=1))
    fresh = header(0, 5, epoch=1, offset=10)
    assert states.check(fresh) is None
    states.apply(fresh)
    assert states.check(fresh) == Duplicate(10, 14, 0)
    assert states.check(header(5, epoch=1)) is None


def test_no_producer_begins_below_all_epochs() -> None:
    with pytest.raises(InvalidProducerEpoch):
        ProducerStates().check(header(0, epoch=-2))


def test_an_older_epoch_is_fenced_even_for_a_duplicate() -> None:
    old = header(0, epoch=3)
    states = written(old, header(0, epoch=4))
    with pytest.raises(InvalidProducerEpoch) as caught:
        states.check(old)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    # An unknown producer has the epoch -1, so that -2 is older, as in Kafka.
    assert ProducerStates().check(header(0, epoch=-1)) is None
    with pytest.raises(InvalidProducerEpoch):
        ProducerStates().check(header(0, epoch=-2))


def test_no_batch_overtakes_one_that_waits_for_the_word_of_a_coordinator() -> None:
    states = ProducerStates()
    for sequence in (3, 5):
        states.ask(header(sequence), sequence)
    # As Kafka: the batch before was refused for now, and comes again.
    with pytest.raises(OutOfOrderSequence):
        states.check(header(5))
    assert states.check(header(5, epoch=1)) is None and states.check(header(5, producer_id=1)) is None
    assert states.check(header(3, 2)) is None
    states.apply(header(3, 2))
    assert states.check(header(5)) is None


def test_a_producer_that_was_forgotten_goes_on_behind_what_its_coordinator_was_asked_about() -> None:
    states = written(header(0))
    states.ask(header(1), 1)
    states.apply(header(1))
    assert states.expire(now_ms=1000, expiration_ms=1000) == 1
    states.ask(header(2), 2)
    assert states.check(header(2)) is None


def test_an_epoch_known_by_a_marker_alone_starts_at_zero() -> None:
    states = written(header(0, attributes=TRANSACTIONAL))
    states.apply(header(-1, epoch=1, attributes=TRANSACTIONAL | CONTROL), coordinator_epoch=4)
    with pytest.raises(OutOfOrderSequence):
        states.check(header(1, epoch=1))
    assert states.check(header(0, epoch=1)) is None


def test_an_open_transaction_holds_the_first_undecided_offset_until_its_marker() -> None:
    states = written(
        header(0, 2, offset=10, attributes=TRANSACTIONAL),
        header(0, offset=12, producer_id=8, attributes=TRANSACTIONAL),
        header(2, 2, offset=13, attributes=TRANSACTIONAL),
    )
    assert states.first_undecided_offset(_END) == 10
    states.apply(header(-1, offset=15, attributes=TRANSACTIONAL | CONTROL), coordinator_epoch=1)
    # A leader without the marker would have it open again.
    assert [states.first_undecided_offset(end) for end in (14, 15, 16)] == [10, 10, 12]
    states.apply(header(-1, offset=16, producer_id=8, attributes=TRANSACTIONAL | CONTROL), coordinator_epoch=1)
    assert [states.first_undecided_offset(end) for end in (16, 17)] == [12, None]
    assert states.check(header(4)) is None


def test_of_very_many_transactions_that_are_not_replicated_none_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers, "_MOST_ENDED", 3)
    states = ProducerStates()
    for offset in range(0, 20, 2):
        states.apply(header(0, offset=offset, producer_id=offset, attributes=TRANSACTIONAL))
        states.apply(header(-1, offset=offset + 1, producer_id=offset, attributes=TRANSACTIONAL | CONTROL))
    assert [states.first_undecided_offset(end) for end in (1, 15, 16, 18, 20)] == [0, 0, 16, 18, None]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12, unique=True), st.randoms(use_true_random=False))
def test_what_is_undecided_is_the_first_of_all_whose_markers_are_not_replicated(
    firsts: list[int], chance: Random
) -> None:
    states, begun = ProducerStates(), sorted(firsts)
    for producer_id, first in enumerate(begun):
        states.apply(header(0, offset=first, producer_id=producer_id, attributes=TRANSACTIONAL))
    ended = list(enumerate(chance.sample(range(len(begun)), len(begun)), 100))
    for offset, producer_id in ended:
        states.apply(header(-1, offset=offset, producer_id=producer_id, attributes=TRANSACTIONAL | CONTROL))
    for end in range(100, 100 + len(begun) + 1):
        expected = min((begun[producer_id] for offset, producer_id in ended if offset >= end), default=None)
        assert states.first_undecided_offset(end) == expected


def test_silent_producers_expire_unless_a_transaction_is_open() -> None:
    states = written(
        header(0, producer_id=1, timestamp_ms=100),
        header(0, producer_id=2, timestamp_ms=200),
        header(0, producer_id=3, timestamp_ms=100, attributes=TRANSACTIONAL),
    )
    assert states.expire(now_ms=1100, expiration_ms=1001) == 0
    assert states.expire(now_ms=1100, expiration_ms=1000) == 1
    assert [producer_id for producer_id, _ in states.items()] == [2, 3]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 32 producers, of which two go at once."""
    monkeypatch.setattr(producers, "PRODUCERS_MAX", 32)
    monkeypatch.setattr(producers, "FORGOTTEN_AT_ONCE", 2)


@pytest.mark.usefixtures("few")
def test_their_number_is_bounded_and_the_longest_silent_go_first() -> None:
    states = written(*(header(0, producer_id=n, timestamp_ms=1000 - n) for n in range(32)))
    states.apply(header(0, producer_id=99, timestamp_ms=5))
    assert len(states) == 31
    assert {n for n, _ in states.items()} == {*range(30), 99}


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(("closed", "left"), [(0, 33), (1, 32), (2, 31), (9, 31)])
def test_an_open_transaction_keeps_its_producer_however_many_there_are(closed: int, left: int) -> None:
    states = ProducerStates()
    for n in range(32):
        # Those whose transaction is over were heard last of all.
        open_here = n < 32 - closed
        states.apply(header(0, producer_id=n, offset=n, timestamp_ms=n, attributes=TRANSACTIONAL * open_here))
    states.apply(header(0, producer_id=99, offset=99, timestamp_ms=99))
    assert len(states) == left
    assert {n for n, _ in states.items()} >= {*range(32 - closed), 99}
    assert states.first_undecided_offset(_END) == 0


def test_producers_that_were_seen_take_no_more_than_their_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PRODUCERS_MAX", "FORGOTTEN_AT_ONCE"):
        monkeypatch.setattr(producers, name, getattr(producers, name) // 16)
    states, most = ProducerStates(), 0
    seen = 3 * producers.PRODUCERS_MAX
    # What an idempotent batch of one record is, but for what a producer is known by.
    before, between = (0, 49, 0, 2, 0, 0, 0, 0), (0, 0, 1)
    for n in range(seen):
        states.apply(BatchHeader(*before, n, n, *between), n)
        if not n & 63:
            most = max(most, len(states))
    assert most <= producers.PRODUCERS_MAX
    # Who was heard last is known, and room is made for thousands at once.
    known = [n for n, _ in states.items()]
    assert known == list(range(seen - len(known), seen))
    assert len(known) >= producers.PRODUCERS_MAX - producers.FORGOTTEN_AT_ONCE
    assert max(map(bytes_of, islice(states.items(), 100))) < 640


def test_a_producer_takes_no_more_however_much_it_writes() -> None:
    states = written(*(header(n, offset=10**9 + n, timestamp_ms=10**12) for n in range(2**20, 2**20 + 5)))
    (after_five,) = map(bytes_of, states.items())
    for n in range(2**20 + 5, 2**20 + 1000):
        states.apply(header(n, offset=10**9 + n, timestamp_ms=10**12))
    assert [*map(bytes_of, states.items())] == [after_five]
    assert after_five < 1536


def bytes_of(item: object, seen: set[int] | None = None) -> int:
    """What it takes with all that it holds."""
    seen = set() if seen is None else seen
    if id(item) in seen:
        return 0
    seen.add(id(item))
    parts = item if isinstance(item, tuple | list) else ()
    if isinstance(item, Producer):
        parts = [getattr(item, name) for name in Producer.__slots__]
    return getsizeof(item) + sum(bytes_of(each, seen) for each in parts)


# -- snapshots ---------------------------------------------------------------------------------------

entries = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.integers(0, 3),
        st.integers(0, MAX_INT32),
        st.integers(1, 100),
        st.sampled_from([0, TRANSACTIONAL]),
    ),
    max_size=40,
)


@given(entries)
def test_a_snapshot_restores_the_state_of_all_producers(entries: list[tuple[int, int, int, int, int]]) -> None:
    states = ProducerStates()
    for offset, (producer_id, epoch, sequence, count, attributes) in enumerate(entries):
        states.apply(
            header(
                sequence,
                count,
                offset=offset * 100,
                epoch=epoch,
                producer_id=producer_id,
                timestamp_ms=offset,
                attributes=attributes,
            )
        )
    again = decode_snapshot(encode_snapshot(states), Path("x"))
    assert dict(again.items()) == dict(states.items())
    assert again.first_undecided_offset(_END) == states.first_undecided_offset(_END)
    assert encode_snapshot(again) == encode_snapshot(states)


def test_the_bytes_are_kafkas() -> None:
    states = written(header(5, 3, offset=100, epoch=2, producer_id=0x1234, timestamp_ms=77))
    body = bytes.fromhex(
        "00000001"  # one entry
        "0000000000001234 0002 00000007 0000000000000066 00000002 000000000000004d ffffffff ffffffffffffffff"
    )
    assert encode_snapshot(states) == b"\0\1" + crc32c(body).to_bytes(4, "big") + body


def test_a_producer_without_batches_is_written_as_kafka_does() -> None:
    states = ProducerStates()
    states.apply(header(-1, offset=3, attributes=TRANSACTIONAL | CONTROL, timestamp_ms=6), coordinator_epoch=2)
    assert encode_snapshot(states)[10:] == bytes.fromhex(
        "0000000000000009 0000 ffffffff ffffffffffffffff 00000000 0000000000000006 00000002 ffffffffffffffff"
    )
    assert dict(decode_snapshot(encode_snapshot(states), Path("x")).items()) == dict(states.items())


def test_every_flipped_bit_and_every_cut_of_a_snapshot_is_damage() -> None:
    good = encode_snapshot(written(header(0, 2), header(2, 2, offset=2)))
    for position in range(len(good)):
        for bit in range(8):
            bad = bytearray(good)
            bad[position] ^= 1 << bit
            with pytest.raises(DamagedFile, match="x at"):
                decode_snapshot(bytes(bad), Path("x"))
        with pytest.raises(DamagedFile):
            decode_snapshot(good[:position], Path("x"))


@pytest.mark.parametrize("count", [1, 4])
def test_after_a_batch_without_a_sequence_comes_zero_also_from_a_snapshot(count: int) -> None:
    states = ProducerStates()
    states.apply(header(-1, count, offset=7, attributes=TRANSACTIONAL))
    for each in states, decode_snapshot(encode_snapshot(states), Path("x")):
        known = each.get(9)
        assert known is not None and known.last_sequence == -1
        assert known.batches == [(-1, 7 + count - 1, count - 1, 0)]
        assert each.check(header(0, attributes=TRANSACTIONAL)) is None
        with pytest.raises(OutOfOrderSequence, match="came where 0 was due"):
            each.check(header(count, attributes=TRANSACTIONAL))


def test_the_newest_sound_snapshot_at_or_below_the_offset_is_taken(tmp_path: Path) -> None:
    for offset in (10, 20, 30):
        write_snapshot(written(header(offset)), tmp_path, offset, durable=True)
    snapshot_path(tmp_path, 20).write_bytes(b"damaged")
    states, offset = load_snapshot(tmp_path, 25)
    assert offset == 10
    assert states.check(header(11)) is None
    assert snapshot_offsets(os.listdir(tmp_path)) == [10]
    assert load_snapshot(tmp_path, 9)[1] is None


def test_few_snapshots_are_kept(tmp_path: Path) -> None:
    for offset in range(0, 100, 10):
        write_snapshot(ProducerStates(), tmp_path, offset, durable=False)
    assert snapshot_offsets(os.listdir(tmp_path)) == [70, 80, 90]


def test_a_producer_is_silent_from_when_it_was_heard_not_from_the_time_of_its_records() -> None:
    states = ProducerStates()
    states.apply(header(0, timestamp_ms=5), now_ms=10_000)
    assert states.expire(10_999, 1000) == 0
    assert states.expire(11_000, 1000) == 1
