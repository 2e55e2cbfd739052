"""Compiles the decoder of one message at one version into straight-line Python.

What it writes looks like this (Heartbeat request, version 0):

    def decode(buffer, p, left):
        end = len(buffer)
        try:
            o1 = new(HeartbeatRequest)
            n2 = unpack_h(buffer, p)[0]
            p += 2
            q3 = p + n2
            if not p <= q3 <= end: bad_length("group_id", n2, p, end)
            o1.group_id = str(buffer[p:q3], "utf-8")
            p = q3
            o1.generation_id, n4 = unpack_ih(buffer, p)
            ...
            return o1, p
        except ...: a DecodeError

Promise: nothing is allocated by a length or count that was merely announced: each is first compared with the bytes that
are left. `left` bounds the elements of all arrays and the tagged fields together, and is counted before any is made: a
few million of them fit into a few megabytes and take seconds. Whatever the bytes, the only exceptions are DecodeErrors.
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol, TypeVar

from .errors import InvalidField, TooManyValues, TruncatedMessage, UnknownVersion
from .primitives import Buffer, decode_uvarint, decode_uvarint_tail
from .schema import FIXED_FORMATS, Field, Message, Struct, shared_default, span
from .source import Source

M = TypeVar("M", bound=Message)
M_co = TypeVar("M_co", bound=Message, covariant=True)

# More values than the bytes of any frame can announce.
NO_LIMIT = 2**31

# No version of Kafka defines a tagged field of a header. Each takes two bytes at least, and a microsecond to step over.
MAX_HEADER_TAGS = 1_000

# The most that a length of 16 bits can say. Kafka rejects a longer text also where the length is compact.
MAX_TEXT_BYTES = 0x7FFF

# The most elements of an array, and the most tagged fields of a struct, that Kafka reads since 4.4.
MAX_ELEMENTS = 1_000_000
MAX_TAGGED_FIELDS = 10_000

MIN_TAGGED_BYTES = 2
"""A tagged field is at least its tag and its size: so many cannot be announced without being there."""


class Decoder(Protocol[M_co]):
    """A compiled decoder."""

    def __call__(self, buffer: Buffer, offset: int, max_values: int = NO_LIMIT, /) -> tuple[M_co, int]:
        """Return the message and the offset behind it.

        Raises DecodeError, TooManyValues where arrays and tagged fields have more than `max_values` elements together.
        """
        ...


class FrameDecoder(Protocol[M_co]):
    """A compiled decoder of whole request frames, without their size."""

    def __call__(self, buffer: Buffer, max_values: int = NO_LIMIT, /) -> tuple[int, str | None, M_co, int]:
        """Return correlation id, client id, message, and the offset behind it. Raises as a `Decoder` does."""
        ...


def compile_decoder(cls: type[M], version: int) -> Decoder[M]:
    """Return the decoder of a message at one version. Raises UnknownVersion."""
    return _source(cls, version).compile("decode", f"{cls.__name__} v{version} decoder")


def compile_frame_decoder(cls: type[M], version: int) -> FrameDecoder[M]:
    """Return the decoder of a request at one version with the header before it. Raises UnknownVersion."""
    return _source(cls, version, framed=True).compile("decode", f"{cls.__name__} v{version} frame decoder")


def _source(cls: type[Message], version: int, *, framed: bool = False) -> _DecoderSource:
    if version not in cls.VERSIONS:
        raise UnknownVersion(f"{cls.__name__} has no version {version}")
    return _DecoderSource(cls, version, framed)


class _DecoderSource(Source):
    """In the code that is written, p is the position, end the buffer's length, o.. objects, n.. lengths, q.. ends."""

    def __init__(self, cls: type[Message], version: int, framed: bool) -> None:
        super().__init__(dict(_SCOPE))
        self.version = version
        self.flexible = version in cls.FLEXIBLE
        self.text_tail = "text_tail" if framed else "uvarint_tail"
        with self.block(f"def decode(buffer,{'' if framed else ' p,'} left=NO_LIMIT):"):
            self.line("end = len(buffer)")
            self.line("view = memoryview(buffer)")
            view_line = len(self.lines) - 1
            with self.block("try:"):
                if framed:
                    self.header()
                o = self.fresh("o")
                self.struct(o, cls)
                self.flush()
                self.line(f"return {'correlation_id, client_id, ' if framed else ''}{o}, p")
            title = self.constant(f"{cls.__name__} v{version}", "title")
            with self.block("except (IndexError, struct_error):"):
                self.line(f"raise TruncatedMessage({title} + f' ends too early: at offset {{p}} of {{end}}') from None")
            with self.block("except UnicodeDecodeError as error:"):
                self.line(f"raise InvalidField({title} + f' has text that is not UTF-8 at offset {{p}}') from error")
        if not any("view[" in line for line in self.lines):
            del self.lines[view_line]

    def header(self) -> None:
        """Write the code of a request's header. The caller has read key and version, which chose this decoder."""
        flexible, self.flexible = self.flexible, False
        self.line("p = 4")
        self.run.append(("i", "correlation_id"))
        self.leaf("client_id", "client id", "string", nullable=True)
        self.flexible = flexible
        if flexible:
            n = self.fresh("n")
            self.run.append(("B", n))
            self.flush()
            with self.block(f"if {n}:"):
                self.line(f"p = skip_header_tags(buffer, p, {n}, end)")

    def flush(self) -> None:
        """Write the pending run: one unpack into all its targets."""
        if not self.run:
            return
        targets = ", ".join(target for _, target in self.run)
        letters = "".join(letter for letter, _ in self.run)
        count = len(self.run)
        self.run.clear()
        if letters == "B":
            self.line(f"{targets} = buffer[p]")
            self.line("p += 1")
            return
        name, size = self.packer(letters)
        self.line(f"{targets} = unpack_{name}(buffer, p)" + ("[0]" if count == 1 else ""))
        self.line(f"p += {size}")

    def struct(self, o: str, cls: type[Struct]) -> None:
        """Make o and fill it: defaults for what this version lacks, then the fields in line, then the tagged ones."""
        self.line(f"{o} = new({self.constant(cls, cls.__name__)})")
        tagged: list[Field] = []
        for field in cls.FIELDS:
            if self.version not in span(field.versions):
                self.line(f"{o}.{field.name} = {self.default(field)}")
            elif field.tag is not None:
                tagged.append(field)
                self.line(f"{o}.{field.name} = {self.default(field)}")
            else:
                self.field(f"{o}.{field.name}", field)
        if self.flexible:
            self.tagged_fields(o, tagged)

    def default(self, field: Field) -> str:
        value = field.default()
        if isinstance(value, list):
            return "[]"
        if field.kind == "struct" and value is not None:
            return self.constant(value, f"DEFAULT_{field.struct().__name__}")
        return repr(value)

    def field(self, target: str, field: Field) -> None:
        nullable = self.version in span(field.nullable)
        if field.kind == "array":
            self.array(target, field, nullable)
        elif field.kind == "struct":
            self.single_struct(target, field, nullable)
        else:
            self.leaf(target, field.name, field.kind, nullable)

    def leaf(self, target: str, name: str, kind: str, nullable: bool) -> None:
        """Write the code of a field that is no array and no struct."""
        letter = FIXED_FORMATS.get(kind)
        if letter is not None:
            self.run.append((letter, target))
            return
        n = self.length("h" if kind == "string" else "i", is_long=kind != "string")
        with self.unless(f"{n} == {0 if self.flexible else -1}", target, nullable):
            self.slice(target, name, kind, n)

    @contextmanager
    def unless(self, null: str, target: str, nullable: bool) -> Generator[None]:
        """What is written inside is for a value; where that may be null, the condition `null` tells."""
        if not nullable:
            yield
            return
        with self.block(f"if {null}:"):
            self.line(f"{target} = None")
        with self.block("else:"):
            yield

    def length(self, letter: str, *, is_long: bool = False) -> str:
        """Read a length or count into a fresh name: as it stands on the wire, so one too large where it is compact.

        `is_long`: it often takes two bytes, which are then read without a call.
        """
        n = self.fresh("n")
        self.run.append(("B" if self.flexible else letter, n))
        self.flush()
        if not self.flexible:
            return n
        with self.block(f"if {n} > 127:"):
            if not is_long:
                tail = self.text_tail if letter == "h" else "uvarint_tail"
                self.line(f"{n}, p = {tail}(buffer, p, {n})")
                return n
            with self.block("if buffer[p] < 128:"):
                self.line(f"{n} += (buffer[p] << 7) - 128")
                self.line("p += 1")
            with self.block("else:"):
                self.line(f"{n}, p = uvarint_tail(buffer, p, {n})")
        return n

    def slice(self, target: str, name: str, kind: str, n: str) -> None:
        """Take n bytes, after looking whether they are there."""
        q = self.fresh("q")
        self.line(f"{q} = p + {n}{' - 1' if self.flexible else ''}")
        with self.block(f"if not p <= {q} <= end:"):
            self.line(f"bad_length({name!r}, {q} - p, p, end)")
        if kind == "string":
            self.line(f'{target} = str(buffer[p:{q}], "utf-8")')
        elif kind == "bytes":
            self.line(f"{target} = bytes(buffer[p:{q}])")
        else:
            self.line(f"{target} = view[p:{q}]")
        self.line(f"p = {q}")

    def array(self, target: str, field: Field, nullable: bool) -> None:
        n = self.length("i")
        if self.flexible:
            self.line(f"{n} -= 1")
        with self.unless(f"{n} == -1", target, nullable):
            self.elements(target, field, n)

    def elements(self, target: str, field: Field, n: str) -> None:
        """Take n elements, after looking whether so many can be there."""
        smallest = _min_size(field, self.version, self.flexible)
        with self.block(f"if not 0 <= {n} <= {MAX_ELEMENTS} or {n} * {smallest} > end - p:"):
            self.line(f"bad_length({field.name!r}, {n}, p, end)")
        self.count(n, field.name)
        if field.of is not None and field.of != "uuid" and field.of in FIXED_FORMATS:
            self.line(f'{target} = list(unpack_from(f">{{{n}}}{FIXED_FORMATS[field.of]}", buffer, p))')
            self.line(f"p += {n} * {smallest}")
            return
        items = self.fresh("a")
        self.line(f"{target} = {items} = []")
        with self.block(f"for _ in range({n}):"):
            e = self.fresh("o")
            if field.of is None:
                self.struct(e, field.struct())
            else:
                self.leaf(e, field.name, field.of, nullable=False)
            self.flush()
            self.line(f"{items}.append({e})")

    def count(self, n: str, name: str) -> None:
        """Take n values from those that are left, before any of them is made."""
        self.line(f"left -= {n}")
        with self.block("if left < 0:"):
            self.line(f"too_many({name!r}, {n}, p)")

    def single_struct(self, target: str, field: Field, nullable: bool) -> None:
        """Write the code of a struct in line; if it may be null, a byte in front says whether it is there."""
        o, cls = self.fresh("o"), field.struct()
        if not nullable:
            self.struct(o, cls)
            self.line(f"{target} = {o}")
            return
        present = self.fresh("n")
        self.run.append(("b", present))
        self.flush()
        # In line -1 is null, in a tagged field 0.
        with self.unless(f"{present} {'<' if field.tag is None else '<='} 0", target, nullable):
            self.struct(o, cls)
            self.flush()
            self.line(f"{target} = {o}")

    def tagged_fields(self, o: str, known: list[Field]) -> None:
        """Write the code of the tagged fields that end a struct. It skips unknown ones."""
        n = self.fresh("n")
        self.run.append(("B", n))
        self.flush()
        with self.block(f"if {n}:"):
            self.line(f"{n}, p = tagged_count(buffer, p, {n}, end)")
            self.line(f"left -= {n}")
            with self.block(f"if left < 0 or {n} > {MAX_TAGGED_FIELDS}:"):
                self.line(f"too_many('tagged fields', {n}, p)")
            if not known:
                self.line(f"p = skip_tagged_fields(buffer, p, {n}, end)")
                return
            tag, q = self.fresh("t"), self.fresh("q")
            with self.block(f"for _ in range({n}):"):
                self.line(f"{tag}, p, {q} = tagged_head(buffer, p, end)")
                word = "if"
                for field in known:
                    with self.block(f"{word} {tag} == {field.tag}:"):
                        self.field(f"{o}.{field.name}", field)
                        self.flush()
                        with self.block(f"if p != {q}:"):
                            self.line(f"bad_tagged_size({field.name!r}, p, {q})")
                    word = "elif"
                with self.block("else:"):
                    self.line(f"p = {q}")


