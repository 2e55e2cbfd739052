"""Requests that are as large as a client can make them: every array filled, alone and with its elements' arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from odradek.protocol.schema import Field, Message, Struct, span

# A topic that exists, in which the arrays of partitions are filled.
TOPIC = "t"
_NAMES = {"name", "topic", "topic_name", "resource_name"}


def largest_requests(cls: type[Message], version: int, values: int) -> Iterator[tuple[str, Message]]:
    """Yield (name of the shape, request) for each array of a request, filled with `values` elements in all."""
    for field in _arrays(cls, version):
        yield field.name, _filled(cls(), field.name, [_element(field, version, at) for at in range(values)])
        if field.of is not None:
            continue
        for inner in _arrays(field.struct(), version):
            element = _element(field, version, 0)
            for name in _NAMES & {each.name for each in field.struct().FIELDS}:
                setattr(element, name, TOPIC)
            _filled(element, inner.name, [_element(inner, version, at) for at in range(values - 1)])
            yield f"{field.name}.{inner.name}", _filled(cls(), field.name, [element])
            pairs = [
                _filled(_element(field, version, at), inner.name, [_element(inner, version, 0)])
                for at in range(values // 2)
            ]
            yield f"{field.name}+{inner.name}", _filled(cls(), field.name, pairs)


def _arrays(cls: type[Struct], version: int) -> list[Field]:
    return [field for field in cls.FIELDS if field.kind == "array" and version in span(field.versions)]


def _filled(struct: Any, name: str, elements: list[Any]) -> Any:
    setattr(struct, name, elements)
    return struct


def _element(field: Field, version: int, at: int) -> Any:
    """Return an element that no other of its array equals."""
    if field.of is not None:
        return _leaf(field.of, at)
    element: Any = field.struct()()
    for each in field.struct().FIELDS:
        if version in span(each.versions) and each.kind in ("string", "int32", "uuid") and each.tag is None:
            setattr(element, each.name, _leaf(each.kind, at))
    return element


def _leaf(kind: str, at: int) -> Any:
    leaves = {"string": f"n{at}", "uuid": at.to_bytes(16, "big"), "bytes": b"%d" % at, "int8": at % 100}
    return leaves.get(kind, at)
