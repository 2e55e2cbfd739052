"""The shapes of the APIs against the declared messages: every name at every version, and every error."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from odradek.protocol import frame
from odradek.protocol.apis import AnyKey, ApiKey, OwnApiKey, message
from odradek.protocol.errors import ErrorCode
from odradek.protocol.schema import Field, Struct, has_field, span
from odradek.protocol.shapes.answers import rejection, whole_rejection
from odradek.protocol.shapes.shape import Items
from odradek.protocol.shapes.table import SHAPES, lists_in
from odradek.tests.support.documents.messages import filled

CODE = int(ErrorCode.REQUEST_TIMED_OUT)
# The only API with versions that have no place for an error.
FIRST_LOG_DIRS_WITH_ERROR = 3


def declared() -> Iterator[AnyKey]:
    for key in (*ApiKey, *OwnApiKey):
        try:
            message(key, "request")
        except ModuleNotFoundError:
            continue
        yield key


KEYS = list(declared())


def field_of(struct: type[Struct], name: str) -> Field:
    return next(each for each in struct.FIELDS if each.name == name)


def errors_of(struct: type[Struct], version: int) -> list[str]:
    """The fields for errors in a struct and all that is in it."""
    found: list[str] = []
    for each in struct.FIELDS:
        if version not in span(each.versions):
            continue
        if each.name.endswith("error_code"):
            found.append(each.name)
        elif each.kind in ("array", "struct") and each.of is None:
            found += errors_of(each.struct(), version)
    return found


def check_list(items: Items, item_owner: type[Struct], result_owner: type[Struct] | None, version: int) -> None:
    """Check that a list of items, its results and what is in them exist in a version."""
    if items.within:
        item_owner = field_of(item_owner, items.within).struct()
    assert has_field(item_owner, items.items, version)
    item = field_of(item_owner, items.items)
    result: type[Struct] | None = None
    if items.results:
        assert result_owner is not None
        assert has_field(result_owner, items.results, version)
        result = field_of(result_owner, items.results).struct()
        for name in filter(None, (items.error,)):
            assert has_field(result, name, version), name
        for name in filter(None, (items.text, *dict(items.absent))):
            assert any(each.name == name for each in result.FIELDS), name
        assert items.error or items.inner or not errors_of(result, version)
        assert items.text or "error_message" not in [each.name for each in result.FIELDS]
    for mine, theirs in items.names:
        if mine:
            assert mine in [each.name for each in item.struct().FIELDS]
        else:
            assert item.of is not None
        assert result is None or theirs in [each.name for each in result.FIELDS]
    in_version = [
        (mine, theirs)
        for mine, theirs in items.names
        if (not mine or has_field(item.struct(), mine, version)) and (not result or has_field(result, theirs, version))
    ]
    assert in_version or not items.names
    if items.inner is not None:
        check_list(items.inner, item.struct(), result, version)


def test_every_api_has_a_shape() -> None:
    assert SHAPES.keys() == set(KEYS)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_every_name_of_a_shape_is_declared(key: AnyKey) -> None:
    shape, request, response = SHAPES[key], message(key, "request"), message(key, "response")
    names = {each.name for each in response.FIELDS}
    assert names >= {*dict(shape.absent), *filter(None, (shape.error, shape.text))}
    assert bool(shape.error) == ("error_code" in names)
    assert bool(shape.text) == ("error_message" in names)
    for each, version in product(shape.lists, request.VERSIONS):
        if has_field(request, each.within or each.items, version):
            answered = has_field(response, each.results, version)
            check_list(each, request, response if answered else None, version) if answered or not each.results else None


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_an_error_of_a_request_reaches_its_response(key: AnyKey) -> None:
    for version in message(key, "request").VERSIONS:
        check_error(key, version)


def check_error(key: AnyKey, version: int) -> None:
    request = filled(message(key, "request"), version)
    response = rejection(request, version, CODE, "no")
    if key is ApiKey.DESCRIBE_LOG_DIRS and version < FIRST_LOG_DIRS_WITH_ERROR:
        assert response is None
        return
    data = b"".join(map(bytes, frame.encode_response(1, response, version)))
    back = frame.decode_response(data[4:], message(key, "response"), version)[1]
    shape = SHAPES[key]
    has_whole = has_field(type(back), shape.error, version)
    assert errors_of(type(back), version)
    if has_whole:
        assert getattr(back, shape.error) == CODE
    assert (whole_rejection(key, version, CODE) is not None) == has_whole
    for each in lists_in(key, version):
        if not has_whole or shape.is_in_each:
            (result,) = getattr(back, each.results)
            check_result(each, each.of(request)[0], result, version)


def check_result(items: Items, item: Any, result: Any, version: int) -> None:
    """Check that a result names its item, and says the error there or further in."""
    for mine, theirs in items.names:
        if has_field(type(result), theirs, version) and (not mine or has_field(type(item), mine, version)):
            assert getattr(result, theirs) == (getattr(item, mine) if mine else item)
    if items.error:
        assert getattr(result, items.error) == CODE
        for name, value in items.absent:
            if has_field(type(result), name, version):
                assert getattr(result, name) == value
    elif items.inner is not None:
        (inner,) = getattr(result, items.inner.results)
        check_result(items.inner, items.inner.of(item)[0], inner, version)
