"""Bytes of Kafka's own Java classes: we read what they wrote, and (where the jars are) they read what we write.

tests/golden/records/java.jsonl comes from tools/GoldenRecords.java, which tells how to make it again.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import pytest
from odradek.protocol.records import batch, legacy
from odradek.protocol.records.batch import TimestampType
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.control import ControlType, Marker, control_type, encode_marker, read_marker
from odradek.protocol.records.record import Record
from odradek.tests.support.clients.others import jars, require

ROOT = Path(__file__).parents[3]
LINES = [json.loads(line) for line in (ROOT / "tests/golden/records/java.jsonl").read_text().splitlines()]
GOLDEN = {line["name"]: line for line in LINES}
BASE = 1_700_000_000_000


def as_json(records: list[Record]) -> list[list[object]]:
    """Records in the notation of the golden file."""

    def text(data: bytes | None) -> str | None:
        if data is None:
            return None
        return data.hex() if len(data) <= 1000 else "sha256:" + hashlib.sha256(data).hexdigest()

    return [
        [r.offset, r.timestamp_ms, text(r.key), text(r.value), [[k, text(v)] for k, v in r.headers]] for r in records
    ]


def decode(data: bytes) -> list[Record]:
    return batch.decode_batch(data) if data[16] == 2 else legacy.decode_message_set(data)


@pytest.mark.parametrize("name", GOLDEN)
def test_records_written_by_java_are_read(name: str) -> None:
    assert as_json(decode(bytes.fromhex(GOLDEN[name]["hex"]))) == GOLDEN[name]["records"]


@pytest.mark.parametrize("name", [name for name in GOLDEN if name.startswith("v2")])
def test_headers_say_what_java_says(name: str) -> None:
    data = bytes.fromhex(GOLDEN[name]["hex"])
    [(position, header)] = batch.iter_headers(data)
    batch.check_crc(data, position, header)
    expected = GOLDEN[name]["batches"][0]
    assert {field: getattr(header, field) for field in expected} == expected


@pytest.mark.parametrize("name", [name for name in GOLDEN if not name.startswith("v2")])
def test_messages_say_what_java_says(name: str) -> None:
    messages = list(legacy.iter_messages(bytes.fromhex(GOLDEN[name]["hex"])))
    fields = ("magic", "size_bytes", "compression", "timestamp_type")
    expected = [{field: b[field] for field in fields} | {"offset": b["last_offset"]} for b in GOLDEN[name]["batches"]]
    for line in expected:
        line["timestamp_type"] = max(line["timestamp_type"], 0)  # Java has a third type for "magic 0 has none"
    assert [{f: getattr(m, f) for f in (*fields, "offset")} for m in messages] == expected


@pytest.mark.parametrize("name", ["v2-none-mixed", "v2-none-gaps", "v2-none-append-time"])
def test_an_uncompressed_batch_is_javas_to_the_byte(name: str) -> None:
    data = bytes.fromhex(GOLDEN[name]["hex"])
    header = batch.read_header(data)
    again = batch.encode_batch(
        batch.decode_batch(data), base_offset=header.base_offset, timestamp_type=header.timestamp_type
    )
    if name.endswith("append-time"):  # Java counts the records' own, unread timestamps from the first of them
        assert as_json(batch.decode_batch(again)) == GOLDEN[name]["records"]
    else:
        assert again == data


@pytest.mark.parametrize("name", [name for name in GOLDEN if name[:2] in ("v0", "v1") and "-none-" in name])
def test_an_uncompressed_message_set_is_javas_to_the_byte(name: str) -> None:
    data = bytes.fromhex(GOLDEN[name]["hex"])
    kind = TimestampType.LOG_APPEND_TIME if name.endswith("append-time") else TimestampType.CREATE_TIME
    assert legacy.encode_message_set(legacy.decode_message_set(data), data[16], timestamp_type=kind) == data


@pytest.mark.parametrize("kind", [ControlType.COMMIT, ControlType.ABORT])
def test_transaction_markers_are_javas_to_the_byte(kind: ControlType) -> None:
    data = bytes.fromhex(GOLDEN[f"v2-marker-{kind.name.lower()}"]["hex"])
    [record] = batch.decode_batch(data)
    assert read_marker(record) == Marker(kind, 17)
    assert data == encode_marker(
        Marker(kind, 17),
        producer_id=4711,
        producer_epoch=3,
        timestamp_ms=BASE,
        base_offset=123,
        partition_leader_epoch=9,
    )


def test_a_leader_change_is_recognised() -> None:
    [record] = batch.decode_batch(bytes.fromhex(GOLDEN["v2-leader-change"]["hex"]))
    assert control_type(record) is ControlType.LEADER_CHANGE


def ours() -> dict[str, tuple[bytes, list[Record]]]:
    """Batches and message sets as we write them, with what they mean."""
    rich = [
        Record(10, BASE, None, b"no key"),
        Record(11, BASE - 9999, b"no value", None, (("a", b"1"), ("null", None), ("", b""), ("ключ", b"x" * 500))),
        Record(19, BASE + 10**12, b"", "Ünïcödé".encode() * 9000),
        Record(20, -1, b"key" * 4000, b""),
    ]
    made: dict[str, tuple[bytes, list[Record]]] = {}
    for codec in Compression:
        made[f"v2 {codec.name}"] = (batch.encode_batch(rich, base_offset=10, compression=codec), rich)
        if codec is Compression.ZSTD:
            continue
        for magic in (0, 1):
            plain = [Record(r.offset, r.timestamp_ms if magic else -1, r.key, r.value) for r in rich]
            made[f"v{magic} {codec.name}"] = (legacy.encode_message_set(rich, magic, codec), plain)
    appended = [record._replace(timestamp_ms=BASE + 10**12) for record in rich]
    for codec in (Compression.NONE, Compression.LZ4):
        kind = TimestampType.LOG_APPEND_TIME
        data = batch.encode_batch(rich, base_offset=10, compression=codec, timestamp_type=kind)
        made[f"v2 {codec.name} append time"] = (data, appended)
        patched = bytearray(batch.encode_batch(rich, base_offset=10, compression=codec))
        header = batch.set_max_timestamp(patched, 0, batch.read_header(patched), kind, BASE + 10**12)
        batch.assign(patched, 0, header, 1000, 7)
        moved = [record._replace(offset=record.offset + 990) for record in appended]
        made[f"v2 {codec.name} patched in place"] = (bytes(patched), moved)
    marker = encode_marker(Marker(ControlType.ABORT, 5), producer_id=1, producer_epoch=0, timestamp_ms=BASE)
    made["marker"] = (marker, batch.decode_batch(marker))
    return made


def test_java_reads_what_we_write() -> None:
    require("javac")
    made = ours()
    result = subprocess.run(
        ["java", "-cp", f"{jars()}/*", str(ROOT / "tools/GoldenRecords.java"), "read"],
        input="".join(data.hex() + "\n" for data, _ in made.values()),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    for (name, (_, records)), answer in zip(made.items(), answers, strict=True):
        assert "error" not in answer, (name, answer)
        assert answer["records"] == as_json(records), name


def test_we_read_what_we_write() -> None:
    for name, (data, records) in ours().items():
        assert decode(data) == records, name
