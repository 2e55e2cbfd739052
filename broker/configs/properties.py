r"""A reader of Java's .properties format, which Kafka's server.properties is written in.

A logical line is `key`, a separator (`=`, `:` or blanks, with blanks around) and the value. Lines that are blank or
begin with `#` or `!` say nothing. A line that ends in an odd number of backslashes goes on in the next one, whose
leading blanks do not count. A backslash makes the next character literal, but `\t`, `\n`, `\r`, `\f` and `\uXXXX` stand
for their own. Of a key given twice the last value counts.

Promise: the pairs that `java.util.Properties.load` would give (a test compares them), or PropertiesError with the line.
"""

import re
from collections.abc import Iterator
from pathlib import Path

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\n|\r")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_HEX = frozenset("0123456789abcdefABCDEF")
# A configuration file is a few KiB; this keeps a mistaken path (a log, a disk image) from being read whole.
_MAX_FILE_BYTES = 4 << 20


class _BadEscape(Exception):
    """The escape that is none."""


class PropertiesError(Exception):
    """A properties file that cannot be read: `path`, `line` (from 1; 0 for the whole file) and why."""

    def __init__(self, path: str, line: int, why: str) -> None:
        super().__init__(f"{path}:{line}: {why}" if line else f"{path}: {why}")
        self.path = path
        self.line = line
        self.why = why


def load(path: Path) -> dict[str, str]:
    """The pairs of a file, UTF-8 (Latin-1 where it is not UTF-8, as older Java wrote it)."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise PropertiesError(str(path), 0, error.strerror or str(error)) from error
    if len(data) > _MAX_FILE_BYTES:
        raise PropertiesError(str(path), 0, f"is over {_MAX_FILE_BYTES >> 20} MiB: not a configuration file")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return parse(text, str(path))


def parse(text: str, path: str = "<text>") -> dict[str, str]:
    """The pairs of a text; `path` is for the error only."""
    pairs: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key_end, value_start = _split(line)
        try:
            pairs[_unescape(line[:key_end])] = _unescape(line[value_start:])
        except _BadEscape as error:
            raise PropertiesError(path, number, f"{error} is not \\u and four hexadecimal digits") from None
    return pairs


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """(number of its first line, the line with its continuations joined), without comments and blank lines."""
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
    """(end of the key, start of the value): at the first `=`, `:` or blank that no backslash protects."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    end = min(end, len(line))
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return end, len(line) - len(rest)


def _unescape(text: str) -> str:
    """Escapes replaced; _BadEscape for a \\u without four hexadecimal digits."""
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
