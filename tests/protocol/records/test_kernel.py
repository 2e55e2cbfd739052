"""The compiled kernel against Python: equal results and equal errors, whatever the bytes and objects are."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from functools import partial
from itertools import islice
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.client.core.clock import wall_clock_ms
from odradek.client.errors import RecordTooLarge
from odradek.client.producer.appender import Spreader, Turn
from odradek.client.producer.batch import ProducerBatch
from odradek.client.producer.partitioner import Partitioner, murmur2
from odradek.client.producer.preparation import Preparation, Prepared
from odradek.client.record import RecordMetadata, TopicPartition
from odradek.kernel import door
from odradek.protocol.records.columns import RowReader, Shape, decode_columns, decode_records, decode_values
from odradek.protocol.records.errors import InvalidRecord
from odradek.protocol.records.record import Record, encode_records
from odradek.tests.support.brokers.compiled_kernel import needed_kernel, records_by
from odradek.tests.support.seeds import examples

BINARY = st.none() | st.binary(max_size=20) | st.integers(60, 9000).map(lambda size: b"x" * size)
NAMES = st.text(max_size=5) | st.just("\udc80")
HEADERS = st.lists(st.tuples(NAMES, BINARY), max_size=3).map(tuple)
TIMES = st.just(-1) | st.integers(0, 2**40) | st.integers(0, 2**63 - 1)
RECORDS = st.lists(st.builds(Record, st.just(-1), TIMES, BINARY, BINARY, HEADERS), min_size=1, max_size=8)
BASES = st.sampled_from([0, 1, 2**31, 2**50, 2**61, 2**62, 2**63 - 1, -(2**63)])
CHANGES = st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=4)


@pytest.fixture(scope="module")
def compiled() -> ModuleType:
    return needed_kernel()


def outcome(call: Callable[[], Any]) -> object:
    """Return the result, or the type and text of the error."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - whatever it is, the other way must raise it too
        return type(error), str(error)


def same(call: Callable[[], Any]) -> object:
    """Return the outcome, which must be the same both ways."""
    found: list[object] = []
    for way in ("Python", "kernel"):
        with records_by(way):
            found.append(outcome(call))
    assert found[0] == found[1]
    return found[0]


# -- Decode


@given(RECORDS, st.integers(0, 2**40), BASES, BASES)
def test_records_are_decoded_alike_from_any_base(
    compiled: ModuleType, records: list[Record], encoded_from: int, offset: int, time: int
) -> None:
    data, count, _, _ = encode_records(records, 0, encoded_from)
    same(lambda: decode_columns(data, count, offset, time))
    same(lambda: decode_columns(data, count, offset, time, 7))
    same(lambda: list(decode_records(data, count, offset, time)))
    assert same(lambda: decode_values(data, count)) == [record.value for record in records]


@settings(max_examples=examples(400))
@given(RECORDS, CHANGES, st.integers(-1, 9), st.binary(max_size=12))
def test_damaged_bytes_end_alike(
    compiled: ModuleType, records: list[Record], changes: list[tuple[int, int]], count: int, tail: bytes
) -> None:
    body = bytearray(encode_records(records, 0, 0)[0] + tail)
    for at, byte in changes:
        body[at % len(body)] = byte
    data = bytes(body)
    same(lambda: decode_columns(data, count, 5, 1000))
    # Where headers are damaged, the values are still found: neither way looks at headers then.
    same(lambda: decode_values(data, count))


@settings(max_examples=examples(400))
@given(st.binary(max_size=60), st.integers(-3, 9))
def test_any_bytes_end_alike(compiled: ModuleType, data: bytes, count: int) -> None:
    same(lambda: decode_columns(data, count, 0, 0))
    same(lambda: decode_values(data, count))


class Row(NamedTuple):
    """A record with what stands around it."""

    topic: str
    offset: int
    timestamp_ms: int
    number: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


ROW = Shape(Row, ("t",), (7,))
# Many of a kind, as producers send them: with some that are larger, later or unlike the others in between.
RUNS = st.lists(st.tuples(RECORDS.map(lambda some: some[0]), st.sampled_from([1, 2, 9, 70])), min_size=1, max_size=4)


def read(shape: Shape[Any], data: bytes, count: int, most: int, append_time_ms: int | None = None) -> list[Any]:
    reader = RowReader(shape, data, count, 5, 1000, append_time_ms)
    found = reader.read(most)
    while reader.left > 0:
        found += reader.read(most)
    return found


@settings(max_examples=40)
@given(RUNS, st.integers(1, 200), st.none() | st.just(7))
def test_rows_are_made_alike_however_few_are_read_at_a_time(
    compiled: ModuleType, runs: list[tuple[Record, int]], most: int, append_time_ms: int | None
) -> None:
    records = [record for record, times in runs for _ in range(times)]
    data, count, _, _ = encode_records(records, 0, 1000)
    found = same(lambda: read(ROW, data, count, most, append_time_ms))
    times = [record.timestamp_ms if append_time_ms is None else append_time_ms for record in records]
    assert found == [
        Row("t", 5 + number, time, 7, record.key, record.value, record.headers)
        for number, (record, time) in enumerate(zip(records, times, strict=True))
    ]
    assert {type(row) for row in found} == {Row}
    assert same(lambda: decode_columns(data, count, 5, 1000, append_time_ms)) == tuple(
        list(column) for column in zip(*[(row[1], row[2], *row[4:]) for row in found], strict=True)
    )


