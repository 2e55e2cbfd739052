"""What a request that changes something leads to: records and an answer, or an error."""

from __future__ import annotations

import pytest
from odradek.registry import changes
from odradek.registry.changes import Change, Schema, register, schema_of
from odradek.registry.errors import RegistryError
from odradek.registry.records import MAX_NUMBER, Content, Reference, Version
from odradek.registry.subjects import LATEST, Subjects


def applied(state: Subjects, change: Change) -> Subjects:
    for record in change.records:
        state.apply(*record)
    return state


def test_a_reference_to_the_last_version_gets_its_number() -> None:
    state = applied(Subjects(), register(Subjects(), "inner", Schema("AVRO", '{"type":"fixed","name":"F","size":1}')))
    outer = Schema("AVRO", '{"type":"array","items":"F"}', (Reference("F", "inner", LATEST),))
    applied(state, register(state, "outer", outer))
    assert state.version("outer", 1).content.references == (Reference("F", "inner", 1),)
    assert register(state, "outer", outer) == Change({"id": 2})
    with pytest.raises(RegistryError, match="One or more references exist"):
        changes.delete_version(state, "inner", 1, permanent=False)


def test_a_reference_that_leads_nowhere_is_told() -> None:
    schema = Schema("AVRO", '"F"', (Reference("F", "inner", LATEST),))
    with pytest.raises(RegistryError, match="a reference leads nowhere: Subject 'inner' not found"):
        register(Subjects(), "outer", schema)


@pytest.mark.parametrize("number", [-2, MAX_NUMBER + 1, True, 1.0, "1"])
def test_ids_and_versions_are_numbers_of_java(number: object) -> None:
    for name in ("id", "version"):
        with pytest.raises(RegistryError, match="id and version are numbers"):
            schema_of({"schema": '"int"', name: number}, normalize=False)


def test_no_id_is_given_beyond_the_last_one() -> None:
    state = applied(Subjects(), Change(None, (changes.records.schema_record(
        Version("s", 1, MAX_NUMBER, Content("AVRO", '"int"'))),)))  # fmt: skip
    assert register(state, "t", Schema("AVRO", '"int"')).answer == {"id": MAX_NUMBER}
    with pytest.raises(RegistryError, match="No id or version is left") as refused:
        register(state, "t", Schema("AVRO", '"string"'))
    assert refused.value.code == 50001


def test_a_schema_is_parsed_once_however_often_it_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    state = Subjects()
    for number in range(1, 11):
        text = f'{{"type": "enum", "name": "E", "symbols": ["A{number}"]}}'
        applied(state, Change(None, (changes.records.schema_record(
            Version("s", number, number, Content("AVRO", text))),)))  # fmt: skip
    parsed: list[str] = []
    canonical = changes.Source.canonical

    def counting(source: changes.Source, *, normalize: bool = False) -> str:
        parsed.append(source.text)
        return canonical(source, normalize=normalize)

    monkeypatch.setattr(changes.Source, "canonical", counting)
    for _ in range(3):
        assert changes.find(state, "s", Schema("AVRO", '"int"')) is None
    assert len(parsed) == 10 + 3


def test_the_number_of_a_removed_last_version_is_given_again_and_its_id_is_not() -> None:
    state = Subjects()
    for size in (1, 2):
        schema = Schema("AVRO", f'{{"type":"fixed","name":"F","size":{size}}}')
        applied(state, changes.set_level(state, "s", "NONE"))
        applied(state, register(state, "s", schema))
    applied(state, changes.delete_version(state, "s", 2, permanent=False))
    hidden = register(state, "s", Schema("AVRO", '"int"'))
    assert applied(state, hidden).version("s", LATEST).version == 3
    for permanent in (False, True):
        applied(state, changes.delete_version(state, "s", 3, permanent=permanent))
    applied(state, changes.delete_version(state, "s", 2, permanent=True))
    again = applied(state, register(state, "s", Schema("AVRO", '"long"'))).version("s", LATEST)
    assert (again.version, again.id) == (2, 4)
