"""Rows as a terminal, a pipe and a program get them."""

from __future__ import annotations

import sys

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from odradek.cli.groups import _OFFSET
from odradek.cli.output import Rows, as_json, as_text, print_rows, row_options
from odradek.cli.topic_sizes import PARTITION_ROW

ROWS = [{"topic": "a", "size": 1}, {"topic": "long name", "size": None}]


def test_a_pipe_gets_values_and_no_header(capsys: pytest.CaptureFixture[str]) -> None:
    with Rows(("topic", "size")) as rows:
        for row in ROWS:
            rows.add(row)
    assert capsys.readouterr().out == "a\t1\nlong name\t-\n"


def test_a_terminal_gets_aligned_columns_under_a_header(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with Rows(("topic", "size")) as rows:
        for row in ROWS:
            rows.add(row)
    lines = [line.removeprefix("\x1b[1m").removesuffix("\x1b[0m") for line in capsys.readouterr().out.splitlines()]
    assert lines == ["TOPIC      SIZE", "a          1", "long name  -"]


def test_a_terminal_sees_rows_before_all_have_come(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with Rows(("n",)) as rows:
        for number in range(250):
            rows.add({"n": number})
        assert "249" in capsys.readouterr().out


def test_json_is_one_object_a_line() -> None:
    @click.command
    @row_options
    def show() -> None:
        print_rows(("topic", "raw"), [{"topic": "a\nb", "raw": b"\xff"}, ("c", None)])

    first = CliRunner().invoke(show, ["--json"]).output.splitlines()[0]
    assert first == '{"topic": "a\\nb", "raw": {"base64": "/w=="}}'


@given(st.one_of(st.none(), st.binary(), st.text(), st.booleans(), st.lists(st.text())))
def test_any_value_is_one_printable_line(value: object) -> None:
    assert as_text(value).isprintable()
    assert "\n" not in as_json({"value": value})


def terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))


def test_a_table_fits_the_terminal_and_the_widest_columns_give_way(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal(monkeypatch, 40)
    with Rows(("topic", "member", "client")) as rows:
        rows.add({"topic": "flights", "member": "a" + "m" * 50 + "z", "client": "c" * 30})
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "flights  " + "a" + "m" * 6 + "…" + "m" * 5 + "z" + "  " + "c" * 7 + "…" + "c" * 7


def columns_of(text: str) -> int:
    """Return how many columns of a terminal a text takes, of the characters that these tests print."""
    return sum(2 if "\u3000" < char < "\U00020000" else 0 if char == "\u0301" else 1 for char in text)


def test_wide_characters_and_accents_keep_the_columns_aligned(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal(monkeypatch, 80)
    with Rows(("key", "offset")) as rows:
        for key in ("plain", "\u6e2c\u8a66\u8cc7\u6599", "e\u0301te\u0301", "\U0001f680"):
            rows.add((key, 7))
    lines = capsys.readouterr().out.splitlines()[1:]
    assert {columns_of(line.rpartition("7")[0]) for line in lines} == {10}


def test_a_cell_of_wide_characters_is_cut_to_its_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal(monkeypatch, 20)
    with Rows(("key", "value")) as rows:
        rows.add(("\u6e2c" * 40, "a" * 40))
        rows.add(("\u6e2c", "b"))
    lines = capsys.readouterr().out.splitlines()[1:]
    assert all(columns_of(line) <= 20 for line in lines) and lines[0].index("a") and "…" in lines[0]
    assert columns_of(lines[0].partition("a")[0]) == columns_of(lines[1].partition("b")[0])


def test_the_number_of_offsets_is_no_number_of_records(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal(monkeypatch, 80)
    print_rows(("topic", "records"), [("t", 4)])
    assert "MAX RECORDS" in capsys.readouterr().out


def test_a_narrow_terminal_still_shows_both_ends_of_each_cell(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal(monkeypatch, 5)
    with Rows(("a", "b")) as rows:
        rows.add({"a": "x" * 20, "b": "y" * 20})
    assert capsys.readouterr().out.splitlines()[1] == "xx…x  yy…y"


def test_a_narrow_terminal_leaves_the_last_columns_out_and_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal(monkeypatch, 30)
    with Rows(("first", "second", "third", "fourth")) as rows:
        rows.add(dict.fromkeys(("first", "second", "third", "fourth"), "a long value"))
    shown = capsys.readouterr()
    assert shown.out.splitlines()[1].count("…") == 3
    assert "no room for fourth: --wide and --json show them" in shown.err


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_widest_tables_fit_usual_terminals(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    terminal(monkeypatch, width)
    for columns in (PARTITION_ROW, _OFFSET):
        with Rows(columns) as rows:
            rows.add(dict.fromkeys(columns, "a long value, longer than its title"))
    lines = [line.removeprefix("\x1b[1m").removesuffix("\x1b[0m") for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 4 and max(map(len, lines)) <= width


def test_sizes_and_durations_have_units_in_a_table_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"size_bytes": 1 << 30, "lag_ms": 1500}
    with Rows(("size_bytes", "lag_ms")) as rows:
        rows.add(row)
    assert capsys.readouterr().out == "1073741824\t1500\n"
    terminal(monkeypatch, 80)
    with Rows(("size_bytes", "lag_ms")) as rows:
        rows.add(row)
    assert capsys.readouterr().out.splitlines()[1].split("  ") == ["1 GiB", "1.5 s"]


def test_header_and_wide_are_options_of_every_command_that_prints_rows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @click.command
    @row_options
    def show() -> None:
        with Rows(("name",)) as rows:
            rows.add({"name": "n" * 100})

    assert CliRunner().invoke(show, ["--header"]).output == "name\n" + "n" * 100 + "\n"
    assert CliRunner().invoke(show, ["--header", "--json"]).output == '{"name": "' + "n" * 100 + '"}\n'
    terminal(monkeypatch, 20)
    with pytest.raises(SystemExit):
        show(["--wide"])
    assert capsys.readouterr().out.splitlines()[1] == "n" * 100


def test_columns_of_the_same_name_keep_their_values(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(("key", "key", "key_1"), [(1, 2, 3)])
    assert capsys.readouterr().out == "1\t2\t3\n"

    @click.command
    @row_options
    def show() -> None:
        print_rows(("key", "key", "key_1"), [(1, 2, 3)])

    assert CliRunner().invoke(show, ["--json"]).output == '{"key": 1, "key_1": 2, "key_1_1": 3}\n'


def test_what_json_has_no_number_for_is_null() -> None:
    row = {"a": float("nan"), "b": [float("inf"), {"c": -float("inf")}], "d": 1.5, "e": b"x"}
    assert as_json(row) == '{"a": null, "b": [null, {"c": null}], "d": 1.5, "e": "x"}'