@settings(max_examples=examples(60))
@given(RUNS, CHANGES, st.integers(1, 200), st.integers(-2, 2))
def test_rows_of_damaged_bytes_end_alike(
    compiled: ModuleType, runs: list[tuple[Record, int]], changes: list[tuple[int, int]], most: int, wrong: int
) -> None:
    data, count, _, _ = encode_records([record for record, times in runs for _ in range(times)], 0, 1000)
    body = bytearray(data)
    for at, byte in changes:
        body[at % len(body)] = byte
    same(lambda: read(ROW, bytes(body), count + wrong, most))


def test_the_garbage_collector_does_not_go_through_rows_of_the_kernel(compiled: ModuleType) -> None:
    data, count, _, _ = encode_records([Record(-1, 0, b"k", b"v", (("h", b"1"),)), Record(-1, 0, b"k", None)], 0, 0)
    with records_by("kernel"):
        assert not any(map(gc.is_tracked, read(ROW, data, count, 2)))
        held = Shape(Row, ("t",), ([],))  # type: ignore[arg-type]
        rows = read(held, data, count, 2)
    assert all(map(gc.is_tracked, rows)), "a list may be part of a cycle, so Python makes the row"


def test_a_cut_anywhere_is_an_error(compiled: ModuleType) -> None:
    records = [Record(-1, 2**35, b"key", b"v" * 200, (("name", b"header"),)), Record(-1, 5, None, b"x" * 300)]
    data, count, _, _ = encode_records(records, 0, 0)
    for end in range(len(data)):
        found = same(lambda end=end: decode_columns(data[:end], count, 0, 0))
        assert isinstance(found, tuple) and found[0] is InvalidRecord
        same(lambda end=end: decode_values(data[:end], count))


@pytest.mark.parametrize("count", [2**31 - 1, 2**62])
def test_a_count_that_the_bytes_cannot_hold_takes_no_memory(compiled: ModuleType, count: int) -> None:
    tracemalloc.start()
    for call in (lambda: decode_columns(bytes(100), count, 0, 0), lambda: decode_values(bytes(100), count)):
        found = same(call)
        assert isinstance(found, tuple) and found[0] is InvalidRecord
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


# -- Encode


@given(RECORDS, st.sampled_from([0, -1, 2**35, 2**63 - 1]), st.lists(st.integers(-1, 20), max_size=8))
def test_records_are_encoded_alike(compiled: ModuleType, records: list[Record], base: int, offsets: list[int]) -> None:
    given = [record._replace(offset=offset) for record, offset in zip(records, offsets, strict=False)]
    same(lambda: encode_records(given, 0, base))
    same(lambda: encode_records(tuple(records), 0, base))


class Text(str):
    """A header name that is no plain str."""


@pytest.mark.parametrize(
    "record",
    [
        Record(-1, 0, bytearray(b"key"), memoryview(b"value")),  # type: ignore[arg-type]
        Record(-1, 0, "text", None),  # type: ignore[arg-type]
        Record(-1, 0, None, 5),  # type: ignore[arg-type]
        Record(-1, -2, None, None),
        Record(-1, 2**63, None, None),
        Record(2**31, 0, None, None),
        Record(2**63, 0, None, None),
        Record(2**70, 0, None, None),
        Record(True, True, b"", b""),
        Record(-1, 1.5, None, None),  # type: ignore[arg-type]
        Record(-1, 0, None, None, (("\ud800", b""),)),
        Record(-1, 0, None, None, ((Text("name"), bytearray(b"x")),)),  # type: ignore[arg-type]
        Record(-1, 0, None, None, ((b"name", b"x"),)),  # type: ignore[arg-type]
        Record(-1, 0, None, None, (("name",),)),  # type: ignore[arg-type]
        Record(-1, 0, None, None, ["ab"]),  # type: ignore[arg-type]
        (1, 2, 3),
        None,
    ],
    ids=range(17),
)
def test_odd_records_are_encoded_or_rejected_alike(compiled: ModuleType, record: object) -> None:
    usual = Record(-1, 0, b"k", b"v")
    for base_timestamp in (0, getattr(record, "timestamp_ms", 0)):
        same(partial(encode_records, [usual, record], 0, base_timestamp))
        same(partial(encode_records, [record, usual], 0, base_timestamp))


# -- Producers


@given(st.binary(max_size=300))
def test_keys_have_the_same_hash(compiled: ModuleType, key: bytes) -> None:
    same(lambda: murmur2(key))