def _min_size(field: Field, version: int, flexible: bool) -> int:
    """Return the fewest bytes that an element of the array can take. Never zero, so the bytes left bound the count."""
    if field.of is not None:
        return _leaf_min_size(field.of, flexible)
    size = _struct_min_size(field.struct(), version, flexible)
    if size == 0:
        raise TypeError(f"{field!r} has elements without bytes at version {version}: nothing bounds their number")
    return size


def _struct_min_size(cls: type[Struct], version: int, flexible: bool) -> int:
    size = 1 if flexible else 0
    for field in cls.FIELDS:
        if version not in span(field.versions) or field.tag is not None:
            continue
        if field.kind == "array":
            size += 1 if flexible else 4
        elif field.kind == "struct":
            nullable = version in span(field.nullable)
            size += 1 if nullable else _struct_min_size(field.struct(), version, flexible)
        else:
            size += _leaf_min_size(field.kind, flexible)
    return size


def _leaf_min_size(kind: str, flexible: bool) -> int:
    letter = FIXED_FORMATS.get(kind)
    if letter is not None:
        return struct.calcsize(">" + letter)
    if flexible:
        return 1
    return 2 if kind == "string" else 4


# The generated code calls these for the rare cases.


def _bad_length(name: str, length: int, position: int, end: int) -> NoReturn:
    if length < 0:
        raise InvalidField(f"{name} has the length {length} at offset {position}, and null is not allowed")
    if MAX_ELEMENTS < length <= end - position:
        _too_many(name, length, position)
    raise TruncatedMessage(f"{name} announces {length} at offset {position} where {end - position} bytes are left")


