"""The HTTP API of Confluent's registry: a table of paths, each with the function that answers.

A look-up that finds nothing asks the log once more whether there is something new, because another registry may have
written what this one has not read yet.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..web.routes import Routes
from . import changes, errors
from .errors import RegistryError
from .formats.formats import AVRO, PROTOBUF, TYPES
from .records import Content, Version, reference_json
from .schemas_log import SchemasLog
from .subjects import LATEST, READWRITE, Subjects

# Of one answer that lists schemas with their texts. A client that gets fewer than its limit takes it for the end, so
# an answer of more characters is refused.
MAX_LISTED, MAX_LISTED_CHARACTERS = 1_000, 8 << 20
_MAX_VERSION = (1 << 31) - 1
_DEFAULT_CONTEXT, _ALL_CONTEXTS = ":.:", ":*:"


@dataclass(frozen=True, slots=True)
class Request:
    """A request: the variable parts of its path, its query and its body, which is empty without one."""

    names: Sequence[str]
    query: Mapping[str, str]
    body: Mapping[str, Any]

    def flag(self, name: str) -> bool:
        """Return a switch of the query. Python's clients write it with a capital."""
        return self.query.get(name, "").lower() == "true"

    def number(self, name: str, default: int) -> int:
        """Return a number of the query. Raises RegistryError."""
        text = self.query.get(name)
        return default if text is None else _number(text)

    @property
    def subject(self) -> str:
        """The subject in the path. `:.:NAME` is NAME: the context without a name is the default one."""
        return self.names[0].removeprefix(_DEFAULT_CONTEXT)

    @property
    def prefix(self) -> str:
        """What the subjects that are asked for begin with. `:*:` is all contexts, of which there is one."""
        return self.query.get("subjectPrefix", "").removeprefix(_DEFAULT_CONTEXT).removeprefix(_ALL_CONTEXTS)

    @property
    def version(self) -> int:
        """The version in the path, LATEST for `latest`. Raises RegistryError."""
        return _version(self.names[1])

    @property
    def schema(self) -> changes.Schema:
        """The schema in the body. Raises RegistryError."""
        return changes.schema_of(self.body, normalize=self.flag("normalize"))


class Text(str):
    """An answer that is sent as it is, not as JSON."""


Answer = Callable[[SchemasLog, Request], Awaitable[Any]]


async def answer(
    log: SchemasLog, method: str, path: Sequence[str], query: Mapping[str, str], body: Mapping[str, Any]
) -> Any:
    """Return the answer to a request, as JSON or Text. Raises RegistryError."""
    function, names = _route(method, path)
    request = Request(names, query, body)
    try:
        return await function(log, request)
    except RegistryError as error:
        if error.status != 404 or method in ("PUT", "DELETE"):
            raise
    await log.refresh()
    return await function(log, request)


# -- Subjects


async def _subjects(log: SchemasLog, request: Request) -> list[str]:
    def listed(state: Subjects) -> list[str]:
        return sorted(
            name for name in state.versions if name.startswith(request.prefix) and _is_listed(state.of(name), request)
        )

    return _page(await log.look(listed), request)


def _is_listed(versions: list[Version], request: Request) -> bool:
    is_live = any(not each.deleted for each in versions)
    if request.flag("deletedOnly"):
        return not is_live
    return is_live or request.flag("deleted")


async def _versions(log: SchemasLog, request: Request) -> list[int]:
    found = log.subjects.seen(request.subject, deleted=request.flag("deleted") or request.flag("deletedOnly"))
    return _page([each.version for each in found if each.deleted or not request.flag("deletedOnly")], request)


async def _one_version(log: SchemasLog, request: Request) -> dict[str, Any]:
    found = log.subjects.version(request.subject, request.version, deleted=request.flag("deleted"))
    return version_json(replace(found, content=await _formatted(log, request, found.content)))


async def _referenced_by(log: SchemasLog, request: Request) -> list[int]:
    found = log.subjects.version(request.subject, request.version, deleted=True)
    return _page(sorted({each.id for each in log.subjects.referrers(found.subject, found.version)}), request)


async def _register(log: SchemasLog, request: Request) -> Any:
    schema, subject = request.schema, request.subject
    return await log.change(lambda state: changes.register(state, subject, schema))


async def _look_up(log: SchemasLog, request: Request) -> dict[str, Any]:
    schema, subject, deleted = request.schema, request.subject, request.flag("deleted")
    log.subjects.seen(subject, deleted=deleted)
    found = await log.look(lambda state: changes.find(state, subject, schema, deleted=deleted))
    if found is None:
        raise errors.schema_not_found()
    return version_json(found)


