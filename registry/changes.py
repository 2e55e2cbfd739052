"""Changes: what a request that changes something leads to. Pure: the state and the request go in, and records with the
answer come out, or a RegistryError. The shell writes the records and applies them.

Promise: an id never changes its content, and a content has one id. Ids only go up; those of removed versions are not
given again, because a removal writes down the highest one. The next version of a subject follows the last one that
it has, also softly deleted: as in Confluent's registry, the number of a last version that was removed is given again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from . import errors, records
from .errors import InvalidSchema, RegistryError
from .formats.formats import LEVELS, NONE, PROTOBUF, TYPES, Source, incompatibilities, is_unicode
from .records import Content, Record, Reference, Version
from .subjects import IMPORT, LATEST, MODES, READONLY, READONLY_OVERRIDE, Subjects


@dataclass(frozen=True, slots=True)
class Change:
    """Records to write together, and the answer when they are written. Without records there is nothing to do."""

    answer: Any
    records: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as a client sends it. `id` and `version` are for the mode IMPORT."""

    type: str
    text: str
    references: tuple[Reference, ...] = ()
    normalize: bool = False
    id: int | None = None
    version: int | None = None


# -- Schemas


def canonical_content(state: Subjects, schema: Schema) -> Content:
    """Return what a schema would be stored as. Raises InvalidSchema."""
    given = _given_content(state, schema)
    try:
        source = state.source(given)
    except InvalidSchema:
        raise
    except RegistryError as error:
        raise _leads_nowhere(error) from None
    return replace(given, text=source.canonical(normalize=schema.normalize))


def _given_content(state: Subjects, schema: Schema) -> Content:
    """Return the content as it came. A reference to the last version gets its number, to mean the same for ever."""
    try:
        references = tuple(
            replace(each, version=state.version(each.subject, LATEST).version) if each.version == LATEST else each
            for each in schema.references
        )
    except RegistryError as error:
        raise _leads_nowhere(error) from None
    return Content(schema.type, schema.text, references)


def _leads_nowhere(error: RegistryError) -> InvalidSchema:
    return InvalidSchema(f"a reference leads nowhere: {error.message}")


def find(state: Subjects, subject: str, schema: Schema, *, deleted: bool = False) -> Version | None:
    """Return the last version of a subject that has this content, None if none has. Raises InvalidSchema.

    The text as it came is tried first: clients send mostly what they were given, and that needs no parser.
    """
    versions = state.of(subject) if deleted else state.live(subject)
    given = _given_content(state, schema)
    found = _with_content(versions, given)
    if found is not None:
        return found
    content = canonical_content(state, schema)
    return _with_content(versions, content) or _written_otherwise(state, versions, content, schema.normalize)


def _with_content(versions: list[Version], content: Content) -> Version | None:
    return next((each for each in reversed(versions) if each.content == content), None)


def _written_otherwise(state: Subjects, versions: list[Version], content: Content, normalize: bool) -> Version | None:
    """Return the version that is the same schema under another text: another registry's, or a .proto file's."""
    wanted = state.source(content).identity(normalize=normalize) if content.type == PROTOBUF else content.text
    for each in reversed(versions):
        if each.content.type != content.type or each.content.references != content.references:
            continue
        try:
            identity = state.identity(each.content, normalize=normalize)
        except RegistryError:  # what an older registry let pass can be served, but it equals nothing
            continue
        if identity == wanted:
            return each
    return None


def register(state: Subjects, subject: str, schema: Schema) -> Change:
    """Register a schema as the next version of a subject, unless the subject has it. The answer is the id."""
    check_subject(subject)
    importing = state.mode(subject) == IMPORT
    _check_writable(state, subject)
    if schema.id is not None and not importing:
        raise errors.not_permitted(f"Subject {subject} is not in import mode")
    found = find(state, subject, schema)
    if found is not None and schema.id in (None, found.id):
        return Change({"id": found.id})
    content = canonical_content(state, schema)
    if importing:
        return _imported(state, subject, schema, content)
    check_compatible(state, subject, content)
    return _added(state, subject, content, _id_for(state, content), _next_version(state, subject))


