"""How a message is declared: a slotted class, its fields in wire order, a version range on each.

    class HeartbeatRequest(Message, key=12, versions="0-4", flexible="4+"):
        group_id: str = string("0+")
        generation_id: int = int32("0+")
        member_id: str = string("0+")
        group_instance_id: str | None = string("3+", nullable="3+", default=None)

    class HeartbeatResponse(Message, request=HeartbeatRequest):
        throttle_time_ms: int = int32("1+", ignorable=True)
        error_code: int = int16("0+")

An API's key and versions stand on its request alone: its response has the same, and other code reads them from here.
The annotation is Python's type, for readers and type checkers; the call behind it says what stands on the wire and
since when. Structs are named by the annotation alone, so that a module can show the message first and its parts below.
Version ranges are written as Apache writes them: "3+", "2-4", "7".

Promise: a declaration costs nothing but its class at import. Initialisers are made when a class is first instantiated
and codecs (codec.py) when a version is first seen. Every field has the schema's default, which is not always zero.

A field that holds a single struct starts out as one shared default of that struct, which refuses assignment to its
fields: give the field a struct of its own instead. Lists are never shared.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, dataclass_transform

from .errors import EncodeError
from .primitives import ZERO_UUID

LAST_VERSION: Final = 0x7FFF
"""The last version that "+" means: versions are int16 on the wire."""

OWN_TAGS: Final = 10_000
"""Tags from here on are our own additions; Kafka counts its tags from 0, struct by struct. Other brokers and clients
step over them, as over every tag that they do not know (KIP-482)."""

NO_DEFAULT: Final = object()

Records: TypeAlias = Any
"""The value of a records field. Decoded: a memoryview into the frame, never a copy. To be encoded: bytes, a memoryview,
any other object with a length (a range of a file), or a list or tuple of these; each passes through as a piece."""

FIXED_FORMATS: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""The kinds of a fixed size and their letters in the struct module."""

ZEROS: Final[dict[str, Any]] = {
    **dict.fromkeys(("int8", "int16", "uint16", "int32", "uint32", "int64"), 0),
    "bool": False,
    "float64": 0.0,
    "uuid": ZERO_UUID,
    "string": "",
    "bytes": b"",
    "records": None,
}
"""The defaults of fields without a default in the schema, as in Apache's classes."""


@cache
def span(versions: str) -> range:
    """Return the versions that "3+", "2-4", "7" or "none" means."""
    if versions == "none":
        return range(0)
    first, _, last = versions.partition("-")
    if first.endswith("+"):
        return range(int(first[:-1]), LAST_VERSION + 1)
    return range(int(first), int(last or first) + 1)


class Field:
    """One field of a struct: its kind on the wire, the versions that have it and what it is where they do not."""

    __slots__ = (
        "_default",
        "annotation",
        "ignorable",
        "kind",
        "name",
        "nullable",
        "of",
        "owner",
        "tag",
        "versions",
        "writes_null",
    )

    def __init__(
        self,
        kind: str,
        versions: str,
        nullable: str = "none",
        default: Any = NO_DEFAULT,
        ignorable: bool = False,
        tag: int | None = None,
        of: str | None = None,
        writes_null: bool = False,
    ) -> None:
        self.kind = kind
        """A key of FIXED_FORMATS, or string, bytes, records, struct, array."""
        self.versions = versions
        self.nullable = nullable
        """The versions that can say null."""
        self.ignorable = ignorable
        """Whether a value is dropped, not refused, by versions that lack the field."""
        self.tag = tag
        """The number of a tagged field, None for a field in the line. A tagged field is tagged in all its versions."""
        self.of = of
        """For arrays of anything but structs: the kind of an element."""
        self.writes_null = writes_null
        """Whether a tagged struct is written also where it is null, as Kafka does for one message."""
        self._default = default
        self.name = ""
        self.annotation = ""
        self.owner = ""

    def __repr__(self) -> str:
        return f"<Field {self.name}: {self.kind} {self.versions}>"

    def struct(self) -> type[Struct]:
        """Return the struct that this field or its elements are: the one name in the annotation."""
        found = re.fullmatch(r"(?:list\[)?(\w+)\]?(?: \| None)?", self.annotation)
        if found is None:
            raise TypeError(f"{self.owner}.{self.name}: {self.annotation} names no struct")
        return getattr(sys.modules[self.owner], found[1])

    def default(self) -> Any:
        """Return the schema's default. A fresh list for an array, the shared and read-only one for a struct."""
        if self._default is not NO_DEFAULT:
            return self._default
        if self.kind == "array":
            return []
        if self.kind == "struct":
            return shared_default(self.struct())
        return ZEROS[self.kind]


def _declarer(kind: str) -> Callable[..., Any]:
    """Return what declares fields of a kind: (versions, **options of Field).

    It returns Any so that the annotation in front of it stands; checkers then see a field with a default.
    """
    return partial(Field, kind)


