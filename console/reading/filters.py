"""Filters of records: a small language that can do nothing but compare.

    value.user.id == 42 and key ~ "^a"          a field of a JSON (Avro, MessagePack) value, a regular expression
    headers.trace contains "x" or offset >= 9   a header, the record's place
    not (value.tags[0] == "new") and "timeout"  a text alone: the key or the value contains it

    condition   = all { "or" all }
    all         = one { "and" one }
    one         = "not" one | "(" condition ")" | compared
    compared    = operand [ ("==" | "!=" | "<" | "<=" | ">" | ">=" | "~" | "contains") operand ]
    operand     = "text" | 'text' | number | true | false | null | field
    field       = (key | value | headers | topic | partition | offset | timestamp | size)
                  { .name | [number] | ["name"] }

A field that is not there is null. Values of different types are not equal, and none is above the other. `~` is RE2,
whose time is in proportion to the text. Promise: no expression of any length runs code, recurses without a bound or
takes more than linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple, cast

from ...client.record import ConsumerRecord
from ...web.exchange import HttpError
from .decoding import SchemaDecoder, decode

MAX_CHARS = 1_000
MAX_DEPTH = 30
# In RE2's instructions and in characters: a match takes some 20 ms at most.
MAX_PROGRAM = 200
MAX_MATCHED = 64 << 10

_FIELDS = ("key", "value", "headers", "topic", "partition", "offset", "timestamp", "size")
_CONSTANTS = {"true": True, "false": False, "null": None}
_OPERATORS = ("==", "!=", "<=", ">=", "<", ">", "~", "contains")
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<number>-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)
    |(?P<word>[A-Za-z_][\w-]*)
    |(?P<mark>==|!=|<=|>=|[<>~()\[\].]))""",
    re.VERBOSE,
)


class InvalidFilter(HttpError):
    """A text that is no filter; the message says where and why."""

    def __init__(self, why: str) -> None:
        super().__init__(400, f"The filter: {why}")


class Candidate:
    """A record that a filter looks at. What a filter does not ask for is not decoded."""

    def __init__(self, record: ConsumerRecord, key_form: str, value_form: str, by_schema: SchemaDecoder | None) -> None:
        self.record = record
        self._forms = key_form, value_form
        self._by_schema = by_schema

    @cached_property
    def key(self) -> Any:
        return decode(self.record.key, self._forms[0], self._by_schema)

    @cached_property
    def value(self) -> Any:
        return decode(self.record.value, self._forms[1], self._by_schema)

    def field(self, name: str) -> Any:
        """Return a field of `_FIELDS`."""
        record = self.record
        match name:
            case "key" | "value":
                return getattr(self, name).value
            case "headers":
                return {each: decode(data).value for each, data in record.headers}
            case "timestamp":
                return record.timestamp_ms
            case "size":
                return len(record.value or b"")
            case _:
                return getattr(record, name)

    def contains(self, text: str) -> bool:
        """Tell whether the text of the key or of the value contains another."""
        return text in self.key.text or text in self.value.text


Predicate = Callable[[Candidate], bool]
_Operand = Callable[[Candidate], Any]


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


