"""Responses that say an error: of the whole request, or of each of its items, wherever the API has a place for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from ..apis import AnyKey, key_of, message
from ..schema import Message, Struct, has_field, span
from .shape import Items
from .table import SHAPES, lists_in

Absent = tuple[tuple[str, Any], ...]
Reject = Callable[[Any, int, str | None], Any]


def rejection(request: Message, version: int, code: int, text: str | None = None) -> Any:
    """Return the response that says an error of a request, or of all that it names; None where there is no place."""
    assert request.KEY is not None
    key = key_of(request.KEY)
    response = whole_rejection(key, version, code, text)
    if response is not None and not SHAPES[key].is_in_each:
        return response
    lists = lists_in(key, version)
    if response is None and any(each.of(request) for each in lists):
        response = message(key, "response")()
    for each in lists if response is not None else ():
        results = getattr(response, each.results)
        results += rejected(key, each, each.of(request), version, code, text)
        if len(lists) > 1:
            setattr(response, each.results, _once(results, each))
    return response


def has_whole(key: AnyKey, version: int) -> bool:
    """Return whether a response has a field for an error of the whole request."""
    return has_field(message(key, "response"), SHAPES[key].error, version)


def names_items(key: AnyKey, version: int) -> bool:
    """Return whether the response to a request that is rejected as a whole names its items."""
    return SHAPES[key].is_in_each or not has_whole(key, version)


def whole_error(response: Message) -> tuple[int, str | None]:
    """Return the error of a whole response, and its message; 0 where it has none."""
    assert response.KEY is not None
    shape = SHAPES[key_of(response.KEY)]
    code: int = getattr(response, shape.error) if shape.error else 0
    return code, getattr(response, shape.text) if shape.text else None


def items_rejection(request: Message, version: int, items: Items, code: int, text: str | None = None) -> Any:
    """Return the response that says an error of each item of a list alone."""
    assert request.KEY is not None
    response = message(request.KEY, "response")()
    setattr(response, items.results, rejected(request.KEY, items, items.of(request), version, code, text))
    return response


def whole_rejection(key: AnyKey, version: int, code: int, text: str | None = None) -> Any:
    """Return the response with an error of the whole request. None where the API has no field for it in the version."""
    shape, made = SHAPES[key], message(key, "response")
    if not has_whole(key, version):
        return None
    response = made()
    setattr(response, shape.error, code)
    _fill(response, shape.text, text, shape.absent if version in _nullable(made, shape.absent) else ())
    return response


def rejected(
    key: int, items: Items, rejected_items: Iterable[Any], version: int, code: int, text: str | None = None
) -> list[Any]:
    """Return the results that say an error of items, or of all that is in them."""
    reject = rejecter(key, items, version)
    return [reject(each, code, text) for each in rejected_items]


@cache
def rejecter(key: int, items: Items, version: int) -> Reject:
    """Return what makes the result of an item that is rejected: from the item, a code and a message."""
    return _rejecter(_owner(key, items, version), items, version)


def _owner(key: int, items: Items, version: int) -> type[Struct]:
    """Return the struct that has the results of a list: a result around them, or the response."""
    response = message(key, "response")
    around = next((each for each in lists_in(key, version) if each.inner is items), None)
    return response if around is None else _struct(response, around.results)


def _once(results: list[Any], items: Items) -> list[Any]:
    """Return results each once, in the order of their names: two lists of a request may name the same."""
    by_name = {tuple(getattr(each, theirs) for _, theirs in items.names): each for each in results}
    return [by_name[each] for each in sorted(by_name)]


def _nullable(made: type[Struct], absent: Absent) -> range:
    """Return the versions in which all fields that are null where they are absent can be."""
    nulls = {name for name, value in absent if value is None}
    fields = (each for each in made.FIELDS if each.name in nulls)
    return max((span(each.nullable) for each in fields), key=lambda versions: versions.start, default=span("0+"))


def _fill(result: Struct, text_field: str, text: str | None, absent: Absent) -> None:
    if text_field:
        setattr(result, text_field, text)
    for name, value in absent:
        setattr(result, name, value)


def _struct(owner: type[Struct], name: str) -> type[Struct]:
    return next(field for field in owner.FIELDS if field.name == name).struct()


def _rejecter(owner: type[Struct], items: Items, version: int) -> Reject:
    """Return what makes the result of a rejected item; `owner` has the list of results."""
    made = _struct(owner, items.results)
    text_field = items.text if has_field(made, items.text, version) else ""
    inner = items.inner if items.inner is not None and not items.error else None
    reject_inner = None if inner is None else _rejecter(made, inner, version)
    named = next(iter(items.names), ("", ""))
    if named[1] and not named[0] and inner is None:
        # An index or a name: there are thousands of them.
        absent = dict(items.absent)

        def reject_value(item: Any, code: int, text: str | None) -> Any:
            fields = {named[1]: item, **absent}
            if items.error:
                fields[items.error] = code
            if text_field:
                fields[text_field] = text
            return made(**fields)

        return reject_value

    def reject(item: Any, code: int, text: str | None) -> Any:
        result: Any = made()
        if named[0]:
            for mine, theirs in items.names:
                setattr(result, theirs, getattr(item, mine))
        if inner is not None and reject_inner is not None:
            setattr(result, inner.results, [reject_inner(each, code, text) for each in inner.of(item)])
        elif items.error:
            setattr(result, items.error, code)
            _fill(result, text_field, text, items.absent)
        return result

    return reject