def _added(state: Subjects, subject: str, content: Content, schema_id: int, number: int) -> Change:
    version = Version(subject, number, schema_id, content)
    return Change({"id": schema_id}, (records.schema_record(version),))


def _id_for(state: Subjects, content: Content) -> int:
    known = state.id_of(content)
    return _checked_number(state.max_id + 1) if known is None else known


def _next_version(state: Subjects, subject: str) -> int:
    return _checked_number(max(state.versions.get(subject, {}), default=0) + 1)


def _checked_number(number: int) -> int:
    if number > records.MAX_NUMBER:
        raise RegistryError(50001, f"No id or version is left: the last one, {records.MAX_NUMBER}, is taken")
    return number


def _imported(state: Subjects, subject: str, schema: Schema, content: Content) -> Change:
    if schema.id is None:
        raise errors.not_permitted(f"Subject {subject} is in import mode: the schema needs an id")
    try:
        taken = state.content(schema.id)
    except RegistryError:
        taken = content
    if taken != content:
        raise RegistryError(42207, f"Overwrite new schema with id {schema.id} is not permitted.")
    number = schema.version or _next_version(state, subject)
    if number in state.versions.get(subject, {}):
        raise errors.not_permitted(f"Subject {subject} already has a version {number} with another schema")
    return _added(state, subject, content, schema.id, number)


def check_compatible(state: Subjects, subject: str, content: Content) -> None:
    """Raise RegistryError if a content may not follow the versions of its subject."""
    level = state.level(subject)
    found = messages(state, subject, content, state.live(subject), level)
    if found:
        raise errors.incompatible(subject, ", ".join([*found, f"{{compatibility: '{level}'}}"]))


def messages(state: Subjects, subject: str, content: Content, versions: list[Version], level: str) -> list[str]:
    """Return why a content may not follow these versions at a level, nothing if it may."""
    if level == NONE or not versions:
        return []
    checked = versions if level.endswith("_TRANSITIVE") else versions[-1:]
    earlier: list[Source] = [state.source(each.content) for each in checked]
    return incompatibilities(state.source(content), earlier, level)


def delete_version(state: Subjects, subject: str, number: int, *, permanent: bool) -> Change:
    """Delete a version softly, or for good what was deleted softly. The answer is its number.

    The last version is the last one that is not deleted.
    """
    _check_writable(state, subject)
    version = state.version(subject, number, deleted=number != LATEST)
    _check_unreferenced(state, version)
    if version.deleted and not permanent:
        raise errors.version_soft_deleted(subject, version.version)
    if permanent and not version.deleted:
        raise errors.version_not_soft_deleted(subject, version.version)
    if permanent:
        return Change(version.version, _removal(state, subject, [version.version]))
    return Change(version.version, (records.schema_record(replace(version, deleted=True)),))


def delete_subject(state: Subjects, subject: str, *, permanent: bool) -> Change:
    """Delete all versions of a subject softly, with its level and mode; or for good. The answer is their numbers."""
    _check_writable(state, subject)
    versions, live = state.seen(subject, deleted=True), state.live(subject)
    for each in versions:
        _check_unreferenced(state, each)
    if permanent and live:
        raise errors.subject_not_soft_deleted(subject)
    if permanent:
        numbers = [each.version for each in versions]
        return Change(numbers, _removal(state, subject, numbers))
    if not live:
        raise errors.subject_soft_deleted(subject)
    made = [records.soft_deletion_record(subject, live[-1].version)]
    made += [records.mode_record(subject, None)] if subject in state.modes else []
    made += [records.level_record(subject, None)] if subject in state.levels else []
    return Change([each.version for each in live], tuple(made))


def _removal(state: Subjects, subject: str, numbers: list[int]) -> tuple[Record, ...]:
    """Return the records that remove versions for good. Compaction takes the ids of these out of the topic."""
    removals = tuple(records.removal_record(subject, each) for each in numbers)
    return (*removals, records.max_id_record(state.max_id))


def _check_unreferenced(state: Subjects, version: Version) -> None:
    if state.referrers(version.subject, version.version):
        raise errors.reference_exists(version.subject, version.version)


# -- Levels and modes


