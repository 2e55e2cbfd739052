"""What callers mix up: arguments that are given one by one, and lists; and the names of methods.

Other clients take a list where this one takes names, and the other way round, and call some methods otherwise. Python's
own errors for it, such as "unhashable type: 'list'", do not say what to write.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Mapping
from operator import index
from typing import TYPE_CHECKING, SupportsIndex, cast

from ...protocol.topic_partition import TopicPartition
from ..errors import InvalidOption
from ..record import OffsetAndMetadata

# What to call instead of a method of another Python client. docs/from-other-clients.md has all of them.
_METHODS_INSTEAD = {
    "bootstrap_connected": "is_connected tells it",
    "close": "call stop(), or use `with` or `async with`",
    "commit_async": "call commit()",
    "highwater": "call high_watermark(partition)",
    "incremental_alter_configs": "call alter_configs, which leaves the other configs as they are",
    "init_transactions": "start() does it",
    "list_topics": "call Admin.list_topics(), or partitions_for(topic)",
    "partitions_for_topic": "call partitions_for(topic)",
    "poll": "a consumer has getmany(timeout_ms=...) and getone(); a producer needs no polls",
    "produce": "call send(topic, value, key=...)",
    "seek_to_committed": "call seek(partition, offset) with the offset that committed(partition) returns",
    "topics": "call Admin.list_topics()",
    "unassign": "call unsubscribe()",
}


class KnowsOtherNames:
    """A client that says what to call where somebody calls a method of another client."""

    if not TYPE_CHECKING:  # a type checker would take every name

        def __getattr__(self, name: str) -> object:
            instead = _METHODS_INSTEAD.get(name)
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(text if instead is None else f"{text}: {instead}", name=name, obj=self)


def is_partition(value: object) -> bool:
    """Return whether `value` is a TopicPartition, or a pair that equals one."""
    if not isinstance(value, tuple):
        return False
    pair = cast("tuple[object, ...]", value)
    return len(pair) == 2 and isinstance(pair[0], str) and isinstance(pair[1], int)


def whole_number(value: object, name: str) -> int:
    """Return a whole number, such as numpy's, as an int. Raises TypeError for anything else, also for a float."""
    try:
        return index(cast("SupportsIndex", value))
    except TypeError:
        raise TypeError(f"{name} must be an int, not {type(value).__name__}") from None


def checked_offset(given: int | OffsetAndMetadata) -> OffsetAndMetadata:
    """Return an offset with its metadata. Raises TypeError, and InvalidOption for one below 0."""
    offset = given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(whole_number(given, "an offset"))
    if whole_number(offset.offset, "an offset") < 0:
        raise InvalidOption(f"an offset is 0 or more, not {offset.offset}")
    return offset


def check_topic(name: object) -> None:
    """Raise TypeError unless `name` can be the name of a topic: metadata are asked for all watched topics at once."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a topic is a str, not {type(name).__name__}")


def check_mapping(call: str, given: object, of_what: str) -> None:
    """Raise TypeError unless the argument of `call` is a dict or the like."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{call} takes a dict of {of_what}, not a {type(given).__name__}")


def check_partitions(call: str, given: Iterable[object]) -> None:
    """Raise TypeError unless each element of the list that `call` takes is a TopicPartition."""
    for each in given:
        if not is_partition(each):
            raise TypeError(f"{call} takes TopicPartition(topic, number), from odradek.client, not {each!r:.100}")


def as_partition(call: str, given: TopicPartition) -> TopicPartition:
    """Return a TopicPartition, also for a pair that equals one. Raises TypeError for anything else."""
    check_partitions(call, [given])
    return TopicPartition(*given)


def check_apart(call: str, given: Iterable[object]) -> None:
    """Raise TypeError if one of the arguments of `call`, which takes them one by one, is a list of them."""
    for each in given:
        if not (isinstance(each, str) or is_partition(each)) and isinstance(each, Iterable):
            kind = type(cast("object", each)).__name__
            if isinstance(each, Mapping):
                raise TypeError(f"{call} takes options by name, not in a dict: write {call}(bootstrap_servers=...)")
            if isinstance(each, bytes | bytearray):
                raise TypeError(f"{call} takes names as str, not {kind}")
            raise TypeError(f"{call} takes them one by one, not in a {kind}: write {call}(*...), with a star before it")


def check_list(call: str, given: object) -> None:
    """Raise TypeError if the argument of `call`, which takes several things, is one of them."""
    if isinstance(given, str) or is_partition(given) or not isinstance(given, Iterable):
        raise TypeError(f"{call} takes several things, not one alone: write {call}([...]), with brackets around it")


def check_records(call: str, given: object) -> None:
    """Raise TypeError unless the records that `call` takes come from a plain iterable."""
    if isinstance(given, AsyncIterable):
        text = f"{call} takes an iterable, not an async one: write `async for key, value in ...: await send(...)`"
        raise TypeError(text)
    if not isinstance(given, Iterable):
        raise TypeError(f"{call} takes an iterable of pairs of key and value, not a {type(given).__name__}")
