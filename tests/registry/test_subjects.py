"""The state that records make: what is there, what is deleted, and which ids are given."""

from __future__ import annotations

import pytest
from odradek.registry import changes
from odradek.registry.errors import RegistryError
from odradek.registry.records import (
    Content,
    Reference,
    UnreadableRecord,
    Version,
    removal_record,
    schema_record,
    soft_deletion_record,
)
from odradek.registry.subjects import LATEST, Subjects

NUMBER, TEXT = Content("AVRO", '"int"'), Content("AVRO", '"string"')


def state(*versions: Version) -> Subjects:
    made = Subjects()
    for each in versions:
        made.apply(*schema_record(each))
    return made


def test_the_latest_version_and_one_by_number() -> None:
    subjects = state(Version("s", 1, 1, NUMBER), Version("s", 2, 2, TEXT))
    assert subjects.version("s", LATEST).version == 2
    assert subjects.version("s", 1).content == NUMBER
    with pytest.raises(RegistryError, match=r"Version 3 not found\."):
        subjects.version("s", 3)


def test_an_id_is_shared_and_never_given_again() -> None:
    subjects = state(Version("s", 1, 1, NUMBER), Version("t", 1, 1, NUMBER), Version("t", 2, 5, TEXT))
    assert [each.subject for each in subjects.places(1, deleted=False)] == ["s", "t"]
    subjects.apply(*removal_record("t", 2))
    assert subjects.max_id == 5
    with pytest.raises(RegistryError, match="Schema 5 not found"):
        subjects.content(5)


def test_an_id_is_not_given_again_after_compaction() -> None:
    """Compaction leaves the last record of each key, and in the end no tombstone."""
    log = dict([schema_record(Version("s", 1, 1, NUMBER)), schema_record(Version("t", 2, 5, TEXT, True))])
    before = state(Version("s", 1, 1, NUMBER), Version("t", 2, 5, TEXT, True))
    for change in (
        changes.delete_version(before, "t", 2, permanent=True),
        changes.delete_subject(before, "t", permanent=True),
    ):
        log |= dict(change.records)
        after = Subjects()
        for key, value in log.items():
            if value is not None:
                after.apply(key, value)
        assert after.max_id == 5 and list(after.versions) == ["s"]
        assert changes.register(after, "u", changes.Schema("AVRO", '"long"')).answer == {"id": 6}


def test_a_deleted_subject_is_still_there_for_those_who_ask() -> None:
    subjects = state(Version("s", 1, 1, NUMBER), Version("s", 2, 2, TEXT))
    subjects.apply(*soft_deletion_record("s", 1))
    assert [each.version for each in subjects.live("s")] == [2]
    assert [each.version for each in subjects.of("s")] == [1, 2]
    assert subjects.content(1) == NUMBER


def test_cleared_versions_are_gone() -> None:
    subjects = state(Version("s", 1, 1, NUMBER), Version("s", 2, 2, TEXT))
    subjects.apply(*soft_deletion_record("s", 1))
    subjects.apply(b'{"keytype":"CLEAR_SUBJECT","subject":"s","magic":0}', b'{"subject":"s"}')
    assert [each.version for each in subjects.of("s")] == [2]


def test_a_record_that_cannot_be_read_changes_nothing() -> None:
    subjects = state(Version("s", 1, 1, NUMBER))
    key = b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'
    for record in ((key, b"{"), (b"?", b"{}"), (None, None), (b'{"keytype":"CONFIG"}', b'{"compatibilityLevel":"?"}')):
        with pytest.raises(UnreadableRecord):
            subjects.apply(*record)
    subjects.apply(b'{"keytype":"NOOP","magic":0}', None)
    assert subjects.version("s", 1).content == NUMBER


KEY = b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b'{"keytype":[]}', b"{}"),
        (b'{"keytype":"CONFIG","subject":[]}', b'{"compatibilityLevel":"NONE"}'),
        (b'{"keytype":"MODE","subject":{}}', b'{"mode":"READONLY"}'),
        (KEY, b'{"subject":"s","version":1,"id":Infinity,"schema":"\\"int\\""}'),
        (KEY, b'{"subject":"s","version":1,"id":99999999999,"schema":"\\"int\\""}'),
        (KEY, b'{"subject":"t","version":1,"id":2,"schema":"\\"long\\""}'),
        (KEY, b'{"subject":"s","version":2,"id":2,"schema":"\\"long\\""}'),
        (b'{"keytype":"DELETE_SUBJECT","subject":"s"}', b'{"version":true}'),
    ],
)
def test_a_record_of_strange_types_is_left_out(key: bytes, value: bytes) -> None:
    subjects = state(Version("s", 1, 1, NUMBER))
    with pytest.raises(UnreadableRecord):
        subjects.apply(key, value)
    assert subjects.version("s", 1).content == NUMBER
    assert (subjects.max_id, list(subjects.versions), subjects.levels, subjects.modes) == (1, ["s"], {}, {})


def test_an_id_keeps_its_schema_whatever_is_written_later() -> None:
    subjects = state(Version("s", 1, 1, NUMBER))
    for other in (Version("t", 1, 1, TEXT), Version(":.context:s", 1, 1, TEXT)):
        with pytest.raises(UnreadableRecord):
            subjects.apply(*schema_record(other))
    assert subjects.content(1) == NUMBER


def test_referenced_texts_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.registry.subjects.MAX_REFERENCED_CHARACTERS", 8)
    first, second = Reference("a", "s", 1), Reference("b", "s", 2)
    subjects = state(Version("s", 1, 1, NUMBER), Version("s", 2, 2, TEXT))
    assert subjects.source(Content("AVRO", "{}", (first,))).references == {"a": '"int"'}
    with pytest.raises(RegistryError, match="more than 8 characters"):
        subjects.source(Content("AVRO", "{}", (first, second)))


def test_a_config_that_nothing_acts_on_is_told() -> None:
    subjects = Subjects()
    key = b'{"keytype":"CONFIG","subject":"s","magic":0}'
    plain = b'{"compatibilityLevel":"FULL","normalize":false,"alias":null}'
    assert subjects.apply(key, plain) is None and subjects.level("s") == "FULL"
    more = b'{"compatibilityLevel":"NONE","compatibilityGroup":"major","normalize":true}'
    assert subjects.apply(key, more) == "the config compatibilityGroup, normalize of s is not supported"
    assert subjects.level("s") == "NONE"
    assert subjects.apply(key, None) is None and subjects.level("s") == "BACKWARD"


def test_references_that_lead_in_a_circle_end() -> None:
    """No registry writes them, but a hand can."""
    text = '{"type":"record","name":"R","fields":[]}'
    there, back = (Content("AVRO", text, (Reference("R", subject, 1),)) for subject in "ba")
    subjects = state(Version("a", 1, 1, there), Version("b", 1, 2, back))
    assert subjects.source(there).references == {"R": text}
