"""`odradek man` and `completion`: what the manual page and the shell say of all commands.

The page is made of the help texts, in the form that `man` reads. The shell runs `odradek` for each completion (click's
protocol, in the variable _ODRADEK_COMPLETE).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from .. import __version__
from .values import OneOf


@click.command(short_help="Print the manual page.")
def man() -> None:
    """Print the manual page of all commands, for `man`.

    \b
    Examples:
      odradek man | man -l -
      odradek man > ~/.local/share/man/man1/odradek.1
    """
    from . import main

    context = click.Context(main, info_name="odradek")
    for line in _page(context):
        click.echo(line)


def _page(context: click.Context) -> Iterator[str]:
    yield f'.TH ODRADEK 1 "" "Odradek {__version__}" "User Commands"'
    yield ".SH NAME"
    yield r"odradek \- a Kafka broker that is one pip install away, and the tools to talk to it"
    yield ".SH SYNOPSIS"
    yield r".B odradek"
    yield r"\fICOMMAND\fR [\fIOPTION\fR]... [\fIARGUMENT\fR]..."
    yield ".SH DESCRIPTION"
    yield from _help(context.command)
    yield ".SH COMMANDS"
    yield from _commands(context)
    yield ".SH EXIT STATUS"
    for status, meaning in _STATUSES.items():
        yield from (".TP", _text(status), _text(meaning))
    yield ".SH ENVIRONMENT"
    for name, meaning in _VARIABLES.items():
        yield from (".TP", rf"\fB{name}\fR", _text(meaning))


_STATUSES = {
    "0": "Done.",
    "1": "Failed: standard error says what and why.",
    "2": "Wrong usage: nothing was done.",
    "10 + N": "Several names were given, all were tried, and N of them failed (100 for 90 and more).",
    "130": "Ctrl-C.",
    "141": "The reader of standard output has gone.",
}
_VARIABLES = {
    "ODRADEK_BOOTSTRAP_SERVER": "The broker to connect to, where -b is not given.",
    "ODRADEK_PROFILE": "The profile to use, where --profile is not given.",
    "ODRADEK_CONFIG": "The file of profiles, in place of ~/.config/odradek/profiles.toml.",
}


def _commands(context: click.Context) -> Iterator[str]:
    """Yield the section of every command below `context`, the groups' own first."""
    group = context.command
    assert isinstance(group, click.Group)
    for name in group.list_commands(context):
        below = group.get_command(context, name)
        assert below is not None, name
        inner = click.Context(below, info_name=name, parent=context)
        yield ".SS " + _text(inner.command_path + _usage(inner))
        yield from _help(below)
        yield from _options(inner)
        if isinstance(below, click.Group):
            yield from _commands(inner)


def _usage(context: click.Context) -> str:
    pieces = context.command.collect_usage_pieces(context)
    return "".join(f" {piece}" for piece in pieces)


def _help(command: click.Command) -> Iterator[str]:
    """Yield the help of a command. A block behind \\b keeps its lines, as in click."""
    for block in inspect.cleandoc(command.help or "").split("\n\n"):
        if block.startswith("\b"):
            yield from (".PP", ".nf", *map(_text, block.splitlines()[1:]), ".fi")
        else:
            yield from (".PP", *map(_text, block.splitlines()))


def _options(context: click.Context) -> Iterator[str]:
    for parameter in context.command.get_params(context):
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record is not None:
            yield from (".TP", rf"\fB{_text(record[0])}\fR", *map(_text, record[1].splitlines()))


def _text(text: str) -> str:
    """Return a line that roff prints as it is: a backslash, a hyphen and a dot at the beginning mean something."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return r"\&" + text if text.startswith((".", "'")) else text


SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_ODRADEK_COMPLETE"


@click.command(short_help="Print what makes a shell complete commands, topics and groups.")
@click.argument("shell", type=OneOf(SHELLS))
def completion(shell: str) -> None:
    """Print the script that makes SHELL complete commands, options, and the names of topics and groups.

    Names come from the broker of -b, ODRADEK_BOOTSTRAP_SERVER or the profile. Without a broker there are none, and no
    message. zsh looks in ~/.zfunc where ~/.zshrc has `fpath+=~/.zfunc` above `compinit`.

    \b
    Examples:
      odradek completion bash > ~/.local/share/bash-completion/completions/odradek
      odradek completion zsh > ~/.zfunc/_odradek
      odradek completion fish > ~/.config/fish/completions/odradek.fish
    """
    from click.shell_completion import get_completion_class

    from . import main

    completer = get_completion_class(shell)
    assert completer is not None, shell
    made = completer(main, {}, "odradek", VARIABLE)
    script = made.source_template % made.source_vars()
    # click's script for fish cuts a description at its first comma.
    click.echo(script.replace('string split ","', 'string split --max 1 ","'))
