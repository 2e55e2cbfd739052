"""The language of filters: what it finds, what it refuses, and its bounds."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.client import ConsumerRecord
from odradek.console.reading.filters import MAX_CHARS, Candidate, InvalidFilter, read_filter

VALUE = {"user": {"id": 42, "name": "Ann"}, "tags": ["new", "big"], "ok": True, "none": None, "a b": 1.5,
         "zero": 0, "empty": "", "no": False, "flags": [True]}  # fmt: skip


def candidate(value: Any = VALUE, key: bytes | None = b"k-1", **fields: Any) -> Candidate:
    data = value if isinstance(value, bytes) or value is None else json.dumps(value).encode()
    record = ConsumerRecord("t", 3, 1_000, 1_700_000_000_000, 0, key, data, [("trace", b"abc"), ("n", b"7")])
    return Candidate(record._replace(**fields), "auto", "auto", None)


def holds(text: str, **fields: Any) -> bool:
    predicate = read_filter(text)
    assert predicate is not None
    return predicate(candidate(**fields))


@pytest.mark.parametrize(
    "text",
    [
        "value.user.id == 42", "value.user.id != 43", "value.user.id >= 42 and value.user.id < 42.5",
        'value.user.name == "Ann"', "value.user.name == 'Ann'", 'value["user"]["name"] ~ "^A.n$"',
        'value.tags[0] == "new"', 'value.tags contains "big"', "value.ok == true", "value.ok", "value.none == null",
        'value["a b"] == 1.5', "value.nothing.at.all == null", "value.tags[9] == null", 'key == "k-1"', 'key ~ "k"',
        'headers.trace contains "b"', "headers.n == 7", "offset == 1000", "partition == 3", 'topic == "t"',
        "timestamp > 1699999999999", "size > 10", '"Ann"', "not value.nothing", 'not "Bob"',
        "offset == 1 or offset == 1000 and partition == 3", "(offset == 1 or offset == 1000) and not (partition == 4)",
        "offset > -1", "offset < 1e6", "value.zero", "value.empty", "value.no == false", "value.flags contains true",
    ],
)  # fmt: skip
def test_what_is_so_is_found(text: str) -> None:
    assert holds(text)
    assert not holds(f"not ({text})")


@pytest.mark.parametrize(
    "text",
    [
        "value.user.id == true", "value.ok == 1", 'value.user.id == "42"', 'value.user.name > 3', "value.ok > 0",
        "value.none > 1", "value.none", "value.nothing ~ 'x'", 'value.nothing contains "x"', "value.user.id[0]",
        "value.no", "value.flags contains 1", "value.tags.name", "offset == 1 or offset == 1000 and partition == 4",
    ],
)  # fmt: skip
def test_what_is_not_so_is_not(text: str) -> None:
    assert not holds(text)


@pytest.mark.parametrize(
    "text",
    [
        "value.", "value ==", "== 1", "and", "value == 1 and", "(value", "value)", "value[", "value[x]", "value[-1]",
        "nothing == 1", "__class__", "value.__class__ == 1 2", "import os", "value == 1; x", "lambda: 1", "value()",
        'key ~ "("', "key ~ 3", 'key ~ "(a{500}){500}"', '"open', "value @ 3", "(" * 40 + "ok" + ")" * 40,
        "not " * 40 + "offset", "x" * (MAX_CHARS + 1), "value == == 1", "1 2", "value..x",
    ],
)  # fmt: skip
def test_what_is_no_filter_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(InvalidFilter, match=r"\w"):
        read_filter(text)


def test_an_empty_filter_wants_everything() -> None:
    assert read_filter("  ") is None


def test_a_name_of_python_is_only_a_name() -> None:
    assert not holds("value.__class__ or value.user.__init__ or headers.__dict__")


@given(st.text(max_size=200))
def test_any_text_is_a_filter_or_is_refused(text: str) -> None:
    try:
        predicate = read_filter(text)
    except InvalidFilter:
        return
    if predicate is not None:
        assert predicate(candidate()) in (True, False)


@given(st.binary(max_size=60) | st.none(), st.binary(max_size=60) | st.none())
def test_any_record_can_be_looked_at(key: bytes | None, value: bytes | None) -> None:
    for text in ("value.a.b == 1", 'key ~ "x"', '"x"', "value > 1", 'value contains "x"', "headers.h == null"):
        assert holds(text, key=key, value=value) in (True, False)


def test_half_of_a_surrogate_pair_in_a_value_stops_no_search() -> None:
    value = b'{"half": "\\ud800", "text": "a\\ud800b"}'
    assert not holds('value.half ~ "x"', value=value)
    assert holds('value.text ~ "^a.b$"', value=value)


def test_without_re2_a_pattern_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(InvalidFilter, match="need google-re2"):
        read_filter("key ~ 'k'")
