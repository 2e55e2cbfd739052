"""Java's regular expressions for topic names, as `subscribePattern` takes them, in Python's syntax.

A topic's name has only the 65 characters of `LEGAL`, so a character class, with the intersections, unions and
properties that Java has and Python has not, becomes the list of its characters. What has no translation is rejected:
a pattern that quietly means something else would read the wrong topics. As in Spark's own connector, a pattern is
searched anywhere in the name unless it is anchored.
"""

from __future__ import annotations

import re
import string

from .errors import OptionError

LEGAL = frozenset(string.ascii_letters + string.digits + "._-")
_ALL = LEGAL | frozenset(string.printable)
_CLASSES = {
    "d": frozenset(string.digits),
    "w": frozenset(string.ascii_letters + string.digits + "_"),
    "s": frozenset(" \t\n\x0b\f\r"),
    "h": frozenset(" \t"),
    "v": frozenset("\n\x0b\f\r"),
}
_PROPERTIES = {
    "Lower": frozenset(string.ascii_lowercase),
    "Upper": frozenset(string.ascii_uppercase),
    "Alpha": frozenset(string.ascii_letters),
    "Digit": frozenset(string.digits),
    "Alnum": frozenset(string.ascii_letters + string.digits),
    "Punct": frozenset(string.punctuation),
    "XDigit": frozenset(string.hexdigits),
    "Space": _CLASSES["s"],
    "Blank": _CLASSES["h"],
    "L": frozenset(string.ascii_letters),
    "Lu": frozenset(string.ascii_uppercase),
    "Ll": frozenset(string.ascii_lowercase),
    "N": frozenset(string.digits),
    "Nd": frozenset(string.digits),
    "IsAlphabetic": frozenset(string.ascii_letters),
    "IsDigit": frozenset(string.digits),
}
# Escapes that mean the same in both. Java's \z is Python's \Z; Java's \Z allows a line's end, which no name has.
_SAME = frozenset("bBA123456789")
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}


def compile_pattern(option: str, text: str) -> re.Pattern[str]:
    """Return Python's pattern for Java's. `search` it. Raises OptionError."""
    if not text:
        raise OptionError(option, "the pattern is empty")
    translated = _Translation(option, text).pattern()
    try:
        return re.compile(translated, re.ASCII)
    except (re.error, OverflowError) as error:
        raise OptionError(option, f"'{text}' is not a regular expression: {error}") from None


