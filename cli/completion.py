"""`odradek completion`: the script that makes a shell complete commands, options, topics and groups.

The shell runs `odradek` for each completion (click's protocol, in the variable _ODRADEK_COMPLETE).
"""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_ODRADEK_COMPLETE"


@click.command(short_help="Print what makes a shell complete commands, topics and groups.")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
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
