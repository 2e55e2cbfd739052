"""Subjects: all that the registry knows, made by applying the records of `_schemas` in their order.

A start and a running registry call the same `apply`, so a restart ends in the same state. Nothing else changes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from .errors import InvalidSchema, id_not_found, subject_not_found, version_not_found
from .formats.formats import DEFAULT_LEVEL, LEVELS, Source
from .records import Content, Reference, UnreadableRecord, Version, is_number, read_json, read_version

READWRITE, READONLY, READONLY_OVERRIDE, IMPORT = "READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT"
MODES = (READWRITE, READONLY, READONLY_OVERRIDE, IMPORT)
LATEST = -1
# Of one schema, also those of its references: each is parsed whenever the schema is.
MAX_REFERENCES = 100
MAX_REFERENCED_CHARACTERS = 4 << 20


class Subjects:
    """Versions by subject, content by id, levels and modes. The key None of the last two is for all subjects."""

    def __init__(self) -> None:
        self.versions: dict[str, dict[int, Version]] = {}
        self.levels: dict[str | None, str] = {}
        self.modes: dict[str | None, str] = {}
        # The highest id that any record had: also those of removed versions are not given again.
        self.max_id = 0
        self._contents: dict[int, Content] = {}
        self._ids: dict[Content, int] = {}
        self._places: dict[int, dict[tuple[str, int], None]] = {}
        self._referrers: dict[tuple[str, int], set[tuple[str, int]]] = {}
        # What `identity` has made of contents that are here.
        self._identities: dict[Content, dict[bool, str]] = {}

    # -- Records

    def apply(self, key: bytes | None, value: bytes | None) -> str | None:
        """Apply a record. Return what it asks for that nothing acts on, if there is such a thing.

        Raises UnreadableRecord for one that no registry writes; the state stays as it was.
        """
        name = read_json(key)
        content = None if value is None else read_json(value)
        kind, subject = name.get("keytype"), name.get("subject")
        if not isinstance(kind, str) or kind not in _APPLY:
            raise UnreadableRecord(f"unknown keytype {kind!r:.50}")
        if subject is not None and not isinstance(subject, str):
            raise UnreadableRecord(f"the subject {subject!r:.50} is no text")
        if subject is not None and subject.startswith(_OF_CONTEXTS):
            # Each context counts its own ids: these would take the place of other schemas.
            raise UnreadableRecord(f"{subject:.100} is in a context, and only the default one is supported")
        return _APPLY[kind](self, name, content)

    def _apply_schema(self, key: dict[str, Any], value: dict[str, Any] | None) -> None:
        subject, number = key.get("subject"), key.get("version")
        if not isinstance(subject, str) or not is_number(number):
            raise UnreadableRecord("a schema record without its subject or version")
        version = None if value is None else read_version(value)
        if version is not None:
            self._check(version, subject, number)
        self._remove(subject, number)
        if version is not None:
            self._add(version)

    def _check(self, version: Version, subject: str, number: int) -> None:
        """Raise UnreadableRecord for a value of another key, or one that gives an id to another schema."""
        if (version.subject, version.version) != (subject, number):
            raise UnreadableRecord(f"the value is about version {version.version} of {version.subject:.100}")
        known = self._contents.get(version.id)
        if known is not None and known != version.content:
            raise UnreadableRecord(f"the id {version.id} has another schema already")

    def _add(self, version: Version) -> None:
        place = (version.subject, version.version)
        self.versions.setdefault(version.subject, {})[version.version] = version
        self.max_id = max(self.max_id, version.id)
        self._contents[version.id] = version.content
        self._ids.setdefault(version.content, version.id)
        self._places.setdefault(version.id, {})[place] = None
        for each in version.content.references:
            self._referrers.setdefault((each.subject, each.version), set()).add(place)

    def _remove(self, subject: str, number: int) -> None:
        version = self.versions.get(subject, {}).pop(number, None)
        if version is None:
            return
        if not self.versions[subject]:
            del self.versions[subject]
        places = self._places[version.id]
        del places[subject, number]
        if not places:
            del self._places[version.id], self._contents[version.id]
            self._identities.pop(version.content, None)
            if self._ids.get(version.content) == version.id:
                del self._ids[version.content]
        for each in version.content.references:
            self._referrers[each.subject, each.version].discard((subject, number))

    def _apply_soft_deletion(self, key: dict[str, Any], value: dict[str, Any] | None) -> None:
        if value is None:
            return
        last = value.get("version")
        if type(last) is not int:
            raise UnreadableRecord("a deletion of a subject without its version")
        for each in list(self.versions.get(str(key.get("subject")), {}).values()):
            if each.version <= last:
                self.versions[each.subject][each.version] = replace(each, deleted=True)

    def _apply_clearing(self, key: dict[str, Any], value: dict[str, Any] | None) -> None:
        for each in list(self.versions.get(str(key.get("subject")), {}).values()):
            if each.deleted and value is not None:
                self._remove(each.subject, each.version)

    def _apply_level(self, key: dict[str, Any], value: dict[str, Any] | None) -> str | None:
        given, subject = value or {}, key.get("subject")
        _set(self.levels, subject, given.get("compatibilityLevel"), LEVELS)
        others = [name for name, each in given.items() if name != "compatibilityLevel" and each not in (None, False)]
        whose = "all subjects" if subject is None else f"{subject:.100}"
        return f"the config {', '.join(others):.200} of {whose} is not supported" if others else None

    def _apply_mode(self, key: dict[str, Any], value: dict[str, Any] | None) -> None:
        _set(self.modes, key.get("subject"), None if value is None else value.get("mode"), MODES)

    def _apply_nothing(self, key: dict[str, Any], value: dict[str, Any] | None) -> None:
        """NOOP tells something to its writer alone, and the highest id to every registry of this kind."""
        max_id = (value or {}).get("maxId")
        if is_number(max_id):
            self.max_id = max(self.max_id, max_id)

    # -- Look-ups

    def live(self, subject: str) -> list[Version]:
        """Return the versions of a subject that are not deleted, the first one first."""
        return [each for each in self.of(subject) if not each.deleted]

    def of(self, subject: str) -> list[Version]:
        """Return the versions of a subject, also deleted ones, the first one first."""
        found = self.versions.get(subject, {})
        return [found[number] for number in sorted(found)]

    def seen(self, subject: str, *, deleted: bool) -> list[Version]:
        """Return the versions of a subject. Raises RegistryError if there are none."""
        found = self.of(subject) if deleted else self.live(subject)
        if not found:
            raise subject_not_found(subject)
        return found

    def version(self, subject: str, number: int, *, deleted: bool = False) -> Version:
        """Return a version, or the last one for LATEST. Raises RegistryError if it is not there."""
        found = self.seen(subject, deleted=deleted)
        if number == LATEST:
            return found[-1]
        one = self.versions[subject].get(number)
        if one is None or (one.deleted and not deleted):
            raise version_not_found(number)
        return one

    def content(self, schema_id: int) -> Content:
        """Return what has an id. Raises RegistryError if nothing has it."""
        if schema_id not in self._contents:
            raise id_not_found(schema_id)
        return self._contents[schema_id]

    def id_of(self, content: Content) -> int | None:
        """Return the id of a content that any subject has, or had before a soft deletion."""
        return self._ids.get(content)

    def places(self, schema_id: int, *, deleted: bool) -> list[Version]:
        """Return the versions that have an id. Raises RegistryError if nothing has it."""
        self.content(schema_id)
        found = [self.versions[subject][number] for subject, number in self._places[schema_id]]
        return [each for each in found if deleted or not each.deleted]

    def referrers(self, subject: str, number: int) -> list[Version]:
        """Return the versions that refer to a version and are not deleted."""
        found = [self.versions[name][each] for name, each in self._referrers.get((subject, number), ())]
        return sorted((each for each in found if not each.deleted), key=lambda each: each.id)

    def level(self, subject: str) -> str:
        return self.levels.get(subject) or self.levels.get(None) or DEFAULT_LEVEL

    def mode(self, subject: str) -> str:
        """Return the mode of a subject; READONLY_OVERRIDE of all is above the subject's own."""
        of_all = self.modes.get(None) or READWRITE
        return of_all if of_all == READONLY_OVERRIDE else self.modes.get(subject) or of_all

    def identity(self, content: Content, *, normalize: bool) -> str:
        """Return the identity of a content that a version has. Raises RegistryError if it is no valid schema."""
        made = self._identities.setdefault(content, {})
        if normalize not in made:
            made[normalize] = self.source(content).identity(normalize=normalize)
        return made[normalize]

    def source(self, content: Content) -> Source:
        """Return a schema with the texts of its references. Raises RegistryError if one is not there."""
        texts: dict[str, str] = {}
        left = MAX_REFERENCED_CHARACTERS
        for name, text in self._texts(content.references, set()):
            texts.setdefault(name, text)
            left -= len(text)
            if left < 0:
                raise InvalidSchema(f"the schema refers to more than {MAX_REFERENCED_CHARACTERS} characters")
        return Source(content.type, content.text, texts)

    def _texts(self, references: tuple[Reference, ...], seen: set[tuple[str, int]]) -> Iterator[tuple[str, str]]:
        for each in references:
            if (each.subject, each.version) in seen:
                continue
            found = self.version(each.subject, each.version, deleted=True)
            seen.add((found.subject, found.version))
            if len(seen) > MAX_REFERENCES:
                raise InvalidSchema(f"the schema refers to more than {MAX_REFERENCES} others, directly or through them")
            # First what it refers to itself: a text may use what stands before it.
            yield from self._texts(found.content.references, seen)
            yield each.name, found.content.text


_OF_CONTEXTS = (":.", ":*:")
_APPLY: dict[str, Any] = {
    "SCHEMA": Subjects._apply_schema,  # pyright: ignore[reportPrivateUsage]
    "DELETE_SUBJECT": Subjects._apply_soft_deletion,  # pyright: ignore[reportPrivateUsage]
    "CLEAR_SUBJECT": Subjects._apply_clearing,  # pyright: ignore[reportPrivateUsage]
    "CONFIG": Subjects._apply_level,  # pyright: ignore[reportPrivateUsage]
    "MODE": Subjects._apply_mode,  # pyright: ignore[reportPrivateUsage]
    "NOOP": Subjects._apply_nothing,  # pyright: ignore[reportPrivateUsage]
}


def _set(table: dict[str | None, str], subject: str | None, value: str | None, known: tuple[str, ...]) -> None:
    if value is None:
        table.pop(subject, None)
    elif value in known:
        table[subject] = value
    else:
        raise UnreadableRecord(f"{value!r} is none of {', '.join(known)}")
