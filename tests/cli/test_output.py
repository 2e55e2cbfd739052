"""Rows as a terminal, a pipe and a program get them."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.cli.output import Rows, as_json, as_text

ROWS = [{"topic": "a", "size": 1}, {"topic": "long name", "size": None}]


def test_a_pipe_gets_values_and_no_header(capsys: pytest.CaptureFixture[str]) -> None:
    with Rows(("topic", "size"), False) as rows:
        for row in ROWS:
            rows.add(row)
    assert capsys.readouterr().out == "a\t1\nlong name\t-\n"


def test_a_terminal_gets_aligned_columns_under_a_header(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with Rows(("topic", "size"), False) as rows:
        for row in ROWS:
            rows.add(row)
    lines = [line.removeprefix("\x1b[1m").removesuffix("\x1b[0m") for line in capsys.readouterr().out.splitlines()]
    assert lines == ["TOPIC      SIZE", "a          1", "long name  -"]


def test_a_terminal_sees_rows_before_all_have_come(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with Rows(("n",), False) as rows:
        for number in range(250):
            rows.add({"n": number})
        assert "249" in capsys.readouterr().out


def test_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with Rows(("topic",), True) as rows:
        rows.add({"topic": "a\nb", "raw": b"\xff"})
    assert capsys.readouterr().out == '{"topic": "a\\nb", "raw": {"base64": "/w=="}}\n'


@given(st.one_of(st.none(), st.binary(), st.text(), st.booleans(), st.lists(st.text())))
def test_any_value_is_one_printable_line(value: object) -> None:
    assert as_text(value).isprintable()
    assert "\n" not in as_json({"value": value})
