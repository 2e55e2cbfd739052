"""Responses that carry an error to where a client looks for it, for any API.

The shape of the API says where: at the topics, partitions, groups or ids of the request that a fault is about, or in a
field of the whole response.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache
from typing import Any

from ..broker.network.connection import CloseConnection
from ..protocol.apis import ApiKey, key_of, message
from ..protocol.errors import ErrorCode
from ..protocol.schema import Message, Struct, has_field
from ..protocol.shapes.answers import rejected, whole_rejection
from ..protocol.shapes.portions import join as join_results
from ..protocol.shapes.portions import with_field
from ..protocol.shapes.shape import Items
from ..protocol.shapes.table import SHAPES, lists_in
from .faults import Fault, Names, topic_of

# The response of these needs what only the broker knows (the brokers' addresses, say), and a request changes nothing
# that a test could miss: the broker answers it, and the error is put in.
_ANSWERED = {ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER, ApiKey.API_VERSIONS}


def is_answered_first(key: int) -> bool:
    """Tell whether the error goes into the broker's own response."""
    return key in _ANSWERED


def rejection(request: Message, version: int, error: ErrorCode, fault: Fault, names: Names) -> Message:
    """Return the response that rejects a request with an error: all of it, or the places of the fault.

    The error of a whole response goes before those of its entries, so it has none where an entry has one. Raises
    CloseConnection where the API has no place for one.
    """
    assert request.KEY is not None
    key = key_of(request.KEY)
    response = message(key, "response")()
    lists = _lists(request.KEY, version)
    is_told = False
    for items in lists:
        meant = items.of(request)
        if fault.names_place:
            meant = _filtered(items, meant, fault, names, wanted=True)
        # A group with an error tells no topics: where a fault has a place, the errors are in there.
        places = _inside(items) if fault.names_place and items.kind == "group" else items
        results = rejected(key, places, meant, version, int(error))
        getattr(response, items.results).extend(results)
        is_told = is_told or bool(results)
    if is_told:
        return response
    whole = whole_rejection(key, version, int(error))
    if whole is None and not lists:
        raise CloseConnection(f"{fault.what} of the test: version {version} of the response has no place for an error")
    return whole or response


def put_error(response: Message, version: int, error: ErrorCode, fault: Fault, names: Names) -> None:
    """Put an error into a response of the broker: everywhere, or at the places of the fault."""
    assert response.KEY is not None
    full = [items for items in _lists(response.KEY, version) if getattr(response, items.results)]
    for items in full:
        _put(response, items, error, fault, names)
    shape = SHAPES[key_of(response.KEY)]
    if not full and shape.error and has_field(type(response), shape.error, version):
        setattr(response, shape.error, int(error))


def rest_of(request: Message, version: int, fault: Fault, names: Names) -> Message | None:
    """Return the request without the places of a fault; None where nothing is left."""
    assert request.KEY is not None
    rest = copy.copy(request)
    is_left = False
    for items in _lists(request.KEY, version):
        left = _left(items, request, fault, names)
        setattr(rest, items.within or items.items, left)
        is_left = is_left or bool(left)
    return rest if is_left else None


def _left(items: Items, request: Message, fault: Fault, names: Names) -> list[Any]:
    """Return the items that are not at the places of a fault, or the elements of the request that they are in."""
    if not items.within:
        return _filtered(items, items.of(request), fault, names, wanted=False)
    flat = _flat(items)
    around = (
        (each, _filtered(flat, flat.of(each), fault, names, wanted=False)) for each in getattr(request, items.within)
    )
    return [with_field(each, items.items, left) for each, left in around if left]


def join(response: Message, more: Message, version: int) -> Message:
    """Return a response with the entries of another one behind its own."""
    assert response.KEY is not None
    for items in lists_in(response.KEY, version):
        join_results(response, more, items)
    return response


def _lists(key: int, version: int) -> list[Items]:
    """Return the lists whose results have errors."""
    return [each for each in lists_in(key, version) if _has_error(each)]


@cache
def _flat(items: Items) -> Items:
    return replace(items, within="")


def _has_error(items: Items) -> bool:
    return bool(items.error) or (items.inner is not None and _has_error(items.inner))


@cache
def _inside(items: Items) -> Items:
    """Return the list with errors only in the lists inside it."""
    return replace(items, error="")


def _filtered(items: Items, all_items: list[Any], fault: Fault, names: Names, *, wanted: bool) -> list[Any]:
    """Return the items at the places of a fault, or (not `wanted`) the others."""
    kept = [_part(items, each, fault, names, wanted) for each in all_items]
    return [each for each in kept if each is not None]


def _part(items: Items, item: Any, fault: Fault, names: Names, wanted: bool) -> Any:
    """Return what of an item is at the places of a fault, or is not; None where nothing is."""
    inner = items.inner
    if items.kind == "topic":
        topic = topic_of(items, item, names)
        if topic is None or not fault.is_at(topic, None):
            return None if wanted else item
        if fault.partition is None or inner is None:
            return item if wanted else None
    elif inner is None:
        is_meant = items.kind == "partition" and fault.partition in (None, items.identity(item))
        return item if is_meant == wanted else None
    left = _filtered(inner, inner.of(item), fault, names, wanted=wanted)
    return with_field(item, inner.items, left) if left else None


def _put(response: Struct, items: Items, error: ErrorCode, fault: Fault, names: Names) -> None:
    inner = items.inner
    for result in getattr(response, items.results):
        if not _is_meant(items, result, fault, names):
            continue
        if items.error and not (inner is not None and fault.names_place):
            setattr(result, items.error, int(error))
            for name, value in items.absent:
                setattr(result, name, value)
        elif inner is not None:
            _put(result, inner, error, fault, names)


def _is_meant(items: Items, result: Any, fault: Fault, names: Names) -> bool:
    if items.kind == "topic":
        topic = topic_of(items, result, names, is_result=True)
        return topic is not None and fault.is_at(topic, None)
    return items.kind != "partition" or fault.partition in (None, getattr(result, items.names[0][1]))
