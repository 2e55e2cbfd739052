"""Records of `_schemas` are those of Confluent, to the byte."""

from __future__ import annotations

import pytest
from odradek.registry.records import (
    Content,
    Reference,
    UnreadableRecord,
    Version,
    level_record,
    mode_record,
    read_json,
    read_version,
    removal_record,
    schema_record,
    soft_deletion_record,
)

KEY = b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'


def test_a_schema_of_avro_has_no_type_and_no_references() -> None:
    record = schema_record(Version("s", 1, 7, Content("AVRO", '"string"')))
    assert record == (KEY, b'{"subject":"s","version":1,"id":7,"schema":"\\"string\\"","deleted":false}')


def test_other_types_and_references_are_named() -> None:
    content = Content("JSON", "{}", (Reference("n", "other", 2),))
    _, value = schema_record(Version("s", 1, 7, content, deleted=True))
    assert value == (
        b'{"subject":"s","version":1,"id":7,"schemaType":"JSON",'
        b'"references":[{"name":"n","subject":"other","version":2}],"schema":"{}","deleted":true}'
    )


def test_levels_modes_and_deletions() -> None:
    assert level_record(None, "FULL") == (
        b'{"keytype":"CONFIG","subject":null,"magic":0}',
        b'{"compatibilityLevel":"FULL"}',
    )
    assert mode_record("s", "READONLY") == (b'{"keytype":"MODE","subject":"s","magic":0}', b'{"mode":"READONLY"}')
    assert level_record("s", None)[1] is None
    assert removal_record("s", 1) == (KEY, None)
    assert soft_deletion_record("s", 3) == (
        b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}',
        b'{"subject":"s","version":3}',
    )


def test_what_confluent_keeps_besides_stays() -> None:
    given = b'{"subject":"s","version":1,"id":7,"metadata":{"properties":{"a":"b"}},"schema":"{}","deleted":false}'
    assert schema_record(read_version(read_json(given)))[1] == given


@pytest.mark.parametrize(
    "value", [b"", b"[]", b"{", b'{"subject":"s"}', b'{"subject":"s","version":"x","id":1,"schema":""}',
              b'{"subject":1,"version":1,"id":1,"schema":""}', b'{"subject":"s","version":1,"id":1,"schema":null}'],
)  # fmt: skip
def test_what_no_registry_writes_is_told(value: bytes) -> None:
    with pytest.raises(UnreadableRecord):
        read_version(read_json(value))
