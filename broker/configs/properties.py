r"""A reader of Java's .properties format, the format of Kafka's server.properties.

A logical line is `key`, a separator (`=`, `:` or blanks, with blanks around) and the value. Lines that are blank or
begin with `#` or `!` are comments. A line that ends in an odd number of backslashes continues in the next one, without
its leading blanks. A backslash makes the next character literal, except in `\t`, `\n`, `\r`, `\f` and `\uXXXX`, which
mean what they mean in Java. If a key is given twice, the last value counts.

Promise: the pairs are those of `java.util.Properties.load` (a test compares them), or PropertiesError names the line.
Java reads any file, also an image or a page of prose. `load` refuses one whose lines name no configs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\n|\r")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_HEX = frozenset("0123456789abcdefABCDEF")
# The characters of a config's name. Kafka has no others.
_NAME = re.compile(r"[A-Za-z0-9._-]+")
# A configuration file is a few KiB; this keeps a mistaken path (a log, a disk image) from being read whole.
_MAX_FILE_BYTES = 4 << 20
_SHOWN_CHARS = 40


class _BadEscape(Exception):
    """An escape that Java does not know."""


class PropertiesError(Exception):
    """A properties file cannot be read: `path`, `line` (from 1; 0 for the whole file) and why."""

    def __init__(self, path: str, line: int, why: str) -> None:
        super().__init__(f"{path}:{line}: {why}" if line else f"{path}: {why}")
        self.path = path
        self.line = line
        self.why = why


def load(path: Path) -> dict[str, str]:
    """Return the pairs of a file in UTF-8, which editors may mark with a BOM, or in Latin-1, as older Java wrote it."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise PropertiesError(str(path), 0, error.strerror or str(error)) from error
    if len(data) > _MAX_FILE_BYTES:
        raise PropertiesError(str(path), 0, f"is over {_MAX_FILE_BYTES >> 20} MiB: not a configuration file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    for number, line in _logical_lines(text):
        if not _is_assignment(line):
            shown = ascii(line[:_SHOWN_CHARS])[1:-1]
            raise PropertiesError(str(path), number, f"is not NAME=VALUE, so this is no properties file: {shown}")
    return parse(text, str(path))


def _is_assignment(line: str) -> bool:
    """Return whether a line gives a config a value. Words without `=` or `:` are prose, except a name and one word."""
    name_end, value_start = _split(line)
    has_sign = any(sign in line[name_end:value_start] for sign in "=:")
    value = line[value_start:]
    if not _NAME.fullmatch(line[:name_end]) or "\0" in value:
        return False
    return has_sign or (bool(value) and not any(blank in value for blank in _BLANKS))


def parse(text: str, path: str = "<text>") -> dict[str, str]:
    """Return the pairs of a text. `path` is for the error only."""
    pairs: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key_end, value_start = _split(line)
        try:
            pairs[_unescape(line[:key_end])] = _unescape(line[value_start:])
        except _BadEscape as error:
            raise PropertiesError(path, number, f"{error} is not \\u and four hexadecimal digits") from None
    return pairs


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each logical line with the number of its first line, without comments and blank lines."""
    lines = _LINE_END.split(text)
    if not lines[-1]:
        lines.pop()
    joined, first, open_end = "", 0, False
    for number, natural in enumerate(lines, start=1):
        line = natural.lstrip(_BLANKS)
        if not joined:
            if not line or line[0] in "#!":
                open_end = False
                continue
            first = number
        open_end = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        if open_end:
            joined += line[:-1]
            continue
        yield first, joined + line
        joined = ""
    if open_end:
        yield first, joined


def _split(line: str) -> tuple[int, int]:
    """Return the end of the key and the start of the value: the first `=`, `:` or blank without a backslash."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    end = min(end, len(line))
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return end, len(line) - len(rest)


def _unescape(text: str) -> str:
    """Return the text without escapes. _BadEscape for a \\u without four hexadecimal digits."""
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\":
            out.append(char)
        elif position < len(text) and text[position] == "u":
            digits = text[position + 1 : position + 5]
            if len(digits) != 4 or not _HEX.issuperset(digits):
                raise _BadEscape("\\u" + digits)
            out.append(chr(int(digits, 16)))
            position += 5
        elif position < len(text):
            out.append(_ESCAPES.get(text[position], text[position]))
            position += 1
    # Java's characters are UTF-16: a pair of \\u escapes may stand for one character.
    return "".join(out).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
