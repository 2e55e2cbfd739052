"""A table of paths, in which `*` is any part of a path, each with what answers there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Routes(Generic[T]):
    """What answers by path: "topics/*/configs". No path of a table may be another one, too."""

    def __init__(self, table: Mapping[str, T]) -> None:
        self._table = [(path.split("/"), target) for path, target in table.items()]

    def find(self, path: Sequence[str]) -> tuple[T, list[str]] | None:
        """Return what answers at the parts of a path, and what stands for its stars; None for another path."""
        for wanted, target in self._table:
            if len(wanted) == len(path) and all(each in ("*", part) for each, part in zip(wanted, path, strict=True)):
                return target, [part for each, part in zip(wanted, path, strict=True) if each == "*"]
        return None
