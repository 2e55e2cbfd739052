"""Print docs/commands.md, made from the commands in cli/: each command with its options.

    python tools/command_docs.py > docs/commands.md

A test fails if the file differs from what this prints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import click
from odradek.cli import main as odradek

INTRO = """\
# Every command and option

`tools/command_docs.py` makes this page from the commands in `cli/`: change those. `--help` of a command has
examples, [cli.md](cli.md) says how commands fit together.

## Options of many commands
"""
# An option that so many commands have is told once.
MANY = 6


def main() -> None:
    contexts = list(commands(click.Context(odradek, info_name="odradek", **odradek.context_settings)))
    count = Counter(option for context in contexts for option in options(context))
    print(INTRO)
    for option in dict.fromkeys(option for context in contexts for option in options(context) if count[option] >= MANY):
        print(option)
    for context in contexts:
        usage = " ".join(piece for piece in context.command.collect_usage_pieces(context) if piece != "[OPTIONS]")
        print(f"\n## {f'{context.command_path} {usage}'.rstrip()}\n\n{context.command.get_short_help_str(200)}")
        own = [option for option in options(context) if count[option] < MANY]
        many = [option[2 : option.index("`", 3) + 1] for option in options(context) if count[option] >= MANY]
        print("", *own, f"- also {', '.join(many)}", sep="\n")


def commands(context: click.Context) -> Iterator[click.Context]:
    """Yield a context of `odradek` and of each command that does something, in the order of the help."""
    group = context.command
    if context.parent is None or not isinstance(group, click.Group):
        yield context
    if not isinstance(group, click.Group):
        return
    for name in group.list_commands(context):
        below = group.get_command(context, name)
        assert below is not None, name
        yield from commands(click.Context(below, info_name=name, parent=context))


def options(context: click.Context) -> Iterator[str]:
    """Yield a line for each option: its names, and what it does."""
    for parameter in context.command.get_params(context):
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record is not None:
            yield f"- `{record[0]}`: {' '.join(record[1].split())}"


main()
