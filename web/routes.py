"""A table of paths and of what answers at each. In a path `*` stands for any part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Routes(Generic[T]):
    """A table by path, such as "topics/*/configs". No two paths of a table may match the same request."""

    def __init__(self, table: Mapping[str, T]) -> None:
        self._table = [(path.split("/"), target) for path, target in table.items()]

    def find(self, path: Sequence[str]) -> tuple[T, list[str]] | None:
        """Return what answers at a path, and the parts that its stars stand for; None for an unknown path."""
        for wanted, target in self._table:
            if len(wanted) == len(path) and all(each in ("*", part) for each, part in zip(wanted, path, strict=True)):
                return target, [part for each, part in zip(wanted, path, strict=True) if each == "*"]
        return None
