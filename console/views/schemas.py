"""Schemas of the registry: its subjects; of one, a version, how it differs from another, and whether it may follow."""

from __future__ import annotations

import json
from dataclasses import dataclass
from difflib import unified_diff

from ...client.errors import KafkaError, SchemaRegistryRefused
from ...client.schemas import Schema, SchemaRegistry
from ...web.exchange import HttpError, Response
from ..reading.schemas import Schemas
from ..visit import Visit
from .topics import page_of

# Of one schema on a page, and of two that are compared: to compare takes the square of it.
MAX_CHARACTERS = 200_000
MAX_COMPARED_LINES = 4_000
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class Row:
    """A subject with its latest version."""

    subject: str
    version: int
    type: str
    id: int
    level: str


@dataclass(frozen=True, slots=True)
class Shown:
    """A version of a subject, beside another one unless it is the only one."""

    subject: str
    level: str
    versions: list[int]
    version: int
    against: int | None
    id: int
    schema: Schema
    text: str
    diff: list[str]
    why_none: str
    reasons: list[str]


async def page(visit: Visit) -> Response:
    """Show the subjects whose names contain a text, or one of them."""
    schemas = visit.house.schemas
    if schemas is None:
        return _page(visit, problem="This console knows no registry: start it with --registry URL.")
    subject = visit.text("subject")
    try:
        return await (_subject(visit, schemas, subject) if subject else _subjects(visit, schemas))
    except KafkaError as error:
        if isinstance(error, SchemaRegistryRefused) and error.status == _NOT_FOUND:
            raise HttpError(404, error.message) from None
        return _page(visit, problem=error.message)


def _page(visit: Visit, problem: str) -> Response:
    return visit.page("schemas.html", "Schemas", **page_of(visit, []), q="", problem=problem)


async def _subjects(visit: Visit, schemas: Schemas) -> Response:
    wanted = visit.text("q")
    names = sorted(name for name in await schemas.look(SchemaRegistry.subjects) if wanted in name)
    listed = page_of(visit, names)
    shown = listed["rows"]
    listed["rows"] = await schemas.look(lambda registry: [row for name in shown for row in _rows(registry, name)])
    return visit.page("schemas.html", "Schemas", **listed, q=wanted, problem="")


def _rows(registry: SchemaRegistry, subject: str) -> list[Row]:
    """Return the row of a subject; nothing if it is gone meanwhile."""
    try:
        latest = registry.latest(subject)
        level = registry.compatibility(subject)
    except SchemaRegistryRefused as error:
        if error.status != _NOT_FOUND:
            raise
        return []
    return [Row(subject, latest.version, latest.schema.type, latest.id, level)]


async def _subject(visit: Visit, schemas: Schemas, subject: str) -> Response:
    version, against = visit.number("version", low=1), visit.number("against", low=1)
    shown = await schemas.look(lambda registry: _shown(registry, subject, version, against))
    return visit.page("schema.html", subject, shown=shown)


def _shown(registry: SchemaRegistry, subject: str, version: int | None, against: int | None) -> Shown:
    """Return a version, the latest one by default, beside the one before it. Raises SchemaRegistryRefused."""
    versions = registry.versions(subject)
    chosen = registry.version(subject, version or versions[-1])
    before = [each for each in versions if each < chosen.version]
    other = against or (before[-1] if before else None)
    text, diff, why_none, reasons = _pretty(chosen.schema), list[str](), "", list[str]()
    if other is not None:
        diff, why_none = _differences(_pretty(registry.version(subject, other).schema), text)
        reasons = registry.why_incompatible(subject, chosen.schema, other)
    return Shown(
        subject, registry.compatibility(subject), versions, chosen.version, other, chosen.id, chosen.schema,
        text[:MAX_CHARACTERS], diff, why_none, reasons,
    )  # fmt: skip


def _pretty(schema: Schema) -> str:
    """Return the text of a schema with a member a line, as it is where it is no JSON."""
    try:
        return schema.text if schema.type == "PROTOBUF" else json.dumps(json.loads(schema.text), indent=2)
    except (ValueError, RecursionError):
        return schema.text


def _differences(old: str, new: str) -> tuple[list[str], str]:
    """Return the lines that went and came, with some around them; or why there are none."""
    before, after = old.splitlines(), new.splitlines()
    if len(before) + len(after) > MAX_COMPARED_LINES:
        return [], f"The two have {len(before) + len(after)} lines, and {MAX_COMPARED_LINES} at most are compared here."
    made = list(unified_diff(before, after, lineterm="", n=3))[2:]
    return made, "" if made else "The two have the same text."
