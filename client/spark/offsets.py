"""Offsets in the options of users, and ranges of offsets for tasks: JSON, sentinels, and the division of ranges.

    {"topic": {"0": 23, "1": -2}}     offsets: -2 is the earliest, -1 the latest
    {"topic": [0, 1]}                 partitions (`assign`)

A range is [start, end), and one task reads it. Dividing ranges loses no offset and repeats none. All of it is pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from heapq import heapify, heapreplace
from itertools import pairwise
from typing import cast

from ..arrow.fetch import OffsetRange
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


def divide(
    ranges: list[OffsetRange],
    min_pieces: int | None = None,
    max_size: int | None = None,
    bytes_each: Mapping[TopicPartition, float] | None = None,
) -> list[OffsetRange]:
    """Return the ranges that are not empty, cut into at least `min_pieces`, none with more than `max_size` offsets.

    Cuts for `min_pieces` go where a piece has the most bytes, by the mean bytes of an offset in each partition; without
    `bytes_each` where it has the most offsets. The number of offsets bounds the number of pieces.
    """
    ranges = [found for found in ranges if found.size > 0]
    counts = [1 if max_size is None else -(-found.size // max_size) for found in ranges]
    if min_pieces is not None:
        means = bytes_each or {}
        weights = [found.size * means.get(TopicPartition(found.topic, found.partition), 1.0) for found in ranges]
        _raise_to(min_pieces, [found.size for found in ranges], weights, counts)
    return [piece for found, count in zip(ranges, counts, strict=True) for piece in _cut(found, count)]


def _raise_to(wanted: int, sizes: list[int], weights: list[float], counts: list[int]) -> None:
    """Grow the numbers of pieces until their sum is `wanted`, always cutting where a piece is heaviest."""

    def place(number: int) -> tuple[float, int]:
        # A range of as many pieces as offsets comes last: it cannot be cut again.
        return (-weights[number] / counts[number] if counts[number] < sizes[number] else 1.0), number

    heap = [place(number) for number in range(len(counts))]
    heapify(heap)
    for _ in range(min(wanted, sum(sizes)) - sum(counts)):
        _, number = heap[0]
        counts[number] += 1
        heapreplace(heap, place(number))


def _cut(found: OffsetRange, count: int) -> list[OffsetRange]:
    edges = [found.start + found.size * number // count for number in range(count + 1)]
    pieces = [replace(found, start=start, end=end) for start, end in pairwise(edges)]
    return [pieces[0], *(replace(each, is_first=False) for each in pieces[1:])]
