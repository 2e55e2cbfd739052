"""Values that options cannot take: each option of each command, with what the error says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from odradek.tests.cli.test_every_command import CONTEXTS, LINES, SERVERS
from odradek.tests.support.documents.command import run

LEAVES = [each for each in CONTEXTS if not isinstance(each.command, click.Group)]
NUMBERS = (click.IntRange, click.FloatRange, type(click.INT), type(click.FLOAT))


def options_of(context: click.Context) -> list[click.Option]:
    found = [each for each in context.command.params if isinstance(each, click.Option)]
    return [each for each in found if not each.is_flag and not each.count]


def words_of(context: click.Context, option: click.Option, value: str) -> list[str]:
    name = context.command_path.removeprefix("odradek ")
    return [*name.split(), *shlex.split(LINES.get(name, "")), option.opts[-1], value]


@pytest.mark.parametrize("context", LEAVES, ids=lambda context: context.command_path.replace(" ", "-"))
def test_a_number_or_a_choice_that_cannot_be_says_what_the_option_takes(context: click.Context) -> None:
    for option in options_of(context):
        kind = option.type
        if not isinstance(kind, (*NUMBERS, click.Choice)):
            continue
        bad = ["abc", ""] if "float" in kind.name else ["abc", "", "9" * 20]
        if isinstance(kind, click.IntRange | click.FloatRange) and kind.min is not None and option.flag_value is None:
            bad.append(f"{kind.min - 1:g}")
        for value in bad:
            ended = run(*words_of(context, option, value))
            assert ended.exit_code == 2, (option.opts, value)
            last = ended.stderr.splitlines()[-1]
            assert re.fullmatch(rf"Error: {option.opts[-1]} takes [\w .,-]+, not '{value}(\.0)?'", last), last


@pytest.mark.parametrize("context", LEAVES, ids=lambda context: context.command_path.replace(" ", "-"))
def test_no_text_makes_a_traceback(context: click.Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if context.command_path.removeprefix("odradek ") in SERVERS:
        pytest.skip("they would start")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVER", "127.0.0.1:1")
    for option in options_of(context):
        ended = run(*words_of(context, option, "a b:c"), stdin=b"")
        assert ended.exit_code in (0, 1, 2) and ended.stderr.count("\n") <= 5, (option.opts, ended.stderr)


@pytest.mark.parametrize(
    "address", ["", " ", "host:port", "host:0", "host:99999", ":9092", ",", "PLAINTEXT://host:9092"]
)
def test_an_address_that_is_none_is_wrong_usage(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in (("topics", "list"), ("consume", "t"), ("sql", "select 1"), ("ping",)):
        ended = run(*words, "-b", address)
        assert (ended.exit_code, ended.stderr.splitlines()[-1]) == (2, f"Error: -b is HOST:PORT, not {address!r}")
    monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVER", "host:port")
    assert run("topics", "list").exit_code == 2


def test_a_value_out_of_range_in_words() -> None:
    for words, said in (
        ("perf produce t --size 2000000", "--size takes a whole number from 0 to 1048576, not '2000000'"),
        ("perf produce t --records abc", "--records takes a whole number of 1 or more, not 'abc'"),
        ("ping --timeout 0", "--timeout takes a number above 0, not '0'"),
        ("produce t --acks 2", "--acks takes all, 1 or 0, not '2'"),
        ("produce t --partition x", "--partition takes a whole number of 0 or more, not 'x'"),
        ("topics create t -r 32768", "--replication-factor takes a whole number from 1 to 32767, not '32768'"),
    ):
        assert run(*words.split()).stderr.splitlines()[-1] == f"Error: {said}"


def test_wrong_usage_is_told_whether_a_broker_is_there_or_not() -> None:
    owners = "only one of --topic, --group, --broker and --all-brokers"
    for words, said in (
        ("config describe --topic t --group g", owners),
        ("config set retention.ms=1 --topic t --group g", owners),
        ("consume [ --regex", "--regex: '[': unterminated character set"),
    ):
        ended = run(*words.split(), "-b", "127.0.0.1:1")
        assert (ended.exit_code, ended.stderr.splitlines()[-1]) == (2, f"Error: {said}")


@pytest.mark.parametrize("form", ["{}", "-{}", "@{}", "0-{}", "{}-{}"])
def test_an_offset_that_no_log_reaches_is_wrong_usage(form: str) -> None:
    text = form.replace("{}", "9" * 20)
    ended = run("consume", "t", "-o", text)
    said = f"Error: --offset takes numbers up to 9223372036854775807, not {text!r}"
    assert (ended.exit_code, ended.stderr.splitlines()[-1]) == (2, said)
