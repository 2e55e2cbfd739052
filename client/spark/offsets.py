"""Offsets, partitions and patterns of topics in the options of users.

{"topic": {"0": 23, "1": -2}}     offsets: -2 is the earliest, -1 the latest
{"topic": [0, 1]}                 partitions (`assign`)

flights-.*                        topics (`subscribePattern`)
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from ..record import EARLIEST, LATEST, TopicPartition
from .errors import OptionError

_SENTINELS = {"earliest": EARLIEST, "latest": LATEST}

MAX_OFFSET = 2**63 - 1
MAX_PARTITION = 2**31 - 1
_MAX_DIGITS = len(str(MAX_PARTITION))


@dataclass(frozen=True, slots=True)
class OffsetLimit:
    """The start or the end of a read: one sentinel or time for all partitions, or an offset, sentinel or time for each.

    A time in milliseconds means the first record at or after it.
    """

    everywhere: int | None
    specific: dict[TopicPartition, int]
    is_time: bool = False
    # What a time means in a partition that has no record at or after it: a sentinel, or None for an error.
    without_record: int | None = None

    def of(self, partition: TopicPartition) -> int:
        """Return the offset or sentinel of `partition`. Without `everywhere`, `specific` must hold it."""
        return self.specific[partition] if self.everywhere is None else self.everywhere


def parse_limit(option: str, text: str) -> OffsetLimit:
    """Return the limit that `text` means: `earliest`, `latest` or JSON. Raises OptionError."""
    sentinel = _SENTINELS.get(text.strip().lower())
    if sentinel is not None:
        return OffsetLimit(sentinel, {})
    what = "offset (-2 earliest, -1 latest, 0 and up)"
    return OffsetLimit(None, _numbers_by_partition(option, text, EARLIEST, what))


def parse_times(option: str, text: str) -> dict[TopicPartition, int]:
    """Return the milliseconds of each partition in JSON. Raises OptionError."""
    return _numbers_by_partition(option, text, 0, "time in milliseconds")


def _numbers_by_partition(option: str, text: str, least: int, what: str) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for topic, partitions in _json_object(option, text).items():
        if not isinstance(partitions, dict):
            raise OptionError(option, f"topic '{topic}' needs its partitions and numbers, as {_OFFSETS_EXAMPLE}")
        for index, number in cast("dict[str, object]", partitions).items():
            partition = TopicPartition(topic, _partition(option, topic, index))
            if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= MAX_OFFSET:
                raise OptionError(option, f"{topic}-{index}: {number!r} is no {what}")
            found[partition] = number
    return found


def parse_assign(option: str, text: str) -> tuple[TopicPartition, ...]:
    """Return the partitions in the JSON of `text`, sorted and each once. Raises OptionError."""
    found: set[TopicPartition] = set()
    for topic, numbers in _json_object(option, text).items():
        if not isinstance(numbers, list):
            raise OptionError(option, f"topic '{topic}' needs a list of partitions, as {_ASSIGN_EXAMPLE}")
        for number in cast("list[object]", numbers):
            if not isinstance(number, int) or isinstance(number, bool):
                raise OptionError(option, f"topic '{topic}': {number!r} is no partition")
            found.add(TopicPartition(topic, _partition(option, topic, number)))
    if not found:
        raise OptionError(option, f"no partitions to read; write them as {_ASSIGN_EXAMPLE}")
    return tuple(sorted(found))


_OFFSETS_EXAMPLE = '{"topic": {"0": 23, "1": -2}}'
_ASSIGN_EXAMPLE = '{"topic": [0, 1]}'


def _json_object(option: str, text: str) -> dict[str, object]:
    example = _ASSIGN_EXAMPLE if option == "assign" else f"'earliest', 'latest' or JSON like {_OFFSETS_EXAMPLE}"
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:  # no JSON, a number of thousands of digits, or thousands of levels
        raise OptionError(option, f"'{text}' is not {example}: {error}") from None
    if not isinstance(value, dict):
        raise OptionError(option, f"'{text}' is not {example}")
    return cast("dict[str, object]", value)


def _partition(option: str, topic: str, number: str | int) -> int:
    # Texts are names in JSON; int() would also take "0_1" and " 1".
    is_number = isinstance(number, int) or (number.isdecimal() and len(number) <= _MAX_DIGITS)
    partition = int(number) if is_number else -1
    if not 0 <= partition <= MAX_PARTITION:
        raise OptionError(option, f"topic '{topic}': {number!r} is no partition")
    return partition


# -- Patterns of topics: the part of Java's regular expressions that Python shares. A pattern means the same in both, or
# it is rejected with the reason: one that quietly means something else would read the wrong topics. As in Spark's own
# connector, a pattern is searched anywhere in the name unless it is anchored.

_PIECE = re.compile(r"\\.?|\(\?(?:<[=!]|[^<]|<)|\[\^?\]?|\]|&&|\{,|.", re.DOTALL)
# Letters and digits behind a backslash, and what follows "(?", which mean the same in both.
_ESCAPES, _ESCAPES_OF_A_CLASS = frozenset("dDwWsSbB123456789tnrfax"), frozenset("dDwWsStnrfax")
_GROUPS = frozenset({"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i", "(?m", "(?s", "(?-"})


def compile_pattern(option: str, text: str) -> re.Pattern[str]:
    """Return Python's pattern for Java's. `search` it. Raises OptionError."""
    if not text:
        raise OptionError(option, "the pattern is empty")
    for piece in _not_shared(text):
        raise OptionError(option, f"'{text}': Python does not read {piece} as Java does: write it in another way")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return re.compile(text, re.ASCII)
    except (re.error, OverflowError, FutureWarning, DeprecationWarning) as error:
        raise OptionError(option, f"'{text}' is not a regular expression: {error}") from None


def _not_shared(text: str) -> Iterator[str]:
    in_class = False
    for match in _PIECE.finditer(text):
        piece = match[0]
        if piece[0] == "\\":
            known = _ESCAPES_OF_A_CLASS if in_class else _ESCAPES
            if piece[1:].isalnum() and piece[1:] not in known:
                yield piece
        elif in_class:
            if piece[0] == "[" or piece == "&&":
                yield f"{piece} inside of []"
            in_class = piece != "]"
        elif piece[0] == "[":
            if piece[-1] == "]":
                yield piece
            in_class = True
        elif piece == "{," or (piece.startswith("(?") and piece not in _GROUPS):
            yield piece