def _text_tail(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Finish the compact length of a text in a request. Raises InvalidField for more bytes than a text may have."""
    length, position = decode_uvarint_tail(buffer, position, first)
    if length - 1 > MAX_TEXT_BYTES:
        raise InvalidField(f"a text before offset {position} has {length - 1} bytes: {MAX_TEXT_BYTES} is the most")
    return length, position


def _too_many(name: str, count: int, position: int) -> NoReturn:
    raise TooManyValues(f"{name} announces {count} at offset {position}, which makes too many values for one message")


def _bad_tagged_size(name: str, position: int, expected: int) -> NoReturn:
    raise InvalidField(f"tagged field {name} ends at offset {position}, its size says {expected}")


def tagged_count(buffer: Buffer, position: int, first: int, end: int) -> tuple[int, int]:
    """(how many tagged fields follow, position) where first, the count's first byte, has been read."""
    count = first
    if first > 127:
        count, position = decode_uvarint_tail(buffer, position, first)
    if count * MIN_TAGGED_BYTES > end - position:
        _bad_length("tagged fields", count, position, end)
    return count, position


def _tagged_head(buffer: Buffer, position: int, end: int) -> tuple[int, int, int]:
    """(tag, where its value begins, where it ends)."""
    tag, position = decode_uvarint(buffer, position)
    size, position = decode_uvarint(buffer, position)
    if size > end - position:
        _bad_length(f"tagged field {tag}", size, position, end)
    return tag, position, position + size


def skip_header_tags(buffer: Buffer, position: int, first: int, end: int) -> int:
    """Return the position behind a header's tagged fields, whose count begins with the byte `first`."""
    count, position = tagged_count(buffer, position, first, end)
    if count > MAX_HEADER_TAGS:
        raise InvalidField(f"the header has {count} tagged fields: {MAX_HEADER_TAGS} is the most")
    return skip_tagged_fields(buffer, position, count, end)


def skip_tagged_fields(buffer: Buffer, position: int, count: int, end: int) -> int:
    """Return the position behind `count` unknown tagged fields."""
    for _ in range(count):
        _, _, position = _tagged_head(buffer, position, end)
    return position


_SCOPE: dict[str, Any] = {
    "new": object.__new__,
    "unpack_from": struct.unpack_from,
    "struct_error": struct.error,
    "uvarint_tail": decode_uvarint_tail,
    "text_tail": _text_tail,
    "NO_LIMIT": NO_LIMIT,
    "bad_length": _bad_length,
    "too_many": _too_many,
    "bad_tagged_size": _bad_tagged_size,
    "tagged_count": tagged_count,
    "tagged_head": _tagged_head,
    "skip_tagged_fields": skip_tagged_fields,
    "skip_header_tags": skip_header_tags,
    "shared_default": shared_default,
    "TruncatedMessage": TruncatedMessage,
    "InvalidField": InvalidField,
}
