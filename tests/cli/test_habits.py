"""What people type first who know kcat, rpk or Kafka's scripts: it works, or the error says what to type."""

from __future__ import annotations

import shlex

import click
import pytest
from odradek.cli import main, usage_errors
from odradek.tests.support.documents.command import run

# Line -> words of the error.
REFUSED = {
    "topic list": "Did you mean `odradek topics`?",
    "group list": "Did you mean `odradek groups`?",
    "list": "Did you mean `odradek topics list`?",
    "produc numbers": "Did you mean `odradek produce`?",
    "configs": "Did you mean `odradek config`?",
    "version": "Did you mean `odradek --version`?",
    "topics ls": "No such command 'ls'",
    "-L -b h:1": "`odradek cluster info`",
    "-b h:1 -L": "Options follow the command",
    "-C -t t": "`odradek consume TOPIC`",
    "-P -t t": "`odradek produce TOPIC`",
    "topics --list": "`odradek topics list`",
    "topics --create --topic t": "`odradek topics create`",
    "groups --describe --group g": "`odradek groups describe`",
    "consume -t t": "`odradek consume TOPIC`",
    "consume --topic t --from-beginning": "`odradek consume TOPIC`",
    "consume t --from-beginning": "That is where it begins",
    "consume t -u": "Records are printed as they come",
    "consume t -q": "Nothing but records",
    "consume t -D ,": "--format",
    "produce --topic t": "`odradek produce TOPIC`",
    "produce t -Z": "--tombstones",
    "produce t -l": "< FILE",
    "produce t -y": "No such option",
}


@pytest.mark.parametrize(("line", "words"), REFUSED.items())
def test_what_is_not_here_is_wrong_usage_with_what_to_type(line: str, words: str) -> None:
    ended = run(*shlex.split(line))
    assert (ended.exit_code, ended.stdout) == (2, "") and words in ended.stderr


@pytest.mark.parametrize(
    ("command", "spelled", "parameter"),
    [
        ("topics create", "-p", "partitions"),
        ("topics create", "-r", "replication_factor"),
        ("topics create", "-c", "configs"),
        ("topics alter", "-p", "partitions"),
        ("topics alter", "-c", "configs"),
        ("produce", "-K", "key_separator"),
        ("produce", "-k", "key"),
        ("produce", "-z", "compression"),
        ("consume", "-K", "key_separator"),
        ("consume", "-e", "until_end"),
        ("consume", "-c", "limit"),
        ("consume", "-n", "limit"),
        ("consume", "-J", "as_json"),
        ("consume", "-g", "group"),
        ("consume", "-r", "regex"),
    ],
)
def test_options_that_mean_the_same_are_taken(command: str, spelled: str, parameter: str) -> None:
    found = next(each for each in found_command(command).params if spelled in each.opts)
    assert found.name == parameter


def test_every_remedy_is_for_an_option_that_is_not_here() -> None:
    for path, remedies in usage_errors._OPTIONS.items():
        known = {spelled for each in found_command(path).params for spelled in each.opts}
        assert not known & remedies.keys(), path


def found_command(path: str) -> click.Command:
    found: click.Command = main
    for name in path.split():
        assert isinstance(found, click.Group)
        below = found.get_command(click.Context(found), name)
        assert below is not None, path
        found = below
    return found
