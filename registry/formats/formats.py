"""The table of formats, and the levels of compatibility, which are the same for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ... import how_to_install
from ..errors import InvalidSchema, RegistryError
from . import avro, avro_compatibility, json_compatibility, json_schema
from .difference import Difference, Steps

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
# In the order of Confluent's answer.
TYPES = (JSON, PROTOBUF, AVRO)
NONE = "NONE"
DEFAULT_LEVEL = "BACKWARD"
# Of the earlier versions of one check, with their references: each is parsed, at some megabytes a second, and a .proto
# file at 20,000 to 50,000 characters a second.
MAX_COMPARED_CHARACTERS = 16 << 20
MAX_COMPARED_PROTO = 1 << 19
LEVELS = (NONE, "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")


@dataclass(frozen=True, slots=True)
class Source:
    """A schema as text, with the texts behind its references by their names: what refers to another comes after it."""

    type: str
    text: str
    references: Mapping[str, str]

    def canonical(self, *, normalize: bool = False) -> str:
        """Return the text that the registry stores. Raises InvalidSchema."""
        parsed = _parsed(self, is_new=True)
        if self.type == PROTOBUF:
            text = self.text.strip()  # a .proto file keeps its comments
        else:
            text = (avro if self.type == AVRO else json_schema).canonical(parsed, normalize=normalize)
        if not is_unicode(text):
            raise InvalidSchema("half of a surrogate pair is no character")
        return text

    def identity(self, *, normalize: bool = False) -> str:
        """Return what all texts of this schema have in common. Raises InvalidSchema."""
        if self.type == PROTOBUF:
            return _protobuf().identity(self.text, normalize=normalize)
        return self.canonical(normalize=normalize)

    def serialized(self) -> str:
        """Return a schema of Protobuf as a descriptor in base64. Raises InvalidSchema."""
        return _protobuf().serialized(self.text, self.references)


def is_unicode(text: str) -> bool:
    """Tell whether a text can be written as UTF-8: JSON has escapes for what is none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _parsed(source: Source, *, is_new: bool = False) -> Any:
    if source.type == AVRO:
        return avro.parse(source.text, source.references.values(), is_new=is_new)
    if source.type == PROTOBUF:
        return _protobuf().parse(source.text, source.references)
    return json_schema.parse(source.text, source.references)


def _protobuf(name: str = "protobuf") -> Any:
    """Return a module of Protobuf, which needs libraries that not every registry has. Raises RegistryError."""
    try:
        return import_module(f".{name}", __package__)
    except ModuleNotFoundError as error:
        raise RegistryError(42201, f"Protobuf needs {error.name}: {how_to_install('registry')}") from None


def incompatibilities(new: Source, earlier: list[Source], level: str) -> list[str]:
    """Return a line for each reason why `new` may not follow the `earlier` versions, the oldest of which is first.

    The reasons are those of the last version that rejects it. Raises RegistryError past the bounds.
    """
    _check_size(earlier)
    steps = Steps()
    for old in reversed(earlier):
        try:
            found = list(_messages(new, old, level, steps))
        except RecursionError:
            # Types that name one another make a path that is longer than the text is deep.
            raise RegistryError(42201, "The schemas are nested too deep to be compared") from None
        if found:
            return found
    return []


def _check_size(checked: list[Source]) -> None:
    """Raise RegistryError for more than is compared."""
    size = sum(len(each.text) + sum(map(len, each.references.values())) for each in checked)
    most = MAX_COMPARED_PROTO if checked[-1].type == PROTOBUF else MAX_COMPARED_CHARACTERS
    if size > most:
        raise RegistryError(
            42201,
            f"The {len(checked)} earlier versions have {size} characters, and at most {most} are "
            "compared: delete old versions, or set a level that compares the last one alone",
        )


def _messages(new: Source, old: Source, level: str, steps: Steps) -> Iterator[str]:
    if new.type != old.type:
        yield f"{{errorType:'TYPE_CHANGED', description:'The schema type {old.type} was changed to {new.type}'}}"
        return
    if (new.text, new.references) == (old.text, old.references):
        return
    ours, theirs = _parsed(new), _parsed(old)
    if level.startswith(("BACKWARD", "FULL")):
        yield from (each.message(reader_is_new=True) for each in _differences(new.type, ours, theirs, steps))
    if level.startswith(("FORWARD", "FULL")):
        yield from (each.message(reader_is_new=False) for each in _differences(new.type, theirs, ours, steps))


def _differences(kind: str, reader: Any, writer: Any, steps: Steps) -> list[Difference]:
    if kind == PROTOBUF:
        return _protobuf("protobuf_compatibility").differences(reader, writer, steps)
    return (avro_compatibility if kind == AVRO else json_compatibility).differences(reader, writer, steps)
