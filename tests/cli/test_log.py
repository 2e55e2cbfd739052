"""`odradek log dump` on files as the storage writes them, whole and damaged."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from odradek.broker.coordination.groups.records import OffsetRecord
from odradek.broker.coordination.groups.records import encode as encode_group_record
from odradek.broker.coordination.share_states.records import StateRecord
from odradek.broker.coordination.share_states.records import encode as encode_state_record
from odradek.broker.coordination.share_states.share_state import ShareKey
from odradek.cli import main
from odradek.protocol.messages.group_records import OffsetCommitValue
from odradek.protocol.messages.share_state_records import ShareSnapshotValue, ShareUpdateValue, StateBatch
from odradek.protocol.records.batch import encode_batch, read_header
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.control import ControlType, Marker, encode_marker
from odradek.protocol.records.record import Record
from odradek.storage.producer_snapshot import write_snapshot
from odradek.storage.producers import ProducerStates
from odradek.storage.segments.segment import Segment

NAME = "00000000000000000100"


def dump(path: Path, *args: str) -> Result:
    return CliRunner().invoke(main, ["log", "dump", str(path), *args])


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A segment of three batches with an index entry for each but the first, and a producer's snapshot."""
    batches = [
        encode_batch([Record(100, 1_000, b"k", b"one"), Record(101, 2_000, None, b"two\t")], base_offset=100),
        encode_batch(
            [Record(102, 3_000, b"\xff", None, (("h", b"x"),))],
            base_offset=102,
            compression=Compression.ZSTD,
            producer_id=7,
            producer_epoch=1,
            base_sequence=5,
        ),
        encode_marker(
            Marker(ControlType.COMMIT, 3), producer_id=7, producer_epoch=1, timestamp_ms=4_000, base_offset=103
        ),
    ]
    segment = Segment.create(tmp_path, 100, 0)
    states = ProducerStates()
    for batch in batches:
        segment.append(batch, read_header(batch), 1)
        states.apply(read_header(batch))
    segment.seal()
    segment.release()
    write_snapshot(states, tmp_path, 104, durable=False)
    return tmp_path


def test_batches_one_a_line_tab_separated(directory: Path) -> None:
    result = dump(directory / f"{NAME}.log", "--utc")
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert result.exit_code == 0
    assert [line[:3] for line in lines] == [["100", "101", "2"], ["102", "102", "1"], ["103", "103", "1"]]
    assert lines[1][5:12] == ["zstd", "1970-01-01T00:00:03.000Z", "create", "-1", "7", "1", "5"]
    assert [line[-1] for line in lines] == ["no", "no", "yes"]


def test_records_with_what_is_no_text_escaped(directory: Path) -> None:
    lines = dump(directory / f"{NAME}.log", "--records", "--utc").stdout.splitlines()
    assert lines == [
        "100\t1970-01-01T00:00:01.000Z\tk\tone\t",
        "101\t1970-01-01T00:00:02.000Z\t-\ttwo\\t\t",
        "102\t1970-01-01T00:00:03.000Z\t\\xff\t-\th=x",
        "103\t1970-01-01T00:00:04.000Z\tCOMMIT\tcoordinator epoch 3\t",
    ]


