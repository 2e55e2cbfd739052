"""The records of a share state, as Apache Kafka 4.3.1 wrote them for the requests of test_on_the_wire.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from odradek.broker.coordination.share_states import records
from odradek.broker.coordination.share_states.kept_state import KeptState
from odradek.broker.coordination.share_states.share_state import ShareKey
from odradek.protocol.records.batch import iter_headers, iter_records

SEGMENT = (Path(__file__).parent / "golden" / "kafka-4.3.1-share-state.log").read_bytes()
PAIRS = [
    (each.key or b"", each.value) for at, header in iter_headers(SEGMENT) for each in iter_records(SEGMENT, at, header)
]


def test_kafkas_records_are_the_same_when_written_again() -> None:
    for key, value in PAIRS:
        record = records.decode_record(key, value)
        assert record is not None
        assert records.encode(record) == (key, value)


def test_a_state_lives_by_kafkas_records() -> None:
    nowhere: Any = None
    kept = KeptState(ShareKey("s", bytes(16), 0), nowhere, 500)
    seen: list[tuple[int, int, int, int] | None] = []
    for key, value in PAIRS:
        record = records.decode_record(key, value)
        assert record is not None
        kept.apply(record)
        seen.append(None if kept.current is None else kept.current[:4])
    assert seen[:6] == [(2, 0, -1, -1), (2, 5, -1, -1), (2, 5, 0, -1), (2, 5, 0, 0), (2, 5, 0, 5), (2, 5, 5, 3)]
    assert None in seen and seen[-1] == (1, 0, 0, 0)


def test_a_record_of_another_type_is_none() -> None:
    assert records.decode_record(b"\0\7abc", None) is None
