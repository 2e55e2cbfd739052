"""The progress of a long command: one line on standard error, only if that is a terminal."""

from __future__ import annotations

import sys
import time

import click

# A line that changes more often flickers.
_EVERY_S = 0.2


class Progress:
    """Shows the share of `total` bytes, or of what `text` says, that is done. `clear` it before printing lines."""

    def __init__(self, total: int, text: str | None = None) -> None:
        self.total = total
        self._text = text or f"{total / 1e9:.1f} GB"
        self._done = 0
        self._shown_at = 0.0
        self._is_shown = False
        self._terminal = sys.stderr.isatty()

    def add(self, size: int) -> None:
        """Count `size` more bytes as done."""
        self._done += size
        if self._terminal and time.monotonic() - self._shown_at > _EVERY_S:
            self._shown_at = time.monotonic()
            self._is_shown = True
            percent = min(100 * self._done // max(self.total, 1), 100)
            click.echo(f"\r\033[K{percent:3d} % of {self._text}", nl=False, err=True)

    def clear(self) -> None:
        """Remove the line."""
        if self._is_shown:
            self._is_shown = False
            click.echo("\r\033[K", nl=False, err=True)