async def _delete_subject(log: SchemasLog, request: Request) -> Any:
    subject, permanent = request.subject, request.flag("permanent")
    return await log.change(lambda state: changes.delete_subject(state, subject, permanent=permanent))


async def _delete_version(log: SchemasLog, request: Request) -> Any:
    subject, number, permanent = request.subject, request.version, request.flag("permanent")
    return await log.change(lambda state: changes.delete_version(state, subject, number, permanent=permanent))


def version_json(version: Version) -> dict[str, Any]:
    """Return a version as answers have it."""
    made = {"subject": version.subject, "version": version.version, "id": version.id}
    return {**made, **_content_json(version.content)}


def _content_json(content: Content) -> dict[str, Any]:
    made: dict[str, Any] = {} if content.type == AVRO else {"schemaType": content.type}
    if content.references:
        made["references"] = [reference_json(each) for each in content.references]
    return made | {"schema": content.text}


# -- Schemas by id


async def _schemas(log: SchemasLog, request: Request) -> list[dict[str, Any]]:
    found = _page(await log.look(lambda state: _listed_versions(state, request)), request, MAX_LISTED)
    if sum(len(each.content.text) for each in found) > MAX_LISTED_CHARACTERS:
        raise RegistryError(
            413, f"The answer has more than {MAX_LISTED_CHARACTERS} characters: ask for less by `limit`"
        )
    return [version_json(each) for each in found]


def _listed_versions(state: Subjects, request: Request) -> list[Version]:
    found: list[Version] = []
    for name in sorted(each for each in state.versions if each.startswith(request.prefix)):
        versions = state.of(name) if request.flag("deleted") else state.live(name)
        found += versions[-1:] if request.flag("latestOnly") else versions
    return found


async def _by_id(log: SchemasLog, request: Request) -> dict[str, Any]:
    content = log.subjects.content(_number(request.names[0]))
    made = _content_json(await _formatted(log, request, content))
    return made | {"maxId": log.subjects.max_id} if request.flag("fetchMaxId") else made


def _text_of(function: Answer) -> Answer:
    """Return an answer with the text of a schema alone: the one in the answer of `function`."""

    async def answered(log: SchemasLog, request: Request) -> Text:
        return Text((await function(log, request))["schema"])

    return answered


async def _versions_of_id(log: SchemasLog, request: Request) -> list[dict[str, Any]]:
    return _page([{"subject": each.subject, "version": each.version} for each in _places(log, request)], request)


async def _subjects_of_id(log: SchemasLog, request: Request) -> list[str]:
    return _page(sorted({each.subject for each in _places(log, request)}), request)


def _places(log: SchemasLog, request: Request) -> list[Version]:
    found = log.subjects.places(_number(request.names[0]), deleted=request.flag("deleted"))
    subject = request.query.get("subject", "").removeprefix(_DEFAULT_CONTEXT)
    return [each for each in found if subject in ("", each.subject)]


async def _formatted(log: SchemasLog, request: Request, content: Content) -> Content:
    """Return a content in the format that is asked for: its own, or a descriptor of Protobuf. Raises RegistryError."""
    form = request.query.get("format", "")
    if form in ("", "default"):
        return content
    if (form, content.type) != ("serialized", PROTOBUF):
        raise RegistryError(42201, f"The format {form[:100]!r} of a schema of type {content.type} is not supported")
    return replace(content, text=await log.look(lambda state: state.source(content).serialized()))


# -- Compatibility


async def _compatible_with_version(log: SchemasLog, request: Request) -> dict[str, Any]:
    number, state = request.version, log.subjects
    if number == LATEST:
        return await _compatibility(log, request, lambda subjects: subjects.live(request.subject)[-1:])
    state.version(request.subject, number)
    return await _compatibility(log, request, lambda subjects: [subjects.version(request.subject, number)])


async def _compatible_with_all(log: SchemasLog, request: Request) -> dict[str, Any]:
    return await _compatibility(log, request, lambda subjects: subjects.live(request.subject))


async def _compatibility(
    log: SchemasLog, request: Request, earlier: Callable[[Subjects], list[Version]]
) -> dict[str, Any]:
    schema, subject = request.schema, request.subject

    def compare(state: Subjects) -> list[str]:
        content = changes.canonical_content(state, schema)
        return changes.messages(state, subject, content, earlier(state), state.level(subject))

    found = await log.look(compare)
    answer: dict[str, Any] = {"is_compatible": not found}
    return answer | {"messages": found} if request.flag("verbose") else answer


# -- Levels and modes


