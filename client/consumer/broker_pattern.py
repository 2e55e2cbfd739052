"""Patterns of topics that brokers match: Python's syntax as far as RE2 has it, in RE2's words.

RE2 has neither look-arounds nor back-references, so that a match takes linear time. A pattern that uses them is
rejected: the broker would reject it too, but without the reason.
"""

from __future__ import annotations

import re

from ..errors import InvalidOption

_FLAGS = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s"}
# Python's own, outside of classes of characters: what it is, and its name.
_PYTHON_ONLY = (
    (re.compile(r"\(\?<?[=!]"), "a look-around"),
    (re.compile(r"\\[1-9]|\(\?P="), "a back-reference"),
    (re.compile(r"\(\?\("), "a condition"),
    (re.compile(r"\(\?>|[*+?}]\+"), "a possessive repeat"),
    (re.compile(r"\(\?#"), "a comment"),
    (re.compile(r"\\Z"), r"\Z"),
)
# One piece of a pattern: an escaped character, a class of characters, or anything else.
_PIECES = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)


def broker_pattern(pattern: str | re.Pattern[str]) -> str:
    """Return a pattern as a broker takes it. Raises InvalidOption for what only Python has."""
    compiled = re.compile(pattern)
    text = compiled.pattern
    if compiled.flags & re.VERBOSE:
        raise _rejection(text, "the flag VERBOSE")
    outside = "".join(piece if not piece.startswith("[") else "[]" for piece in _PIECES.findall(text))
    unescaped = re.sub(r"\\[^1-9Z]", "x", outside)
    for found, name in _PYTHON_ONLY:
        if found.search(unescaped):
            raise _rejection(text, name)
    inline = re.match(r"\(\?[aiLmsux]+\)", text)
    flags = "".join(letter for flag, letter in _FLAGS.items() if compiled.flags & flag)
    if inline is not None:
        text = text[inline.end() :]
    return f"(?{flags}){text}" if flags else text


def _rejection(pattern: str, name: str) -> InvalidOption:
    return InvalidOption(
        f"brokers match patterns by RE2, which does not have {name}, as in {pattern!r}: "
        "write it otherwise, or take group_protocol='classic', where the client matches"
    )
