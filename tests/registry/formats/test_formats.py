"""The bounds of a comparison, whatever the format."""

from __future__ import annotations

import json
from typing import Any

import pytest
from odradek.registry.errors import RegistryError
from odradek.registry.formats import formats
from odradek.registry.formats.difference import Steps
from odradek.registry.formats.formats import Source, incompatibilities


def record(name: str, inner: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": "f", "type": inner}]}


def enum(number: int) -> Source:
    return Source(
        "AVRO", json.dumps({"type": "enum", "name": "E", "symbols": [f"A{number}"], "default": f"A{number}"}), {}
    )


def test_types_that_name_one_another_are_refused_where_the_path_is_too_long() -> None:
    chain = json.dumps([record("R0", "int"), *(record(f"R{number}", f"R{number - 1}") for number in range(1, 2_000))])
    new, old = (Source("AVRO", json.dumps(record("R", ["R1999", *more])), {"all": chain}) for more in ([], ["int"]))
    with pytest.raises(RegistryError, match="nested too deep"):
        incompatibilities(new, [old], "BACKWARD")


def test_all_versions_share_the_steps_of_one_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Steps, "MAX_STEPS", 10)
    versions = [enum(number) for number in range(20)]
    assert incompatibilities(enum(99), versions[:9], "BACKWARD_TRANSITIVE") == []
    with pytest.raises(RegistryError, match="more than 10 steps"):
        incompatibilities(enum(99), versions, "BACKWARD_TRANSITIVE")


def test_the_versions_that_are_compared_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "MAX_COMPARED_CHARACTERS", 200)
    versions = [enum(number) for number in range(20)]
    assert incompatibilities(enum(99), versions[-1:], "BACKWARD") == []
    with pytest.raises(RegistryError, match="delete old versions, or set a level"):
        incompatibilities(enum(99), versions, "BACKWARD_TRANSITIVE")
