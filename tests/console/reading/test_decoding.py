"""What bytes are taken for."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.console.reading.decoding import FORMS, MAX_LEVELS, NULL, UndecodableValue, decode


@pytest.mark.parametrize(
    ("data", "form", "value"),
    [
        (b'{"a": [1, null]}', "json", {"a": [1, None]}),
        (b"42", "json", 42),
        (b"4 apples", "text", "4 apples"),
        ("grün".encode(), "text", "grün"),
        (b"", "text", ""),
        (msgpack.packb({"a": b"\x01", 2: [1.5]}), "msgpack", {"a": "01", "2": [1.5]}),
        (b"\xff\xfe\x00", "hex", "ff fe 00"),
        (b"\x00\x01", "hex", "00 01"),
        (b"[" * 100_000, "text", "[" * 100_000),
        (b"1" * 5_000, "text", "1" * 5_000),
    ],
)
def test_a_guess_looks_at_the_bytes(data: bytes, form: str, value: object) -> None:
    found = decode(data)
    assert (found.form, found.value) == (form, value)


def test_a_chosen_form_is_kept_to_and_other_bytes_are_shown_in_hex() -> None:
    assert decode((-5).to_bytes(8, "big", signed=True), "int").value == -5
    assert decode(b"42", "text").value == "42"
    assert decode(b"abc", "int").form.startswith("not int")
    assert decode(b"{", "json").text == "7b"
    assert decode(b"\x00\x00\x00\x00\x01x", "avro").form == "not avro: the console has no --registry"
    assert decode(None, "avro") == NULL


def test_the_registry_is_asked_where_bytes_have_its_frame() -> None:
    framed = b"\x00\x00\x00\x00\x07abc"

    def reads(data: bytes) -> tuple[str, Any]:
        return "json-schema", {"read": data[5:].decode()}

    assert decode(framed, by_schema=reads) == ("json-schema", {"read": "abc"}, '{"read": "abc"}')
    assert decode(framed, "avro", reads).form == "not avro: its schema makes it json-schema"

    def fails(data: bytes) -> tuple[str, Any]:
        raise UndecodableValue("no such schema")

    assert decode(framed, by_schema=fails).form == "hex"
    assert decode(framed, "avro", fails).form == "not avro: no such schema"


@given(st.binary(max_size=300), st.sampled_from(FORMS))
def test_any_bytes_are_shown_in_any_form(data: bytes, form: str) -> None:
    assert isinstance(decode(data, form).text, str)


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_what_is_nested_deeper_than_pages_and_filters_can_walk_is_not_walked(form: str) -> None:
    def nested(levels: int) -> bytes:
        return b"[" * levels + b"]" * levels if form == "json" else b"\x91" * (levels - 1) + b"\x90"

    assert decode(nested(MAX_LEVELS), form).form == form
    deep = decode(nested(MAX_LEVELS + 2), form)
    assert deep.value == deep.text and f"nested deeper than {MAX_LEVELS}" in deep.form
    assert isinstance(decode(nested(MAX_LEVELS + 2)).value, str)
