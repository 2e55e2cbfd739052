"""What a broker refuses, against the answers of a real Kafka 4.3.1."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from odradek.protocol.records import batch
from odradek.protocol.records.errors import RecordError

ROOT = Path(__file__).parents[3]
LINES = (ROOT / "tests/golden/records/rejections.jsonl").read_text().splitlines()
CASES = {case["name"]: case for case in map(json.loads, LINES)}

DIFFERENT = {
    # Kafka trips over its own enum and answers UNKNOWN_SERVER_ERROR.
    "codec 5": "UNSUPPORTED_COMPRESSION_TYPE",
    "codec 7": "UNSUPPORTED_COMPRESSION_TYPE",
    # Headers that agree with themselves but not with their records: only decoding tells, and no broker of ours decodes.
    "count and delta too large": "NONE",
    "count and delta too large, lz4": "NONE",
}


@pytest.mark.parametrize("name", CASES)
def test_the_error_code_is_kafkas(name: str) -> None:
    data = bytes.fromhex(CASES[name]["hex"])
    try:
        header = batch.read_header(data)
        batch.check_crc(data, 0, header)
        batch.check_shape(header)
        answer = "NONE"
    except RecordError as error:
        answer = error.code.name
    # That there is one batch and nothing behind it is for the caller to see, by `size_bytes`.
    expected = "NONE" if name == "two batches" else DIFFERENT.get(name, CASES[name]["error"])
    assert answer == expected


@pytest.mark.parametrize("name", ["count and delta too large", "count and delta too large, lz4"])
def test_a_consumer_finds_faults_that_the_header_hides(name: str) -> None:
    with pytest.raises(RecordError):
        batch.decode_batch(bytes.fromhex(CASES[name]["hex"]))