class _Translation:
    """One pass over a pattern."""

    def __init__(self, option: str, text: str) -> None:
        self._option = option
        self._text = text
        self._at = 0

    def pattern(self) -> str:
        """Return the whole pattern in Python's syntax."""
        pieces: list[str] = []
        while self._at < len(self._text):
            pieces.append(self._piece())
        return "".join(pieces)

    def _piece(self) -> str:
        char = self._next()
        if char == "\\":
            return self._escape()
        if char == "[":
            return _listed(self._class())
        if char == "(" and self._text.startswith("?", self._at):
            return self._group()
        return char

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise self._error("it ends too early")
        char = self._text[self._at]
        self._at += 1
        return char

    def _error(self, why: str) -> OptionError:
        return OptionError(self._option, f"'{self._text}' is not a regular expression that can be used here: {why}")

    # -- Escapes

    def _escape(self) -> str:
        char = self._next()
        if char == "Q":
            return re.escape(self._quoted())
        if char in _SAME:
            return "\\" + char
        if char in "zZ":
            return r"\Z"
        if char == "k":
            return f"(?P={self._name('<', '>')})"
        return _listed(self._set_of_escape(char)) if char.isalpha() else re.escape(char)

    def _quoted(self) -> str:
        """Return what stands between \\Q and \\E."""
        start, end = self._at, self._text.find("\\E", self._at)
        if end < 0:
            self._at = len(self._text)
            return self._text[start:]
        self._at = end + 2
        return self._text[start:end]

    def _set_of_escape(self, char: str) -> frozenset[str]:
        """Return the characters of an escape that stands for some, or for one."""
        if char.lower() in _CLASSES:
            found = _CLASSES[char.lower()]
            return found if char.islower() else _ALL - found
        if char in "pP":
            found = self._property()
            return found if char == "p" else _ALL - found
        if char in _CONTROLS:
            return frozenset(_CONTROLS[char])
        if char in "xu":
            return frozenset(self._code(2 if char == "x" else 4))
        if char.isalpha():
            raise self._error(f"\\{char} has no equivalent")
        return frozenset(char)

    def _property(self) -> frozenset[str]:
        name = self._name("{", "}") if self._text.startswith("{", self._at) else self._next()
        found = _PROPERTIES.get(name, _PROPERTIES.get(name.removeprefix("Is")))
        if found is None:
            raise self._error(f"the property {name} has no equivalent")
        return found

    def _code(self, digits: int) -> str:
        text = self._text[self._at : self._at + digits]
        self._at += digits
        try:
            return chr(int(text, 16))
        except ValueError:
            raise self._error(f"{text!r} is not a number of {digits} digits to base 16") from None

    def _name(self, opening: str, closing: str) -> str:
        end = self._text.find(closing, self._at)
        if not self._text.startswith(opening, self._at) or end < 0:
            raise self._error(f"{opening}...{closing} is missing")
        name = self._text[self._at + 1 : end]
        self._at = end + 1
        return name

    # -- Groups

    def _group(self) -> str:
        """Return the beginning of a group that begins with a question mark."""
        for same in ("?:", "?=", "?!", "?<=", "?<!", "?>"):
            if self._text.startswith(same, self._at):
                self._at += len(same)
                return "(" + same
        if self._text.startswith("?<", self._at):
            self._at += 1
            return f"(?P<{self._name('<', '>')}>"
        flags = re.compile(r"\?([is]*)(-[is]+)?([:)])").match(self._text, self._at)
        if flags is None:
            raise self._error("its flags have no equivalent (i and s have)")
        on, off, end = flags.groups()
        if end == ")" and (off or self._at != 1):
            raise self._error("flags for the rest of a pattern can stand at its beginning alone")
        self._at = flags.end()
        return f"(?{on}{off or ''}{end}"

    # -- Classes

    def _class(self) -> frozenset[str]:
        """Return the characters of a class whose opening bracket was read; intersections bind weakest."""
        negated = self._text.startswith("^", self._at)
        self._at += negated
        found: frozenset[str] | None = None
        while True:
            union, is_last = self._union()
            found = union if found is None else found & union
            if is_last:
                return _ALL - found if negated else found

    def _union(self) -> tuple[frozenset[str], bool]:
        """Return the characters up to `&&` or the closing bracket, and whether it was the bracket."""
        found: frozenset[str] = frozenset()
        is_first = True
        while True:
            if self._text.startswith("&&", self._at):
                self._at += 2
                return found, False
            char = self._next()
            if char == "]" and not is_first:
                return found, True
            found |= self._class() if char == "[" else self._range_from(char)
            is_first = False

    def _range_from(self, char: str) -> frozenset[str]:
        """Return one member of a class: a character, an escape, or a range."""
        members = self._set_of_escape(self._next()) if char == "\\" else frozenset(char)
        behind = self._text[self._at + 1 : self._at + 2]
        is_range = self._text.startswith("-", self._at) and behind not in ("]", "[", "")
        if len(members) != 1 or not is_range:
            return members
        self._at += 1
        last = self._next()
        ends = self._set_of_escape(self._next()) if last == "\\" else frozenset(last)
        (first,) = members
        if len(ends) != 1 or next(iter(ends)) < first:
            raise self._error(f"the range that begins with {first} has no end behind it")
        return frozenset(map(chr, range(ord(first), ord(next(iter(ends))) + 1)))


def _listed(members: frozenset[str]) -> str:
    """Return a class of Python's with those characters that a name can have."""
    legal = "".join(re.escape(each) for each in sorted(members & LEGAL))
    # No character at all: a look-ahead that always fails.
    return f"[{legal}]" if legal else "(?!)"
