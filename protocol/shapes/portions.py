"""Portions: a request cut into several of fewer values, whose responses are joined again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from typing import Any, TypeVar

from ..schema import Struct
from .shape import Items

Shaped = TypeVar("Shaped", bound=Struct)
# By the name of a list: how many values one of its items counts for, beside those inside it.
Weights = Mapping[str, Callable[[Any], int]]
# So many characters of its name make an item count for one more value, because an id is hashed to find its partition.
NAME_CHARS = 500
# Returns how many values a portion has room for. It may change from one portion to the next.
Room = Callable[[], int]


def portions(struct: Shaped, items: Items, room: Room, weights: Weights) -> Iterator[tuple[Shaped, int]]:
    """Yield copies with some of the items, and their numbers of values, for which there is `room`.

    Together they are the request, or an item with a list inside.
    """
    all_items = items.of(struct)
    portion: list[Any] = []
    size = 0
    for item, values in _parts(all_items, items, lambda: room() - 1, weights):
        if portion and size + values > room():
            yield with_field(struct, items.items, portion), size
            portion, size = [], 0
        portion.append(item)
        size += values
    # Null says something else than an empty list.
    yield (with_field(struct, items.items, portion), size) if all_items else (struct, 0)


def with_field(struct: Shaped, name: str, value: Any) -> Shaped:
    """Return a copy with one field replaced."""
    changed = copy(struct)
    setattr(changed, name, value)
    return changed


def join(whole: Struct, part: Struct, items: Items) -> None:
    """Add the results of a portion to those of the portions before it."""
    results: list[Struct] = getattr(whole, items.results)
    more: list[Struct] = getattr(part, items.results)
    inner = items.inner
    if inner is not None and results and more and _is_same(results[-1], more[0], inner):
        join(results[-1], more[0], inner)
        more = more[1:]
    results.extend(more)


def _parts(all_items: list[Any], items: Items, room: Room, weights: Weights) -> Iterator[tuple[Any, int]]:
    """Yield (item, its number of values). An item with a long list inside comes in several parts.

    Without a weight of its own an item counts for one value, or by the length of its name.
    """
    weigh, inner = weights.get(items.items), items.inner
    for item in all_items:
        own = 1 + _more_for_name(items, item) if weigh is None else weigh(item)
        if inner is None:
            yield item, own
            continue
        for part, values in portions(item, inner, room, weights):
            yield part, values + own


def _more_for_name(items: Items, item: Any) -> int:
    name = items.identity(item)
    return len(name) // NAME_CHARS if isinstance(name, str) else 0


def _is_same(one: Struct, other: Struct, inner: Items) -> bool:
    """Return whether two results are parts of the same item, which was cut."""
    names = [each.name for each in one.FIELDS if each.name != inner.results]
    return all(getattr(one, name) == getattr(other, name) for name in names)