@given(
    st.sampled_from(["t", Text("t")]),
    st.none() | st.binary(max_size=20) | st.binary(max_size=3).map(bytearray) | st.just(5),
    st.none() | st.binary(max_size=20) | st.just("text"),
    st.none() | st.sampled_from([0, 3, True]),
    st.none() | st.sampled_from([-1, 0, 2**40, 2**63 - 1, 2**63]),
    st.sampled_from([(), (("h", b"1"),)]),
    st.sampled_from([36, 50, 10_000]),
)
def test_a_record_is_prepared_alike(
    compiled: ModuleType,
    topic: str,
    key: Any,
    value: Any,
    partition: int | None,
    time_ms: int | None,
    headers: tuple[tuple[str, bytes], ...],
    limit: int,
) -> None:
    none: Any = None
    preparation = Preparation(none, none, none, limit)
    before = wall_clock_ms()

    def prepare() -> object:
        made = preparation.prepare(topic, value, key, partition, time_ms, headers)
        assert type(made) is Prepared and type(made.record) is Record
        if time_ms is None:
            assert before <= made.record.timestamp_ms <= wall_clock_ms()
            return made._replace(record=made.record._replace(timestamp_ms=0))
        return made

    same(prepare)


@given(
    st.sampled_from([-1, 0, 5, 2**61, 2**62]),
    st.sampled_from([-1, 0, 2**40]),
    st.lists(st.tuples(st.integers(0, 2**31), st.sampled_from([0, 2**63 - 1, 2**70, True])), max_size=5),
)
def test_acknowledged_records_get_the_same_places(
    compiled: ModuleType, base_offset: int, append_time_ms: int, records: list[tuple[int, int]]
) -> None:
    batch = ProducerBatch(TopicPartition("t", 3), (0,), 0)
    batch.base_offset, batch.log_append_time_ms = base_offset, append_time_ms
    batch.awaited.indexes, batch.awaited.timestamps_ms = [each[0] for each in records], [each[1] for each in records]
    found: Any = same(lambda: batch.awaited.places(batch))
    assert {type(place) for place in found} <= {RecordMetadata}
    assert found == [
        ("t", 3, base_offset + index if base_offset >= 0 else -1, append_time_ms if append_time_ms >= 0 else time_ms)
        for index, time_ms in records
    ]


ODD_PAIRS = st.sampled_from([(1, b""), b"ab", (b"", b"", b""), None])
PAIRS = st.tuples(BINARY | st.binary().map(bytearray), BINARY) | ODD_PAIRS


@given(st.lists(PAIRS, max_size=20), st.integers(1, 6), st.integers(0, 9_100), st.none() | st.integers(0, 20))
def test_pairs_are_spread_alike(
    compiled: ModuleType, pairs: list[Any], partitions: int, max_bytes: int, raises_at: int | None
) -> None:
    def source() -> Any:
        yield from islice(pairs, raises_at)
        if raises_at is not None:
            raise KeyError(raises_at)

    def spread() -> object:
        spreader = Spreader(source(), Partitioner(1).by_key, max_size=9_000)
        turns: list[object] = []
        while not spreader.ended:
            turn = Turn(partitions, partitions - 1, 5, max_bytes)
            spreader.fill(turn)
            assert turn.size_bytes <= max_bytes or sum(map(len, turn.records)) == 1
            turns.append((turn.records, turn.sizes))
        return turns, repr(spreader.error)

    turns, _ = same(spread)  # type: ignore[misc]
    assert all(type(record) is Record for records, _ in turns for each in records for record in each)


def test_what_came_before_a_bad_pair_is_in_the_turn(compiled: ModuleType) -> None:
    def spread() -> object:
        spreader = Spreader([(b"a", b"1"), (None, b"x" * 100), (b"b", b"2")], Partitioner(1).by_key, max_size=100)
        turn = Turn(1, 0, 5, 1000)
        spreader.fill(turn)
        assert isinstance(spreader.error, RecordTooLarge)
        return turn.records

    assert same(spread) == [[Record(-1, 5, b"a", b"1")]]


def test_a_turn_is_bounded_in_records(compiled: ModuleType) -> None:
    def spread() -> object:
        spreader = Spreader(((None, b"") for _ in range(3000)), Partitioner(1).by_key, max_size=100)
        found: list[int] = []
        while not spreader.ended:
            turn = Turn(2, 1, 5, 10**9)
            spreader.fill(turn)
            found.append(len(turn.records[1]))
        return found

    assert same(spread) == [1024, 1024, 952]


# -- Which one is in use


def test_a_kernel_of_another_interface_is_not_called(compiled: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "odradek.kernel.loops", compiled)
    assert door.find() == (compiled, "")
    monkeypatch.setattr(compiled, "INTERFACE", door.INTERFACE + 1)
    found, why = door.find()
    assert found is None and f"interface {door.INTERFACE + 1}, not {door.INTERFACE}" in why


def test_without_a_kernel_python_is_used_and_says_so() -> None:
    code = (
        "import sys, json; sys.modules['odradek.kernel.loops'] = None\n"
        "from odradek.kernel import door; print(json.dumps([door.compiled, door.record_code()]))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == [None, "Python (the compiled kernel was not built)"]
