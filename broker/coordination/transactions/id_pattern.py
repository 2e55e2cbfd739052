"""Patterns that filter transactional ids in ListTransactions (KIP-1152): a part of the RE2 language.

Characters, `.`, `\\` before what is not a letter or digit, `\\d \\w \\s \\D \\W \\S`, classes (`[a-z]`, `[^...]`),
groups, `|`, `*`, `+`, `?`, `{2}`, `{2,}`, `{2,5}`, each also lazy (`*?`), `(?i)` in front, `^` and `$` at the ends.
Anything else is invalid. A match takes at most time in proportion to pattern times text. With Python's `re` one pattern
could stop the broker. An id may be 32 KiB long, for which the worst pattern takes seconds, so a match goes in steps.

A pattern becomes a list of steps: (test, 0, 0) takes a character that passes the test, (None, a, b) continues both at
the step a further on and at the step b further on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator

# In characters. An id of usual length takes some milliseconds at most.
MAX_PATTERN = 250
# Of groups inside groups, because they are read by recursion.
MAX_DEPTH = 50
# Of `{...}`, as in RE2.
MAX_COUNT = 1000
# Counts multiply steps, and each character may visit each step.
MAX_STEPS = 500

Test = Callable[[str], bool]
Step = tuple[Test | None, int, int]
# Matches a text: yields how many values of a response the work since the last one equals, and returns the answer.
Match = Generator[int, None, bool]
# So many visits of a step take as long as a value of a response does (large_response.py).
VISITS_PER_VALUE = 6

_OF: dict[str, Test] = {
    "d": lambda each: each in "0123456789",
    "w": lambda each: each.isascii() and (each.isalnum() or each == "_"),
    "s": lambda each: each in "\t\n\f\r ",
}
_NAMED: dict[str, Test] = {
    **_OF,
    **{name.upper(): lambda each, test=test: not test(each) for name, test in _OF.items()},
}
_COUNTED = re.compile(r"\{(\d{1,4})(,(\d{0,4}))?\}")
_COUNTS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_ANY_CASE = "(?i)"


class InvalidPattern(Exception):
    """A pattern that this broker does not understand."""


def matcher(pattern: str) -> Callable[[str], Match]:
    """Return the function that matches a whole text. InvalidPattern if the pattern is none."""
    if len(pattern) > MAX_PATTERN:
        raise InvalidPattern(f"a pattern of {len(pattern)} characters, more than {MAX_PATTERN}")
    fold = pattern.startswith(_ANY_CASE)
    steps = _Reader(pattern.removeprefix(_ANY_CASE).removeprefix("^"), fold).read()
    return lambda text: _match(steps, text)


def _match(steps: list[Step], text: str) -> Match:
    current = _reach(steps, {0})
    for each in text:
        yield 1 + len(current) // VISITS_PER_VALUE
        current = _reach(steps, {at + 1 for at in current if at < len(steps) and _takes(steps[at], each)})
        if not current:
            return False
    return len(steps) in current


def _takes(step: Step, each: str) -> bool:
    return step[0] is not None and step[0](each)


def _reach(steps: list[Step], places: set[int]) -> set[int]:
    """Add all places that can be reached without taking a character."""
    todo = list(places)
    while todo:
        at = todo.pop()
        if at < len(steps) and steps[at][0] is None:
            fresh = {at + steps[at][1], at + steps[at][2]} - places
            places |= fresh
            todo.extend(fresh)
    return places


def _bounds(counted: re.Match[str]) -> tuple[int, int | None]:
    low = int(counted[1])
    high = low if counted[2] is None else int(counted[3]) if counted[3] else None
    if max(low, high or 0) > MAX_COUNT or (high is not None and high < low):
        raise InvalidPattern(f"{counted[0]} is no count")
    return low, high


class _Reader:
    """Reads a pattern from left to right."""

    def __init__(self, pattern: str, fold: bool = False) -> None:
        self._text = pattern
        self._fold = fold
        self._at = 0
        self._depth = 0

    def read(self) -> list[Step]:
        steps = self._either()
        if self._at < len(self._text) and self._text[self._at :] != "$":
            raise InvalidPattern(f"{self._text[self._at]!r} at {self._at} has no meaning there")
        if len(steps) > MAX_STEPS:
            raise InvalidPattern(f"more than {MAX_STEPS} steps")
        return steps

    def _peek(self) -> str:
        return self._text[self._at] if self._at < len(self._text) else ""

    def _take(self) -> str:
        each = self._peek()
        if not each:
            raise InvalidPattern("it ends too early")
        self._at += 1
        return each

    def _either(self) -> list[Step]:
        steps = self._sequence()
        while self._peek() == "|":
            self._at += 1
            other = self._sequence()
            steps = [(None, 1, len(steps) + 2), *steps, (None, len(other) + 1, len(other) + 1), *other]
        return steps

    def _sequence(self) -> list[Step]:
        steps: list[Step] = []
        while self._peek() not in ("", "|", ")", "$"):
            steps += self._repeated(self._one())
        return steps

    def _repeated(self, one: list[Step]) -> list[Step]:
        low, high = self._count()
        if (low, high) == (1, 1):
            return one
        if len(one) * max(low, high or 0) > MAX_STEPS:
            raise InvalidPattern(f"more than {MAX_STEPS} steps")
        size = len(one)
        if high is None:
            return (
                [*one * (low - 1), *one, (None, -size, 1)] if low else [(None, 1, size + 2), *one, (None, -size - 1, 1)]
            )
        maybe: list[Step] = []
        for _ in range(high - low):
            maybe = [(None, 1, size + len(maybe) + 1), *one, *maybe]
        return [*one * low, *maybe]

    def _count(self) -> tuple[int, int | None]:
        """Read how often the last part may repeat: at least and at most, None for no limit.

        Lazy repetition is the same, because whole texts are matched.
        """
        kind = self._peek()
        counted = _COUNTED.match(self._text, self._at)
        if not kind or (kind not in _COUNTS and counted is None):
            return 1, 1
        low, high = _COUNTS.get(kind, (0, None)) if counted is None else _bounds(counted)
        self._at += 1 if counted is None else len(counted[0])
        self._at += self._peek() == "?"
        if self._peek() and self._peek() in "*+?{":
            raise InvalidPattern(f"{self._peek()!r} at {self._at} has no meaning there")
        return low, high

    def _one(self) -> list[Step]:
        each = self._take()
        if each == "(":
            return self._group()
        if each == "[":
            return [(self._class(), 0, 0)]
        if each == ".":
            return [(lambda taken: taken != "\n", 0, 0)]
        if each == "\\":
            return [(self._escaped(), 0, 0)]
        if each in "*+?{}]^":
            raise InvalidPattern(f"{each!r} at {self._at - 1} has no meaning there")
        return [(self._character(each), 0, 0)]

    def _character(self, each: str) -> Test:
        return (lambda taken: taken.casefold() == each.casefold()) if self._fold else each.__eq__

    def _group(self) -> list[Step]:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise InvalidPattern(f"more than {MAX_DEPTH} groups in one another")
        if self._text.startswith("?:", self._at):
            self._at += 2
        steps = self._either()
        if self._take() != ")":
            raise InvalidPattern("a group does not end")
        self._depth -= 1
        return steps

    def _escaped(self) -> Test:
        each = self._take()
        if each in _NAMED:
            return _NAMED[each]
        if each.isalnum():
            raise InvalidPattern(f"\\{each} is not known here")
        return self._character(each)

    def _class(self) -> Test:
        negated = self._peek() == "^"
        self._at += negated
        tests: list[Test] = []
        while self._peek() != "]" or not tests:
            tests.append(self._range())
        self._at += 1
        return lambda each: any(test(each) for test in tests) is not negated

    def _range(self) -> Test:
        low = self._take()
        if low == "\\":
            return self._escaped()
        if self._peek() != "-" or self._text[self._at + 1 : self._at + 2] in ("", "]"):
            return self._character(low)
        self._at += 1
        high = self._take()
        if high < low:
            raise InvalidPattern(f"{low}-{high} is empty")
        if self._fold:
            return lambda each: low <= each.lower() <= high or low <= each.upper() <= high
        return lambda each: low <= each <= high