def set_level(state: Subjects, subject: str | None, level: str) -> Change:
    """Set the compatibility level of a subject, or of all."""
    chosen = level.upper()
    if chosen not in LEVELS:
        raise errors.invalid_level()
    if subject is not None:
        check_subject(subject)
    _check_writable(state, subject)
    return Change({"compatibility": chosen}, (records.level_record(subject, chosen),))


def remove_level(state: Subjects, subject: str | None) -> Change:
    """Have a subject follow the level of all, or all the default. The answer is the level that was removed."""
    _check_writable(state, subject)
    level = state.levels.get(subject)
    if level is None and subject is not None:
        raise errors.subject_not_found(subject)
    answer = {"compatibilityLevel": level or state.level("")}
    return Change(answer, () if level is None else (records.level_record(subject, None),))


def set_mode(state: Subjects, subject: str | None, mode: str, *, force: bool) -> Change:
    """Set the mode of a subject, or of all. IMPORT needs that nothing is there yet, or `force`."""
    chosen = mode.upper()
    if chosen not in MODES:
        raise errors.invalid_mode()
    if subject is not None:
        check_subject(subject)
    there = [name for name in ([subject] if subject is not None else state.versions) if state.live(name)]
    if chosen == IMPORT and there and not force:
        raise errors.not_permitted("Cannot import since found existing subjects")
    return Change({"mode": chosen}, (records.mode_record(subject, chosen),))


def remove_mode(state: Subjects, subject: str) -> Change:
    """Have a subject follow the mode of all. The answer is the mode that was removed."""
    mode = state.modes.get(subject)
    if mode is None:
        raise errors.subject_not_found(subject)
    return Change({"mode": mode}, (records.mode_record(subject, None),))


def _check_writable(state: Subjects, subject: str | None) -> None:
    mode = state.modes.get(None, "") if subject is None else state.mode(subject)
    if mode in (READONLY, READONLY_OVERRIDE):
        raise errors.not_permitted(f"Subject {subject} is in read-only mode")


# -- Names

# A subject is a topic with a suffix, or a record's full name: this is more than either takes.
MAX_SUBJECT_CHARACTERS = 500


def check_subject(subject: str) -> None:
    """Raise RegistryError for a name that no subject has. Contexts other than the default one are not supported."""
    controls = any(ord(each) < 0x20 or ord(each) == 0x7F for each in subject)
    if not subject or len(subject) > MAX_SUBJECT_CHARACTERS or controls or not is_unicode(subject):
        raise errors.invalid_subject(subject[:MAX_SUBJECT_CHARACTERS])
    if subject.startswith(":.") or subject in ("__GLOBAL", "__EMPTY"):
        raise errors.invalid_subject(subject)


def references_of(values: Any) -> tuple[Reference, ...]:
    """Return the references of a request. Raises InvalidSchema."""
    try:
        found = tuple(records.read_reference(each) for each in values or ())
        for each in found:
            f"{each.name}{each.subject}".encode()  # half a surrogate pair is no character, and no record takes it
        return found
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidSchema(f"a reference needs a name, a subject and a version: {error}") from None


def schema_of(body: Mapping[str, Any], *, normalize: bool) -> Schema:
    """Return the schema of a request's body. Raises RegistryError for what is none or is not acted on."""
    unknown = [name for name in ("metadata", "ruleSet", "ruleset", "schemaTagsToAdd") if body.get(name)]
    if unknown:
        raise RegistryError(42201, f"{unknown[0]} of a schema is not supported")
    text, kind = body.get("schema"), body.get("schemaType") or "AVRO"
    if not isinstance(text, str) or not text.strip():
        raise InvalidSchema("the schema is empty")
    if not isinstance(kind, str) or kind.upper() not in TYPES:
        raise InvalidSchema(f"unknown schema type {kind!r:.100}; known ones are {', '.join(TYPES)}")
    references = references_of(body.get("references"))
    schema_id, version = body.get("id"), body.get("version")
    absent = (None, -1, 0)
    if any(each not in absent and not records.is_number(each) for each in (schema_id, version)):
        raise InvalidSchema(f"id and version are numbers from 1 to {records.MAX_NUMBER}")
    return Schema(
        kind.upper(), text, references, normalize,
        None if schema_id in absent else schema_id, None if version in absent else version,
    )  # fmt: skip