def test_times_have_the_local_zone_or_utc_or_are_numbers(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        times = [
            dump(directory / f"{NAME}.timeindex", *args).stdout.splitlines()[-1].split("\t")[0]
            for args in ((), ("--utc",), ("--epoch",))
        ]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert times == ["1970-01-01T05:30:04.000+05:30", "1970-01-01T00:00:04.000Z", "4000"]
    assert dump(directory / f"{NAME}.timeindex", "--utc", "--epoch").exit_code == 2


def test_records_as_json(directory: Path) -> None:
    rows = [json.loads(line) for line in dump(directory / f"{NAME}.log", "--records", "--json").stdout.splitlines()]
    assert (rows[0]["key"], rows[1]["key"], rows[2]["key"]) == ("k", None, {"base64": "/w=="})
    assert rows[2]["value"] is None


def test_indexes_give_absolute_offsets(directory: Path) -> None:
    offsets = [line.split("\t")[0] for line in dump(directory / f"{NAME}.index").stdout.splitlines()]
    assert offsets == ["102", "103"]
    times = dump(directory / f"{NAME}.timeindex", "--utc").stdout.splitlines()
    assert times[-1] == "1970-01-01T00:00:04.000Z\t103"


def test_snapshot_gives_the_producers_batches(directory: Path) -> None:
    (line,) = dump(directory / "00000000000000000104.snapshot").stdout.splitlines()
    assert line.split("\t")[:6] == ["7", "1", "5", "5", "102", "102"]


def test_zeros_behind_the_entries_of_an_index_say_nothing(directory: Path) -> None:
    path = directory / f"{NAME}.index"
    whole = dump(path).stdout
    with path.open("ab") as file:
        file.write(bytes(80))
    assert dump(path).stdout == whole


def test_a_flipped_bit_is_named_with_its_place_after_what_is_sound(directory: Path) -> None:
    path = directory / f"{NAME}.log"
    data = bytearray(path.read_bytes())
    second = read_header(data).size_bytes
    data[second + 70] ^= 1
    path.write_bytes(data)
    result = dump(path)
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 1
    assert f"{path} at {second}" in result.stderr and "CRC" in result.stderr.upper()


@pytest.mark.parametrize("records", [(), ("--records",)])
def test_a_torn_tail_is_named(directory: Path, records: tuple[str, ...]) -> None:
    path = directory / f"{NAME}.log"
    path.write_bytes(path.read_bytes()[:-3])
    result = dump(path, *records)
    assert result.exit_code == 1 and "torn" in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("none.log", None, "does not exist"),
        ("server.properties", b"", "ends in .log"),
        ("x.index", bytes(8), "base offset in 20 digits"),
        (f"{NAME}.index", bytes(9), "whole number of entries"),
        (f"{NAME}.snapshot", b"garbage", "too short"),
        (f"{NAME}.log", b"garbage", "garbage"),
    ],
)
def test_what_is_none_of_these_files_is_refused_in_one_line(
    tmp_path: Path, name: str, content: bytes | None, why: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    result = dump(path)
    assert result.exit_code == 1 and result.stderr.count("\n") == 1
    assert why in result.stderr or str(path) in result.stderr


def test_nothing_is_changed(directory: Path) -> None:
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.iterdir()}
    for path in directory.iterdir():
        dump(path)
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.iterdir()} == before


def test_records_of_internal_topics_are_dumped_in_words(tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-7"
    folder.mkdir()
    value = OffsetCommitValue(offset=5, metadata="", commit_timestamp=1)
    key, data = encode_group_record(OffsetRecord("g", "t", 0, value))
    records = [Record(0, 1_000, key, data), Record(1, 1_000, key, None), Record(2, 1_000, b"\0\7?", b"other")]
    (folder / f"{NAME}.log").write_bytes(encode_batch(records))
    rows = [json.loads(line) for line in dump(folder / f"{NAME}.log", "--records", "--json").stdout.splitlines()]
    assert rows[0]["key"] == {"type": "offset_commit", "group": "g", "topic": "t", "partition": 0}
    assert rows[0]["value"]["offset"] == 5 and rows[1]["value"] is None
    assert rows[2]["value"] == "other"
    assert '"group": "g"' in dump(folder / f"{NAME}.log", "--records").stdout.splitlines()[0]


def test_states_of_share_groups_are_dumped_in_words(tmp_path: Path) -> None:
    folder = tmp_path / "__share_group_state-7"
    folder.mkdir()
    key, batches = ShareKey("g", b"a" * 16, 3), [StateBatch(6, 9, 2, 1)]
    states = [ShareSnapshotValue(1, 2, 3, 4, 5, 6, 7, batches), ShareUpdateValue(1, 3, 5, 0, []), None]
    pairs = [encode_state_record(StateRecord(key, each)) for each in states]
    records = [Record(number, 1_000, *pair) for number, pair in enumerate(pairs)]
    (folder / f"{NAME}.log").write_bytes(encode_batch(records))
    rows = [json.loads(line) for line in dump(folder / f"{NAME}.log", "--records", "--json").stdout.splitlines()]
    place = {"group_id": "g", "topic_id": "YWFhYWFhYWFhYWFhYWFhYQ", "partition": 3}
    kinds = ("share_snapshot", "share_update", "share_snapshot")
    assert [each["key"] for each in rows] == [{"type": kind, **place} for kind in kinds]
    (batch,) = rows[0]["value"].pop("state_batches")
    assert batch == {"first_offset": 6, "last_offset": 9, "delivery_state": 2, "delivery_count": 1}
    assert (rows[0]["value"]["start_offset"], rows[1]["value"]["start_offset"], rows[2]["value"]) == (4, 5, None)
