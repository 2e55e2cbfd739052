"""A record as a line of JSON, as `odradek consume --json` and the console's export have it."""

from __future__ import annotations

import json

import pytest
from odradek.client import ConsumerRecord
from odradek.client.core.record_json import as_json, json_line

# The last millisecond of the year 9999: as a float of seconds it is another one.
LAST_MS = 253_402_300_799_999


@pytest.mark.parametrize(
    ("timestamp_ms", "text"),
    [
        (1_763_708_400_123, "2025-11-21T07:00:00.123Z"),
        (LAST_MS, "9999-12-31T23:59:59.999Z"),
        (95_617_584_000_123, "5000-01-01T00:00:00.123Z"),
        (LAST_MS + 1, LAST_MS + 1),
        (-1, None),
    ],
)
def test_a_line_has_the_time_of_its_record(timestamp_ms: int, text: object) -> None:
    record = ConsumerRecord("t", 0, 1, timestamp_ms, 0, b"k", b"\xff", [("h", None)])
    row = {"topic": "t", "partition": 0, "offset": 1, "timestamp": text, "key": "k", "value": {"base64": "/w=="}}
    assert json.loads(json_line(record)) == {**row, "headers": [["h", None]]}


def test_bytes_are_json_of_their_own() -> None:
    assert (as_json(b"a"), as_json(b"\xff")) == ('"a"', '{"base64": "/w=="}')
