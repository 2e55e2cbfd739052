"""How far a long command is: one line on standard error, only if that is a terminal."""

import sys
import time

import click

# A line that changes more often is only flicker.
_EVERY_S = 0.2


class Progress:
    """`add` what was done of `total` bytes; `clear` the line before others are printed."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._done = 0
        self._shown_at = 0.0
        self._is_shown = False
        self._terminal = sys.stderr.isatty()

    def add(self, size: int) -> None:
        """So many bytes more are done."""
        self._done += size
        if self._terminal and time.monotonic() - self._shown_at > _EVERY_S:
            self._shown_at = time.monotonic()
            self._is_shown = True
            percent = min(100 * self._done // max(self.total, 1), 100)
            click.echo(f"\r\033[K{percent:3d} % of {self.total / 1e9:.1f} GB", nl=False, err=True)

    def clear(self) -> None:
        """Takes the line away."""
        if self._is_shown:
            self._is_shown = False
            click.echo("\r\033[K", nl=False, err=True)
