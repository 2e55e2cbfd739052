"""The blocking clients offer what the asyncio clients offer: names, parameters and defaults."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from odradek import broker, client, console, registry, testing
from odradek.client import blocking, schemas, zookeeper

TWINS = ["Admin", "Consumer", "Producer", "SimpleConsumer"]


def public(kind: type[Any]) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    """The parameters behind `self`: name, kind and default."""
    given = [*inspect.signature(function).parameters.values()]
    return [(each.name, each.kind, each.default) for each in given if each.name != "self"]


@pytest.mark.parametrize("name", TWINS)
def test_no_public_name_is_forgotten(name: str) -> None:
    difference = public(getattr(blocking, name)) ^ public(getattr(client, name))
    assert difference == set(), "add a line such as `name = waiting(asyncio_client.Admin.name)` to client/blocking"


@pytest.mark.parametrize("name", TWINS)
def test_parameters_and_defaults_are_the_same(name: str) -> None:
    twin, model = getattr(blocking, name), getattr(client, name)
    for member in ["__init__", *sorted(public(model))]:
        if callable(getattr(model, member)):
            assert parameters(getattr(twin, member)) == parameters(getattr(model, member)), member


@pytest.mark.parametrize("name", TWINS)
def test_nothing_is_a_coroutine_and_everything_is_documented(name: str) -> None:
    twin = getattr(blocking, name)
    for member in public(twin):
        found = getattr(twin, member)
        assert not inspect.iscoroutinefunction(found), member
        assert inspect.getdoc(found), member


def test_functions_are_not_forgotten_either() -> None:
    functions = [name for name in client.__all__ if inspect.iscoroutinefunction(getattr(client, name))]
    assert functions
    for name in functions:
        assert parameters(getattr(blocking, name)) == parameters(getattr(client, name)), name
        assert not inspect.iscoroutinefunction(getattr(blocking, name))


@pytest.mark.parametrize("face", [client, blocking, schemas, zookeeper, testing, broker, console, registry])
def test_every_name_that_is_offered_is_there_also_for_a_shell_that_completes_it(face: Any) -> None:
    assert [name for name in face.__all__ if not hasattr(face, name)] == []
    assert set(face.__all__) <= set(dir(face))
