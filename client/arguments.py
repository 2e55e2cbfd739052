"""What callers mix up: arguments that are given one by one, and lists.

Other clients take a list where this one takes names, and the other way round. Python's own errors for it, such as
"unhashable type: 'list'", do not say what to write.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast


def is_partition(value: object) -> bool:
    """Return whether `value` is a TopicPartition, or a pair that equals one."""
    if not isinstance(value, tuple):
        return False
    pair = cast("tuple[object, ...]", value)
    return len(pair) == 2 and isinstance(pair[0], str) and isinstance(pair[1], int)


def check_apart(call: str, given: Iterable[object]) -> None:
    """Raise TypeError if one of the arguments of `call`, which takes them one by one, is a list of them."""
    for each in given:
        if not (isinstance(each, str) or is_partition(each)) and isinstance(each, Iterable):
            kind = type(cast("object", each)).__name__
            raise TypeError(f"{call} takes them one by one, not in a {kind}: write {call}(*...), with a star before it")


def check_list(call: str, given: object) -> None:
    """Raise TypeError if the argument of `call`, which takes several things, is one of them."""
    if isinstance(given, str) or is_partition(given) or not isinstance(given, Iterable):
        raise TypeError(f"{call} takes several things, not one alone: write {call}([...]), with brackets around it")
