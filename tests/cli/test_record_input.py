"""Lines as records: what `odradek consume --json` prints comes back as it was, whatever it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.cli.record_format import line_format
from odradek.cli.record_input import BadLine, InputRecord, LineForm, from_json
from odradek.cli.values import parse_search_time_ms, parse_time_ms
from odradek.client import ConsumerRecord

BYTES = st.none() | st.binary(max_size=30) | st.text(max_size=10).map(str.encode)
# Kafka's names of headers are text; bytes that are none come as escaped surrogates.
NAMES = st.text(max_size=5) | st.binary(max_size=5).map(lambda data: data.decode("utf-8", "surrogateescape"))
RECORDS = st.builds(
    ConsumerRecord,
    st.just("t"),
    st.integers(0, 1000),
    st.integers(0, 2**63 - 1),
    st.integers(-1, 2**63 - 1) | st.integers(0, 2**42),
    st.just(0),
    BYTES,
    BYTES,
    st.lists(st.tuples(NAMES, BYTES), max_size=3).map(tuple),
)


@given(RECORDS)
def test_json_goes_round(record: ConsumerRecord) -> None:
    line = line_format(True, None, None, "", raw=True, internal=False).of(record)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    timestamp = None if record.timestamp_ms < 0 else record.timestamp_ms
    wanted = InputRecord(record.key, record.value, tuple(record.headers), timestamp, record.partition)
    assert from_json(line.rstrip(b"\n")) == wanted


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", "is no JSON"),
        (b"[1]", "no JSON object"),
        (b'{"valve": "x"}', "'valve'"),
        (b'{"value": 1}', "neither text nor null"),
        (b'{"value": {"base64": "?"}}', "no bytes"),
        (b'{"value": {"base64": 1}}', "no bytes"),
        (b'{"value": {"offset": 1}}', "neither text nor null"),
        (b'{"value": "\\ud800"}', "no bytes"),
        (b'{"headers": {"a": "b"}}', "no list"),
        (b'{"headers": [["a"]]}', "not [name, value]"),
        (b'{"headers": [["\\ud800", "b"]]}', "no text"),
        (b'{"timestamp": "noon"}', "timestamp"),
        (b'{"timestamp": -5}', "timestamp"),
        (b'{"timestamp": true}', "timestamp"),
        (b'{"partition": "0"}', "partition"),
        (b"[" * 100_000, "is no JSON"),
    ],
)
def test_what_is_no_record_is_named(line: bytes, words: str) -> None:
    with pytest.raises(BadLine) as caught:
        from_json(line)
    assert words in str(caught.value)


@given(st.binary(max_size=40))
def test_any_line_is_a_record_or_an_error(line: bytes) -> None:
    try:
        assert isinstance(from_json(line), InputRecord)
    except BadLine as error:
        assert str(error)


def test_times_are_iso_or_milliseconds() -> None:
    assert parse_time_ms("1970-01-01T00:00:01.5+00:00") == 1500
    assert parse_time_ms("77") == 77
    assert parse_time_ms("yesterday") is parse_search_time_ms("yesterday") is None
    # Negative numbers stand for the ends of a log.
    assert (parse_time_ms("1969-12-31T23:59:59.999Z"), parse_search_time_ms("1969-12-31T23:59:59.999Z")) == (-1, 0)


def test_forms_of_lines() -> None:
    assert LineForm(null=b"-").parser()(b"-") == InputRecord(None, None)
    assert LineForm(separator=b"::", null=b"-").parser()(b"-::a::b") == InputRecord(None, b"a::b")
    assert LineForm(key_column=1).parser()(b"a\tb") == InputRecord(b"a", b"a\tb")
    assert LineForm(tombstones=True, null=b"").parser()(b"k") == InputRecord(b"k", None)
