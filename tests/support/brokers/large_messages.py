"""Requests that are as large as a client can make them: every array filled, at every level."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from odradek.protocol.schema import Field, Message, Struct, span

# A topic that exists, in which the arrays of partitions are filled.
TOPIC = "t"
# An int8 says of what kind something is. 0 is UNKNOWN in the elements of ACLs, for which a connection is closed, and
# ANY and MATCH may not be created.
KNOWN = 3
_EMPTY: dict[str, str | bytes] = {"string": "", "bytes": b"", "uuid": bytes(16)}
_NAMES = {"name", "topic", "topic_name", "resource_name"}


def largest_requests(cls: type[Message], version: int, values: int) -> Iterator[tuple[str, Message]]:
    """Yield (name of the shape, request) for each array of a request, at any level, filled with `values` in all."""
    yield from _largest(cls, version, values)


def emptiest_requests(cls: type[Struct], version: int, values: int) -> Iterator[tuple[str, Any]]:
    """Yield the same with elements that are all alike, and as small as they can be."""
    for field in _arrays(cls, version):
        empty: Any = field.struct()() if field.of is None else _EMPTY.get(field.of, 0)
        yield field.name, _filled(cls(), field.name, [empty] * values)
        for shape, inner in emptiest_requests(field.struct(), version, values - 1) if field.of is None else ():
            yield f"{field.name}.{shape}", _filled(cls(), field.name, [inner])


def _largest(cls: type[Struct], version: int, values: int) -> Iterator[tuple[str, Any]]:
    for field in _arrays(cls, version):
        yield field.name, _filled(cls(), field.name, _elements(field, version, values))
        if field.of is not None:
            continue
        for shape, inner in _largest(field.struct(), version, values - 1):
            element = _named(field, _copied(inner, _elements(field, version, 1)[0]))
            yield f"{field.name}.{shape}", _filled(cls(), field.name, [element])
        for inner in _arrays(field.struct(), version):
            one = _elements(inner, version, 1)
            pairs = [_filled(each, inner.name, one) for each in _elements(field, version, values // 2)]
            yield f"{field.name}+{inner.name}", _filled(cls(), field.name, pairs)


def _copied(filled: Any, element: Any) -> Any:
    """Return `element` with the arrays of `filled`."""
    for field in element.FIELDS:
        if field.kind == "array" and getattr(filled, field.name):
            setattr(element, field.name, getattr(filled, field.name))
    return element


def _named(field: Field, element: Any) -> Any:
    """Name the topic that exists."""
    for name in _NAMES & {each.name for each in field.struct().FIELDS}:
        setattr(element, name, TOPIC)
    return element


def _arrays(cls: type[Struct], version: int) -> list[Field]:
    return [field for field in cls.FIELDS if field.kind == "array" and version in span(field.versions)]


def _filled(struct: Any, name: str, elements: list[Any]) -> Any:
    setattr(struct, name, elements)
    return struct


def _elements(field: Field, version: int, count: int) -> list[Any]:
    """Return so many elements, no two of them alike."""
    if field.of is not None:
        return _leaves(field.of, count)
    struct, kinds = _plain(field, version)
    elements = [struct() for _ in range(count)]
    for name, kind in kinds:
        leaves = [KNOWN] * count if kind == "int8" else _leaves(kind, count)
        for element, leaf in zip(elements, leaves, strict=True):
            setattr(element, name, leaf)
    return elements


@cache
def _plain(field: Field, version: int) -> tuple[type[Struct], list[tuple[str, str]]]:
    """Return the struct of an array's elements, with the names and kinds of those fields that get a value."""
    struct = field.struct()
    in_line = (each for each in struct.FIELDS if version in span(each.versions) and each.tag is None)
    return struct, [(each.name, each.kind) for each in in_line if each.kind in ("string", "int32", "uuid", "int8")]


def _leaves(kind: str, count: int) -> list[Any]:
    match kind:
        case "string":
            return [f"n{at}" for at in range(count)]
        case "uuid":
            return [at.to_bytes(16, "big") for at in range(count)]
        case "bytes":
            return [b"%d" % at for at in range(count)]
        case _:
            return [at % 100 for at in range(count)] if kind == "int8" else list(range(count))
