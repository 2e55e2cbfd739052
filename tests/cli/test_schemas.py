"""`odradek schemas` against a registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.client.schemas import SchemaRegistry
from odradek.testing import LocalKafka
from odradek.testing.schema_registry import LocalSchemaRegistry
from odradek.tests.support.documents.shell import run_here

FIRST = {"type": "record", "name": "Flight", "fields": [{"name": "carrier", "type": "string"}]}
ADDED = {**FIRST, "fields": [*FIRST["fields"], {"name": "delay", "type": ["null", "int"], "default": None}]}
BROKEN = {**FIRST, "fields": [{"name": "carrier", "type": "int"}]}


@pytest.fixture(scope="module")
def registry() -> Iterator[LocalSchemaRegistry]:
    with LocalKafka() as kafka, LocalSchemaRegistry(kafka) as found:
        yield found


def run(registry: LocalSchemaRegistry, *words: str) -> tuple[int, str, str]:
    status, output, errors = run_here(["schemas", *words, "--registry", registry.url], b"")
    return status, output.decode(), errors


def test_schemas_are_registered_listed_shown_checked_and_deleted(registry: LocalSchemaRegistry, tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.avsc" for name in ("first", "added", "broken")}
    for name, schema in zip(files, (FIRST, ADDED, BROKEN), strict=True):
        files[name].write_text(json.dumps(schema))
    status, printed, _ = run(registry, "register", "flights-value", str(files["first"]))
    assert status == 0 and int(printed) > 0
    assert run(registry, "check", "flights-value", str(files["added"])) == (0, "", "")
    status, reasons, _ = run(registry, "check", "flights-value", str(files["broken"]))
    assert status == 1 and "reader type: INT" in reasons
    status, _, error = run(registry, "register", "flights-value", str(files["broken"]))
    assert status == 1 and "incompatible" in error
    assert run(registry, "register", "flights-value", str(files["added"]))[0] == 0
    status, listed, _ = run(registry, "list")
    assert listed.split() == ["flights-value", "2", "2", "AVRO", listed.split()[4], "BACKWARD"]
    assert json.loads(run(registry, "show", "flights-value", "--version", "1")[1]) == FIRST
    assert json.loads(run(registry, "show", "flights-value")[1]) == ADDED
    status, _, error = run(registry, "delete", "flights-value")
    assert status == 1 and "--yes" in error
    assert run(registry, "delete", "flights-value", "--version", "1", "--yes") == (0, "1\n", "")
    assert run(registry, "delete", "flights-value", "--yes") == (0, "2\n", "")
    assert run(registry, "list") == (0, "", "")
    assert run(registry, "delete", "flights-value", "--permanent", "--yes")[:2] == (0, "1\n2\n")


def test_a_schema_is_checked_as_a_registration_is(registry: LocalSchemaRegistry, tmp_path: Path) -> None:
    """At a transitive level with the versions before the latest, too."""
    file = tmp_path / "next.avsc"
    registry.register("all-value", FIRST)
    registry.register("all-value", {**FIRST, "fields": []})
    registry.set_compatibility("BACKWARD_TRANSITIVE", "all-value")
    file.write_text(json.dumps({**FIRST, "fields": [{"name": "carrier", "type": "int", "default": 0}]}))
    status, reasons, _ = run(registry, "check", "all-value", str(file))
    assert status == 1 and "reader type: INT" in reasons
    assert run(registry, "register", "all-value", str(file))[0] == 1


def test_a_subject_that_goes_meanwhile_does_not_hide_the_others(
    registry: LocalSchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.register("stays-value", FIRST)
    monkeypatch.setattr(SchemaRegistry, "subjects", lambda _: ["gone-value", "stays-value"])
    status, listed, error = run(registry, "list")
    assert (status, error) == (0, "") and listed.startswith("stays-value\t")


def test_what_cannot_be_done_is_said(registry: LocalSchemaRegistry, tmp_path: Path) -> None:
    file = tmp_path / "schema.txt"
    file.write_text("{}")
    assert "Subject 'none' not found" in run(registry, "show", "none")[2]
    assert "give --type AVRO, JSON or PROTOBUF" in run(registry, "register", "t-value", str(file))[2]
    assert "Invalid schema" in run(registry, "register", "t-value", str(file), "--type", "AVRO")[2]
    assert "No such file" in run(registry, "register", "t-value", str(tmp_path / "none.avsc"))[2]
    assert "--registry URL" in run_here(["schemas", "list"], b"")[2]
