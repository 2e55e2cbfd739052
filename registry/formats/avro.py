"""Avro schemas: JSON to a tree of types, and the tree to the canonical text that the registry stores.

The text is the one that Avro's Java library prints (and so what Confluent stores): attributes in its order, names short
inside their own namespace, a named type spelled out once. Two schemas with the same text are one schema. The rules are
those of the Avro specification 1.12.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ..errors import InvalidSchema
from .json_text import compact, read

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "enum", "fixed"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# What the parser itself takes from an object; everything else is a property that is kept.
_OF_TYPES = {"type", "name", "namespace", "doc", "aliases", "fields", "items", "values", "symbols", "size"}
_OF_FIELDS = {"name", "type", "doc", "default", "order", "aliases"}
_ORDERS = ("ascending", "descending", "ignore")
MISSING: Any = object()


@dataclass(slots=True, eq=False)
class Field:
    """A field of a record. `default` is JSON, or MISSING."""

    name: str
    type: AvroType
    default: Any = MISSING
    doc: str | None = None
    order: str = "ascending"
    aliases: tuple[str, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(slots=True, eq=False)
class AvroType:
    """A type. `name` and `aliases` are full names; `inner` is what an array or a map holds, or a union's branches."""

    kind: str
    name: str = ""
    doc: str | None = None
    aliases: tuple[str, ...] = ()
    fields: list[Field] = field(default_factory=list[Field])
    symbols: tuple[str, ...] = ()
    # The same, to look one up: an enum may have as many as fit into a schema.
    symbol_set: frozenset[str] = frozenset()
    default: Any = MISSING
    size: int = 0
    inner: tuple[AvroType, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict[str, Any])
    # Whether it stands in a reference, not in the schema itself: then the schema's text only names it.
    is_referenced: bool = False

    @property
    def short_name(self) -> str:
        """The name without its namespace."""
        return self.name.rpartition(".")[2]

    @property
    def namespace(self) -> str:
        return self.name.rpartition(".")[0]


def parse(text: str, references: Iterable[str] = (), *, is_new: bool = True) -> AvroType:
    """Return the type of a schema. `references` are the texts that it may name types of, the first ones first.

    Defaults are checked in new schemas only: older registries let wrong ones pass, and those must stay readable.
    Raises InvalidSchema.
    """
    parser = _Parser(is_new)
    for each in references:
        parser.refer_to(read(each))
    return parser.type_of(read(text) if text.lstrip()[:1] in _JSON_STARTS else text.strip(), "")


# A bare name such as `string` is a schema for Java's parser, too.
_JSON_STARTS = frozenset('"{[')


