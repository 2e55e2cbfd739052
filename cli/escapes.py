"""Backslash escapes in options (\\t, \\n, \\r, \\0, \\\\, \\xHH), which a shell passes on as they are typed."""

from __future__ import annotations

import re

import click

_ESCAPE = re.compile(rb"\\(x[0-9A-Fa-f]{2}|.|$)", re.DOTALL)
_CHARACTERS = {b"t": b"\t", b"n": b"\n", b"r": b"\r", b"0": b"\0", b"\\": b"\\"}


def unescape(text: str, source: str) -> bytes:
    """Return the bytes that `text` means. UsageError for an unknown escape; it names `source`, an option."""

    def character(match: re.Match[bytes]) -> bytes:
        code = match[1]
        if len(code) == 3:
            return bytes([int(code[1:], 16)])
        if code not in _CHARACTERS:
            raise click.UsageError(f"{source} knows \\t, \\n, \\r, \\0, \\\\ and \\xHH, not {match[0].decode()!r}")
        return _CHARACTERS[code]

    return _ESCAPE.sub(character, text.encode("utf-8", "surrogateescape"))