boolean = _declarer("bool")  # one byte: 0 is False, anything else True
int8 = _declarer("int8")
int16 = _declarer("int16")
uint16 = _declarer("uint16")
int32 = _declarer("int32")
uint32 = _declarer("uint32")
int64 = _declarer("int64")
float64 = _declarer("float64")
uuid = _declarer("uuid")  # 16 bytes, ZERO_UUID for none
string = _declarer("string")  # UTF-8 with a length in front
binary = _declarer("bytes")  # bytes with a length in front, which are decoded to a copy
batches = _declarer("records")  # record batches with a length in front: see Records
struct = _declarer("struct")  # the struct in the annotation
array = _declarer("array")  # of the structs in the annotation, or with `of` of a kind: of="int32"


@dataclass_transform()
class StructType(type):
    """Makes slots of the declared fields and keeps their descriptions. Its own attributes are capitals: no field is."""

    FIELDS: tuple[Field, ...]
    KEY: int | None
    """The API key, or the type of a coordinator's record."""
    VERSIONS: range
    FLEXIBLE: range

    def __new__(
        mcls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        key: int | None = None,
        versions: str = "none",
        flexible: str = "none",
        request: StructType | None = None,
    ) -> StructType:
        fields = [(field, value) for field, value in namespace.items() if value.__class__ is Field]
        annotations = namespace.get("__annotations__", {})
        for field, value in fields:
            value.name = field
            value.annotation = annotations[field]
            value.owner = namespace["__module__"]
            del namespace[field]
        namespace.setdefault("__slots__", tuple(field for field, _ in fields))
        namespace["FIELDS"] = tuple(value for _, value in fields)
        namespace["KEY"] = key if request is None else request.KEY
        namespace["VERSIONS"] = span(versions) if request is None else request.VERSIONS
        namespace["FLEXIBLE"] = span(flexible) if request is None else request.FLEXIBLE
        return super().__new__(mcls, name, bases, namespace)

    def __init__(  # pyright: ignore[reportInconsistentConstructor]
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_options: object
    ) -> None:
        super().__init__(name, bases, namespace)  # the options are spent: `type` would refuse them


class Struct(metaclass=StructType):
    """A part of a message: plain data, equal where its fields are equal. Its versions are the message's around it."""

    __slots__ = ()
    __hash__: ClassVar[None]  # type: ignore[assignment]

    if not TYPE_CHECKING:  # checkers make the initialiser from the fields

        def __init__(self, *values: Any, **named: Any) -> None:
            cls = type(self)
            cls.__init__ = _make_initialiser(cls)
            cls.__init__(self, *values, **named)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct) or other.__class__.FIELDS is not self.__class__.FIELDS:
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.__class__.FIELDS)

    def __repr__(self) -> str:
        cls = self.__class__
        shown = ", ".join(f"{field.name}={getattr(self, field.name, '<unset>')!r}" for field in cls.FIELDS)
        return f"{cls.__name__}({shown})"


class Message(Struct):
    """A whole message: a request, a response or a versioned value, with its versions and which of them are flexible."""

    __slots__ = ()


def has_field(struct: type[Struct], name: str, version: int) -> bool:
    """Return whether a struct has a field in a version."""
    return any(each.name == name and version in span(each.versions) for each in struct.FIELDS)


@cache
def shared_default(cls: type[Struct]) -> Struct:
    """Return the default value of cls, which all share and whose fields cannot be set."""

    def refuse(self: Struct, name: str, value: object) -> None:
        raise EncodeError(f"{cls.__name__}.{name} is set on the shared default: give its owner a new {cls.__name__}")

    def reduce(self: Struct) -> tuple[Any, ...]:
        return shared_default, (cls,)  # copied or pickled, it stays the shared one

    namespace = {"__slots__": (), "__setattr__": refuse, "__reduce__": reduce, "__module__": cls.__module__}
    frozen: Any = type.__new__(StructType, cls.__name__, (cls,), namespace)
    default = cls()
    default.__class__ = frozen
    return default


def _make_initialiser(cls: type[Struct]) -> Any:
    """`def __init__(self, a=0, b=...)` for cls, as straight-line code."""
    scope: dict[str, Any] = {"MISSING": NO_DEFAULT}
    parameters: list[str] = []
    lines: list[str] = []
    for field in cls.FIELDS:
        name = field.name
        default = field.default()
        if isinstance(default, list):
            parameters.append(f"{name}=MISSING")
            lines.append(f"    self.{name} = [] if {name} is MISSING else {name}")
        else:
            scope[f"_{name}"] = default
            parameters.append(f"{name}=_{name}")
            lines.append(f"    self.{name} = {name}")
    source = f"def __init__(self, {', '.join(parameters)}):\n" + "\n".join(lines or ["    pass"])
    exec(compile(source, f"<{cls.__name__}.__init__>", "exec"), scope)
    return scope["__init__"]