def read_filter(text: str) -> Predicate | None:
    """Return the filter that a text is, None for an empty one. Raises InvalidFilter."""
    if len(text) > MAX_CHARS:
        raise InvalidFilter(f"a filter has {MAX_CHARS} characters at most")
    tokens = _tokens(text)
    return _Parser(tokens, len(text)).whole() if tokens else None


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    position = 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None:
            raise InvalidFilter(f"not understood from character {position + 1} on: {text[position:].strip()[:20]!r}")
        assert match.lastgroup is not None
        found.append(_Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
        position = match.end()
    return found


class _Parser:
    """Reads tokens from left to right, one function a rule of the grammar."""

    def __init__(self, tokens: list[_Token], length: int) -> None:
        self._tokens = tokens
        self._next = 0
        self._depth = 0
        self._length = length

    def whole(self) -> Predicate:
        found = self._condition()
        if self._next < len(self._tokens):
            raise self._unexpected("and, or")
        return found

    def _condition(self) -> Predicate:
        return self._joined("or", self._all, any)

    def _all(self) -> Predicate:
        return self._joined("and", self._one, all)

    def _joined(self, word: str, read: Callable[[], Predicate], holds: Callable[[Iterable[bool]], bool]) -> Predicate:
        parts = [read()]
        while self._take(word):
            parts.append(read())
        return parts[0] if len(parts) == 1 else lambda record: holds(part(record) for part in parts)

    def _one(self) -> Predicate:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise InvalidFilter(f"more than {MAX_DEPTH} levels of not and brackets")
        try:
            if self._take("not"):
                negated = self._one()
                return lambda record: not negated(record)
            if self._take("("):
                inner = self._condition()
                self._expect(")")
                return inner
            return self._compared()
        finally:
            self._depth -= 1

    def _compared(self) -> Predicate:
        is_text = self._peek().kind == "text"
        left = self._operand()
        operator = self._peek().text if self._peek().kind in ("mark", "word") else ""
        if operator not in _OPERATORS:
            return _alone(left, is_text)
        self._next += 1
        if operator == "~":
            return _matching(left, self._pattern())
        right = self._operand()
        compare = _COMPARISONS[operator]
        return lambda record: compare(left(record), right(record))

    def _pattern(self) -> Any:
        token = self._peek()
        if token.kind != "text":
            raise self._unexpected("a pattern in quotation marks")
        self._next += 1
        return _compiled(_unquoted(token.text))

    def _operand(self) -> _Operand:
        token = self._peek()
        self._next += 1
        if token.kind == "text":
            text = _unquoted(token.text)
            return lambda _: text
        if token.kind == "number":
            number = _number(token.text)
            return lambda _: number
        if token.text in _CONSTANTS:
            constant = _CONSTANTS[token.text]
            return lambda _: constant
        if token.text in _FIELDS:
            return self._field(token.text)
        self._next -= 1
        raise self._unexpected(f"one of {', '.join(_FIELDS)}, a text, or a number")

    def _field(self, name: str) -> _Operand:
        steps: list[str | int] = []
        while True:
            if self._take("."):
                steps.append(self._name())
            elif self._take("["):
                steps.append(self._index())
                self._expect("]")
            else:
                return lambda record: _walked(record.field(name), steps)

    def _name(self) -> str:
        token = self._peek()
        if token.kind != "word":
            raise self._unexpected("a name")
        self._next += 1
        return token.text

    def _index(self) -> str | int:
        token = self._peek()
        if token.kind == "text":
            self._next += 1
            return _unquoted(token.text)
        if token.kind != "number" or not token.text.isdigit():
            raise self._unexpected("a number or a name in quotation marks")
        self._next += 1
        return int(token.text)

    def _peek(self) -> _Token:
        return self._tokens[self._next] if self._next < len(self._tokens) else _Token("end", "", self._length)

    def _take(self, text: str) -> bool:
        token = self._peek()
        if token.text != text or token.kind == "text":
            return False
        self._next += 1
        return True

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise self._unexpected(text)

    def _unexpected(self, wanted: str) -> InvalidFilter:
        token = self._peek()
        found = f"{token.text!r}" if token.kind != "end" else "the end"
        return InvalidFilter(f"at character {token.position + 1}: expected {wanted}, found {found}")


def _unquoted(token: str) -> str:
    return re.sub(r"\\(.)", r"\1", token[1:-1]) if token[0] == "'" or "\\" in token else token[1:-1]


def _number(text: str) -> int | float:
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _compiled(pattern: str) -> Any:
    try:
        re2: Any = import_module("re2")  # RE2 has no types
    except ModuleNotFoundError:
        raise InvalidFilter("patterns need google-re2, which is not installed here") from None
    options = re2.Options()
    options.log_errors = False
    try:
        program = re2.compile(pattern, options)
    except re2.error as error:
        raise InvalidFilter(f"{pattern!r} is no pattern: {error.args[0].decode()}") from None
    if program.programsize > MAX_PROGRAM:
        raise InvalidFilter(f"{pattern!r} is too long a pattern")
    return program


def _alone(operand: _Operand, is_text: bool) -> Predicate:
    """Return the meaning of an operand without a comparison: a text is contained, another is neither null nor false."""
    if is_text:
        return lambda record: record.contains(operand(record))
    return lambda record: (found := operand(record)) is not None and found is not False


def _matching(operand: _Operand, program: Any) -> Predicate:
    return lambda record: (found := operand(record)) is not None and program.search(_searched(found)) is not None


def _searched(value: Any) -> bytes:
    """Return what RE2 looks at. JSON may hold half of a surrogate pair, which is no UTF-8."""
    return _text(value)[:MAX_MATCHED].encode("utf-8", "replace")


def _walked(value: Any, steps: list[str | int]) -> Any:
    for step in steps:
        if isinstance(value, dict) and isinstance(step, str):
            value = cast("dict[str, Any]", value).get(step)
        elif isinstance(value, list) and isinstance(step, int):
            items = cast("list[Any]", value)
            value = items[step] if step < len(items) else None
        else:
            return None
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def _are_comparable(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return False
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    return numbers or (isinstance(left, str) and isinstance(right, str))


def _is_equal(left: Any, right: Any) -> bool:
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def _contains(left: Any, right: Any) -> bool:
    if isinstance(left, list):
        return any(_is_equal(each, right) for each in cast("list[Any]", left))
    return left is not None and _text(right) in _text(left)


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": _is_equal,
    "!=": lambda left, right: not _is_equal(left, right),
    "<": lambda left, right: _are_comparable(left, right) and left < right,
    "<=": lambda left, right: _are_comparable(left, right) and left <= right,
    ">": lambda left, right: _are_comparable(left, right) and left > right,
    ">=": lambda left, right: _are_comparable(left, right) and left >= right,
    "contains": _contains,
}
