"""Avro schemas: the canonical text is that of Avro's Java library, and what is no schema is told."""

from __future__ import annotations

import json

import pytest
from odradek.registry.errors import InvalidSchema
from odradek.registry.formats.avro import canonical, parse


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("string", '"string"'),
        ('{"type": "string"}', '"string"'),
        ('{"type": {"type": "int", "logicalType": "date"}}', '{"type":"int","logicalType":"date"}'),
        ('["null", {"items": "int", "type": "array"}]', '["null",{"type":"array","items":"int"}]'),
        ('{"values": "long", "type": "map"}', '{"type":"map","values":"long"}'),
        ('{"size": 4, "type": "fixed", "name": "a.F"}', '{"type":"fixed","name":"F","namespace":"a","size":4}'),
        (
            '{"type":"enum","symbols":["A","B"],"default":"A","name":"E","aliases":["x.F","G"],"doc":"d","p":1}',
            '{"type":"enum","name":"E","doc":"d","symbols":["A","B"],"default":"A","p":1,"aliases":["x.F","G"]}',
        ),
        (
            '{"fields":[{"default":null,"type":["null","R"],"name":"next","order":"ignore"}],"namespace":"n",'
            '"name":"R","type":"record"}',
            '{"type":"record","name":"R","namespace":"n","fields":[{"name":"next","type":["null","R"],'
            '"default":null,"order":"ignore"}]}',
        ),
        # A short name that is a type's would mean that type.
        (
            '{"type":"record","name":"R","namespace":"x","fields":[{"name":"a","type":{"type":"fixed","name":"int",'
            '"size":1}},{"name":"b","type":"x.int"},{"name":"c","type":"int"}]}',
            '{"type":"record","name":"R","namespace":"x","fields":[{"name":"a","type":{"type":"fixed","name":"int",'
            '"size":1}},{"name":"b","type":"x.int"},{"name":"c","type":"int"}]}',
        ),
        (
            '{"type":"record","name":"x.R","fields":[{"name":"a","type":{"type":"enum","name":"map","symbols":["A"]}},'
            '{"name":"b","type":"x.map","aliases":["c","c"]}],"aliases":["S","x.S","x.long"]}',
            '{"type":"record","name":"R","namespace":"x","fields":[{"name":"a","type":{"type":"enum","name":"map",'
            '"symbols":["A"]}},{"name":"b","type":"x.map","aliases":["c"]}],"aliases":["S","x.long"]}',
        ),
        # Null is no namespace of its own.
        (
            '{"type":"record","name":"R","namespace":"n","fields":[{"name":"f","type":{"type":"fixed","name":"F",'
            '"namespace":null,"size":1}}]}',
            '{"type":"record","name":"R","namespace":"n","fields":[{"name":"f","type":{"type":"fixed","name":"F",'
            '"size":1}}]}',
        ),
    ],
)
def test_the_canonical_text(given: str, text: str) -> None:
    assert canonical(parse(given)) == text
    assert canonical(parse(text)) == text


def test_normalized_properties_are_in_order() -> None:
    kind = parse('{"type":"bytes","scale":2,"logicalType":"decimal","precision":4}')
    assert canonical(kind, normalize=True) == '{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}'


def test_a_type_of_a_reference_is_named_not_spelled_out() -> None:
    text = '{"type":"record","name":"R","fields":[{"name":"f","type":"a.F"}]}'
    references = ['{"type":"fixed","name":"F","namespace":"a","size":1}']
    assert canonical(parse(text, references)) == text
    with pytest.raises(InvalidSchema, match='F" is not a defined name'):
        parse(text)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("strin", "not a defined name"),
        ("{", "no JSON"),
        ("[1]", "a type is a name"),
        ('["int","int"]', "holds int twice"),
        ('["int",["null"]]', "must not hold a union"),
        ('{"type":"record","name":"R"}', "has no fields"),
        ('{"type":"record","name":"1","fields":[]}', "no valid name"),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}', "two fields a"),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}', "invalid default"),
        ('{"type":"enum","name":"E","symbols":["A","A"]}', "a symbol twice"),
        ('{"type":"enum","name":"E","symbols":["A"],"default":"B"}', "none of its symbols"),
        ('{"type":"fixed","name":"F","size":-1}', "no valid size"),
        ('{"type":"array"}', "no items type"),
        ('{"name":"x"}', "no type"),
    ],
)
def test_what_is_no_schema_is_told(given: str, why: str) -> None:
    with pytest.raises(InvalidSchema, match=why):
        parse(given)


def test_old_schemas_may_have_wrong_defaults() -> None:
    text = '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}'
    assert canonical(parse(text, is_new=False)) == text


@pytest.mark.parametrize("deep", ["[" * 50_000, '{"type":"array","items":' * 200 + '"int"' + "}" * 200])
def test_a_deep_schema_is_refused(deep: str) -> None:
    with pytest.raises(InvalidSchema):
        parse(deep)


def test_a_large_schema_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="larger than 1048576 bytes"):
        parse(json.dumps({"type": "string", "doc": "x" * (1 << 20)}))


def test_a_default_that_fits_none_of_nested_unions_is_refused_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.registry.formats.avro.MAX_DEFAULT_STEPS", 20_000)
    # Each level can be of A or B, so there are 2 to the power of 80 ways to try.
    inner = {"type": "record", "name": "B", "fields": [{"name": "n", "type": ["null", "A", "B"]}]}
    outer = {"type": "record", "name": "A", "fields": [{"name": "n", "type": ["null", inner, "A"]}]}
    default: object = 5
    for _ in range(80):
        default = {"n": default}
    field = {"name": "f", "type": outer, "default": default}
    with pytest.raises(InvalidSchema, match="more than 20000 steps"):
        parse(json.dumps({"type": "record", "name": "R", "fields": [field]}))
