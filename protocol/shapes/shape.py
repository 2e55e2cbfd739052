"""The shape of an API: the lists of its requests, the lists of results that answer them, and its errors.

Most responses mirror their requests: a list of topics, groups or ids comes back as a list of results, each with the
name of its item and an error. A shape says how the two are called. `table.py` has the shape of every API, `answers.py`
makes responses that are errors, and `portions.py` cuts requests and joins the responses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ..schema import Struct

# What the items of a list are.
Kind = Literal["topic", "partition", "group", "transactional id", "config", "other"]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Items:
    """A list of a request, and the list of the response that answers it. It is equal to itself alone."""

    # The field of the request; in an inner list of the item around.
    items: str
    # The field of the response, or of the result around. Empty: no result answers the items.
    results: str
    kind: Kind
    # What identifies an item: its fields, and what its result calls them. An item that is no struct has the field "".
    # A version has at least one of them.
    names: tuple[tuple[str, str], ...] = ()
    # The fields of a result for an error and for its message. Empty: it has none.
    error: str = "error_code"
    text: str = ""
    # Fields of a result with an error, and what they have in place of a value, where that is not their default.
    absent: tuple[tuple[str, Any], ...] = ()
    # The lists inside the items and results. A result whose item is rejected has none, if it has an error of its own.
    inner: Items | None = None
    # Whether an item that a request names twice has one result.
    is_set: bool = False
    # The list of the request in whose elements the items are, where the results are in a list of their own.
    within: str = ""

    def of(self, struct: Struct) -> list[Any]:
        """Return the items in a request, or in the item around."""
        if self.within:
            return [item for each in getattr(struct, self.within) for item in self._of(each)]
        return self._of(struct)

    def _of(self, struct: Struct) -> list[Any]:
        items: list[Any] = getattr(struct, self.items) or []
        return list({self.identity(each): each for each in items}.values()) if self.is_set else items

    def identity(self, item: Any) -> Any:
        """Return what identifies an item in its list: a value, or a tuple where it has several names."""
        if not isinstance(item, Struct):
            return item
        values = tuple(getattr(item, name) for name, _ in self.names)
        return values[0] if len(values) == 1 else values


class Shape(NamedTuple):
    """The shape of an API."""

    # The lists of its requests. A version has one of them, or several whose results are one list.
    lists: tuple[Items, ...] = ()
    # The fields of the response for an error of the whole request, and for its message. Empty: it has none.
    error: str = ""
    text: str = ""
    # Fields of a response with an error, and what they have in place of a value, where that is not their default.
    absent: tuple[tuple[str, Any], ...] = ()
    # Whether an error of the whole request is an error of each of its items, too.
    is_in_each: bool = False