async def _level(log: SchemasLog, request: Request) -> dict[str, str]:
    subject = _subject_or_all(request)
    own = log.subjects.levels.get(subject)
    if subject is not None and own is None and not request.flag("defaultToGlobal"):
        raise errors.no_level_of_subject(subject)
    return {"compatibilityLevel": own or log.subjects.level(subject or "")}


async def _set_level(log: SchemasLog, request: Request) -> Any:
    subject, level = _subject_or_all(request), request.body.get("compatibility")
    # `normalize` is asked for with each request; that no config has it done is how it is.
    others = [name for name, value in request.body.items() if name != "compatibility" and value not in (None, False)]
    if others:
        raise RegistryError(42203, f"The config {others[0]} is not supported")
    if not isinstance(level, str):
        raise errors.invalid_level()
    return await log.change(lambda state: changes.set_level(state, subject, level))


async def _remove_level(log: SchemasLog, request: Request) -> Any:
    subject = _subject_or_all(request)
    return await log.change(lambda state: changes.remove_level(state, subject))


async def _mode(log: SchemasLog, request: Request) -> dict[str, str]:
    subject, modes = _subject_or_all(request), log.subjects.modes
    if subject is None:
        return {"mode": modes.get(None, READWRITE)}
    if request.flag("defaultToGlobal"):
        return {"mode": log.subjects.mode(subject)}
    if subject not in modes:
        raise errors.no_mode_of_subject(subject)
    return {"mode": modes[subject]}


async def _set_mode(log: SchemasLog, request: Request) -> Any:
    subject, mode, force = _subject_or_all(request), request.body.get("mode"), request.flag("force")
    if not isinstance(mode, str):
        raise errors.invalid_mode()
    return await log.change(lambda state: changes.set_mode(state, subject, mode, force=force))


async def _remove_mode(log: SchemasLog, request: Request) -> Any:
    subject = request.subject
    return await log.change(lambda state: changes.remove_mode(state, subject))


def _subject_or_all(request: Request) -> str | None:
    return request.subject if request.names else None


def _always(answer: Any) -> Answer:
    async def answered(log: SchemasLog, request: Request) -> Any:
        return answer

    return answered


# -- The table

_TABLE: dict[str, dict[str, Answer]] = {
    "": {"GET": _always({})},
    "subjects": {"GET": _subjects},
    "subjects/*": {"POST": _look_up, "DELETE": _delete_subject},
    "subjects/*/versions": {"GET": _versions, "POST": _register},
    "subjects/*/versions/*": {"GET": _one_version, "DELETE": _delete_version},
    "subjects/*/versions/*/schema": {"GET": _text_of(_one_version)},
    "subjects/*/versions/*/referencedby": {"GET": _referenced_by},
    "schemas": {"GET": _schemas},
    "schemas/types": {"GET": _always(TYPES)},
    "schemas/ids/*": {"GET": _by_id},
    "schemas/ids/*/schema": {"GET": _text_of(_by_id)},
    "schemas/ids/*/versions": {"GET": _versions_of_id},
    "schemas/ids/*/subjects": {"GET": _subjects_of_id},
    "contexts": {"GET": _always(["."])},
    "compatibility/subjects/*/versions": {"POST": _compatible_with_all},
    "compatibility/subjects/*/versions/*": {"POST": _compatible_with_version},
    "config": {"GET": _level, "PUT": _set_level, "DELETE": _remove_level},
    "config/*": {"GET": _level, "PUT": _set_level, "DELETE": _remove_level},
    "mode": {"GET": _mode, "PUT": _set_mode},
    "mode/*": {"GET": _mode, "PUT": _set_mode, "DELETE": _remove_mode},
}
_ROUTES = Routes(_TABLE)


def _route(method: str, path: Sequence[str]) -> tuple[Answer, list[str]]:
    """Return the function of a path, with its variable parts. Raises RegistryError 404 or 405."""
    found = _ROUTES.find(path)
    if found is None:
        raise RegistryError(404, "HTTP 404 Not Found")
    methods, names = found
    if method not in methods:
        raise RegistryError(405, "HTTP 405 Method Not Allowed")
    return methods[method], names


# -- Numbers


def _version(text: str) -> int:
    if text in ("latest", "-1"):
        return LATEST
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and 1 <= int(text) <= _MAX_VERSION):
        raise errors.invalid_version(text[:100])
    return int(text)


def _number(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 10):
        raise RegistryError(404, "HTTP 404 Not Found")
    return int(text)


def _page(values: list[Any], request: Request, most: int = sys.maxsize) -> list[Any]:
    offset, limit = max(0, request.number("offset", 0)), request.number("limit", -1)
    return values[offset : offset + (most if limit < 0 else min(limit, most))]
