"""`--watch`: print a table again and again until Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import click

# Clears the screen of a terminal and goes to its top.
_CLEAR = "\033[H\033[2J"
_DEFAULT_S = 2.0

watch_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--watch", "every_s", metavar="SECONDS", type=click.FloatRange(min=0.1), is_flag=False, flag_value=_DEFAULT_S,
    help=f"Print it again every SECONDS ({_DEFAULT_S:g} if none are given) until Ctrl-C.",
)  # fmt: skip


def watch(every_s: float | None, show: Callable[[], None]) -> None:
    """Call `show` once, or every `every_s` seconds if that is given. A terminal is cleared in between."""
    while True:
        if every_s is not None and sys.stdout.isatty():
            click.echo(_CLEAR, nl=False)
        show()
        if every_s is None:
            return
        sys.stdout.flush()
        time.sleep(every_s)