class _Parser:
    """Reads types, and knows those that have a name."""

    def __init__(self, checks_defaults: bool) -> None:
        self._named: dict[str, AvroType] = {}
        self._defaults = _Defaults() if checks_defaults else None

    def refer_to(self, value: Any) -> None:
        """Know the named types of a reference."""
        self.type_of(value, "")
        for each in self._named.values():
            each.is_referenced = True

    def type_of(self, value: Any, namespace: str) -> AvroType:
        if isinstance(value, str):
            return self._of_name(value, namespace)
        if isinstance(value, list):
            return self._union(cast("list[Any]", value), namespace)
        if not isinstance(value, dict):
            raise InvalidSchema(f"a type is a name, an object or a list, not {compact(value)}")
        return self._of_object(cast("dict[str, Any]", value), namespace)

    def _of_name(self, name: str, namespace: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        found = self._named.get(_full(name, namespace)) or self._named.get(name)
        if found is None:
            raise InvalidSchema(f'"{name}" is not a defined name')
        return found

    def _union(self, branches: list[Any], namespace: str) -> AvroType:
        found = tuple(self.type_of(each, namespace) for each in branches)
        names = [each.name or each.kind for each in found]
        if "union" in names:
            raise InvalidSchema("a union must not hold a union itself")
        twice = next((name for name, count in Counter(names).items() if count > 1), None)
        if twice is not None:
            raise InvalidSchema(f"a union holds {twice} twice")
        return AvroType("union", inner=found)

    def _of_object(self, value: dict[str, Any], namespace: str) -> AvroType:
        kind = value.get("type", MISSING)
        if kind is MISSING:
            raise InvalidSchema(f"no type in {compact(value)[:200]}")
        if not isinstance(kind, str):
            return self.type_of(kind, namespace)
        if kind == "error":
            kind = "record"
        if kind in NAMED:
            return self._named_type(kind, value, namespace)
        properties = {name: each for name, each in value.items() if name not in _OF_TYPES}
        if kind in PRIMITIVES:
            return AvroType(kind, properties=properties)
        if kind in _HOLDERS:
            return AvroType(kind, inner=(self._held(kind, value, namespace),), properties=properties)
        return self._of_name(kind, namespace)

    def _held(self, kind: str, value: dict[str, Any], namespace: str) -> AvroType:
        if _HOLDERS[kind] not in value:
            raise InvalidSchema(f"{kind} has no {_HOLDERS[kind]} type")
        return self.type_of(value[_HOLDERS[kind]], namespace)

    def _named_type(self, kind: str, value: dict[str, Any], namespace: str) -> AvroType:
        made = AvroType(kind, _name_of(value, namespace), _text(value, "doc"))
        if made.name in self._named:
            raise InvalidSchema(f"{made.name} is defined twice")
        if made.name in PRIMITIVES:
            raise InvalidSchema(f"{made.name} is a primitive type and cannot be defined")
        made.aliases = tuple(dict.fromkeys(_full(each, made.namespace) for each in _names(value, "aliases")))
        # A record can hold itself, so its name is known before its fields.
        self._named[made.name] = made
        own = _OF_TYPES | {"default"} if kind == "enum" else _OF_TYPES
        made.properties = {name: each for name, each in value.items() if name not in own}
        fill = {"record": self._fill_record, "enum": self._fill_enum, "fixed": self._fill_fixed}[kind]
        fill(made, value)
        return made

    def _fill_record(self, made: AvroType, value: dict[str, Any]) -> None:
        fields = value.get("fields")
        if not isinstance(fields, list):
            raise InvalidSchema(f"record {made.name} has no fields")
        seen: set[str] = set()
        for each in cast("list[Any]", fields):
            one = self._field(each, made)
            if one.name in seen:
                raise InvalidSchema(f"record {made.name} has two fields {one.name}")
            seen.add(one.name)
            made.fields.append(one)

    def _field(self, value: Any, record: AvroType) -> Field:
        if not isinstance(value, dict):
            raise InvalidSchema(f"a field of {record.name} is no object: {compact(value)[:200]}")
        given = cast("dict[str, Any]", value)
        name = _checked_name(given.get("name"))
        if "type" not in given:
            raise InvalidSchema(f"field {name} of {record.name} has no type")
        kind = self.type_of(given["type"], record.namespace)
        default = given.get("default", MISSING)
        if default is not MISSING and self._defaults is not None and not self._defaults.fits(kind, default):
            raise InvalidSchema(f"invalid default for field {name}: {compact(default)} is no {describe(kind)}")
        order = given.get("order", "ascending")
        if order not in _ORDERS:
            raise InvalidSchema(f"field {name} of {record.name} has the unknown order {compact(order)}")
        properties = {key: each for key, each in given.items() if key not in _OF_FIELDS}
        aliases = tuple(dict.fromkeys(_names(given, "aliases")))
        return Field(name, kind, default, _text(given, "doc"), order, aliases, properties)

    def _fill_enum(self, made: AvroType, value: dict[str, Any]) -> None:
        if not isinstance(value.get("symbols"), list):
            raise InvalidSchema(f"enum {made.name} has no symbols")
        made.symbols = tuple(_checked_name(each) for each in value["symbols"])
        made.symbol_set = frozenset(made.symbols)
        if len(made.symbol_set) < len(made.symbols):
            raise InvalidSchema(f"enum {made.name} has a symbol twice")
        made.default = value.get("default", MISSING)
        if made.default is not MISSING and made.default not in made.symbols:
            raise InvalidSchema(f"the default of enum {made.name} is none of its symbols: {compact(made.default)}")

    def _fill_fixed(self, made: AvroType, value: dict[str, Any]) -> None:
        size = value.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise InvalidSchema(f"fixed {made.name} has no valid size")
        made.size = size


_HOLDERS = {"array": "items", "map": "values"}


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _name_of(value: Mapping[str, Any], outer: str) -> str:
    name, namespace = value.get("name"), value.get("namespace")
    # As for Java's library, null is as if it were not there.
    namespace = outer if namespace is None else namespace
    if not isinstance(name, str) or not isinstance(namespace, str):
        raise InvalidSchema(f"no name in {compact(value)[:200]}")
    full = _full(name, namespace).removeprefix(".")
    for part in full.split("."):
        _checked_name(part)
    return full


def _checked_name(name: Any) -> str:
    if not isinstance(name, str) or not _NAME.match(name):
        raise InvalidSchema(f"{compact(name)} is no valid name")
    return name


def _names(value: Mapping[str, Any], key: str) -> list[str]:
    names = value.get(key, [])
    if not isinstance(names, list) or not all(isinstance(each, str) for each in cast("list[Any]", names)):
        raise InvalidSchema(f"{key} is no list of names: {compact(names)}")
    return cast("list[str]", names)


def _text(value: Mapping[str, Any], key: str) -> str | None:
    found = value.get(key)
    return found if isinstance(found, str) else None


def describe(kind: AvroType) -> str:
    """Return a type's name for people."""
    return f"{kind.kind} {kind.name}" if kind.name else kind.kind


# -- Defaults

_INT, _LONG = 1 << 31, 1 << 63


# Of one schema: a value that is none of the branches of nested unions is tried in all of their combinations.
MAX_DEFAULT_STEPS = 1_000_000


class _Defaults:
    """Checks the defaults of one schema within a bound."""

    def __init__(self) -> None:
        self._left = MAX_DEFAULT_STEPS

    def fits(self, kind: AvroType, value: Any) -> bool:
        """Tell whether JSON is a valid default of a type; of a union, of any of its branches (as since Avro 1.12)."""
        self._left -= 1
        if self._left < 0:
            raise InvalidSchema(f"to check the defaults takes more than {MAX_DEFAULT_STEPS} steps")
        match kind.kind:
            case "null":
                return value is None
            case "boolean":
                return isinstance(value, bool)
            case "int" | "long":
                bound = _INT if kind.kind == "int" else _LONG
                return isinstance(value, int) and not isinstance(value, bool) and -bound <= value < bound
            case "float" | "double":
                return isinstance(value, int | float) and not isinstance(value, bool)
            case "string" | "bytes" | "fixed":
                return isinstance(value, str)
            case "enum":
                return isinstance(value, str) and value in kind.symbol_set
            case "union":
                return any(self.fits(each, value) for each in kind.inner)
            case _:
                return self._fits_many(kind, value)

    def _fits_many(self, kind: AvroType, value: Any) -> bool:
        if kind.kind == "array":
            return isinstance(value, list) and all(self.fits(kind.inner[0], each) for each in cast("list[Any]", value))
        if not isinstance(value, dict):
            return False
        given = cast("dict[str, Any]", value)
        if kind.kind == "map":
            return all(self.fits(kind.inner[0], each) for each in given.values())
        return all(
            each.default is not MISSING if each.name not in given else self.fits(each.type, given[each.name])
            for each in kind.fields
        )


# -- Canonical text


def canonical(kind: AvroType, *, normalize: bool = False) -> str:
    """Return the text that the registry stores. With `normalize`, properties are in the order of their names."""
    return compact(_Writer(normalize).json(kind, ""))


class _Writer:
    """Writes a type as JSON values in the order of Java's library."""

    def __init__(self, normalize: bool) -> None:
        self._written: set[str] = set()
        self._normalize = normalize

    def json(self, kind: AvroType, namespace: str) -> Any:
        if kind.kind in PRIMITIVES:
            return {"type": kind.kind, **self._kept(kind.properties)} if kind.properties else kind.kind
        if kind.kind == "union":
            return [self.json(each, namespace) for each in kind.inner]
        if kind.kind in _HOLDERS:
            held = self.json(kind.inner[0], namespace)
            return {"type": kind.kind, _HOLDERS[kind.kind]: held, **self._kept(kind.properties)}
        return self._named(kind, namespace)

    def _kept(self, properties: Mapping[str, Any]) -> dict[str, Any]:
        return dict(sorted(properties.items())) if self._normalize else dict(properties)

    def _named(self, kind: AvroType, namespace: str) -> Any:
        if kind.is_referenced or kind.name in self._written:
            return _short(kind.name, namespace)
        self._written.add(kind.name)
        made: dict[str, Any] = {"type": kind.kind, "name": kind.short_name}
        if kind.namespace != namespace:
            made["namespace"] = kind.namespace
        if kind.doc is not None:
            made["doc"] = kind.doc
        if kind.kind == "record":
            made["fields"] = [self._field(each, kind.namespace) for each in kind.fields]
        elif kind.kind == "enum":
            made["symbols"] = list(kind.symbols)
            if kind.default is not MISSING:
                made["default"] = kind.default
        else:
            made["size"] = kind.size
        made |= self._kept(kind.properties)
        if kind.aliases:
            made["aliases"] = [_short(each, kind.namespace) for each in kind.aliases]
        return made

    def _field(self, one: Field, namespace: str) -> dict[str, Any]:
        made: dict[str, Any] = {"name": one.name, "type": self.json(one.type, namespace)}
        if one.doc is not None:
            made["doc"] = one.doc
        if one.default is not MISSING:
            made["default"] = one.default
        if one.order != "ascending":
            made["order"] = one.order
        if one.aliases:
            made["aliases"] = list(one.aliases)
        return made | self._kept(one.properties)


# What a name without a namespace would mean before any type that has it.
_TYPES = PRIMITIVES | NAMED | {"array", "map", "union"}


def _short(name: str, namespace: str) -> str:
    """Return a name as it is written inside of a namespace: whole where the short one would mean a type of Avro."""
    outer, _, short = name.rpartition(".")
    return short if outer == namespace and short not in _TYPES else name
