"""Compiles the encoder of one message at one version into straight-line Python.

What it writes looks like this (Heartbeat response, version 4, which is flexible):

    def encode(o1):
        parts = []
        w = parts.append
        try:
            w(pack_ihx(o1.throttle_time_ms, o1.error_code))
        except ...: an EncodeError
        return [join(parts)]

The bytes of a message are collected in parts and joined once; what stands in a records field is not copied but becomes
a piece of its own between them, unless it is so small that a copy is cheaper than a piece.

A value other than the default in a field that the version lacks is an EncodeError, except where the schema calls the
field ignorable: then it is dropped (as Apache's own classes do). Tagged fields at their default are left out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Sized
from contextlib import contextmanager
from typing import Any, NoReturn, TypeAlias, cast

from .errors import EncodeError
from .primitives import SMALL_UVARINTS, encode_uvarint
from .schema import FIXED_FORMATS, Field, Message, Struct, span
from .source import Source

Piece: TypeAlias = Sized
"""A part of an encoded message: bytes, a memoryview, or any object with a length from a records field."""

MAX_FRAME_BYTES = 0x7FFFFFFF
"""The largest size that fits in front of a frame."""

COPIED_BYTES = 4096
"""Records up to this size are copied into the bytes around them: a page costs less than another entry in writev."""


def compile_encoder(cls: type[Message], version: int) -> Callable[[Any], list[Piece]]:
    """Return the function message -> pieces. Raises EncodeError if cls has no such version."""
    return _source(cls, version).compile("encode", f"{cls.__name__} v{version} encoder")


def compile_frame_encoder(cls: type[Message], version: int, *, tags: bool) -> Callable[[int, Any], list[Piece]]:
    """Return the function (correlation id, response) -> pieces of the whole frame, its size in front.

    The first piece is bytes. `tags`: the header ends in tagged fields. Raises EncodeError if cls has no such version.
    """
    return _source(cls, version, head="iix" if tags else "ii").compile("encode", f"{cls.__name__} v{version} encoder")


def _source(cls: type[Message], version: int, head: str = "") -> _EncoderSource:
    if version not in cls.VERSIONS:
        raise EncodeError(f"{cls.__name__} has no version {version}")
    return _EncoderSource(cls, version, head)


class _EncoderSource(Source):
    """In the code that is written, o.. are structs, v.. values, n.. lengths, w.. append to the parts of the day."""

    def __init__(self, cls: type[Message], version: int, head: str) -> None:
        """`head`: the letters of the frame's size and the header after it; empty for a message alone."""
        super().__init__(dict(_SCOPE))
        self.title = f"{cls.__name__} v{version}"
        self.version = version
        self.flexible = version in cls.FLEXIBLE
        self.write = "w"
        o = self.fresh("o")
        with self.block(f"def encode({'correlation_id, ' if head else ''}{o}):"):
            self.line("parts = []")
            self.line("pieces = []")
            pieces_line = len(self.lines) - 1
            self.line("w = parts.append")
            with self.block("try:"):
                self.line("pass")  # a version without fields writes nothing else
                self.struct(o, cls)
                self.flush()
            with self.block("except (struct_error, AttributeError, TypeError, UnicodeEncodeError) as error:"):
                self.line(f"raise EncodeError({self.title!r} + f': {{error}}') from error")
            if any("put_records(" in line for line in self.lines):
                with self.block("if parts:"):
                    self.line("pieces.append(join(parts))")
                if head:
                    # Bytes in every message: a length precedes any records.
                    self.line(f"pieces[0] = {self.head(head, 'sum(map(len, pieces))')} + pieces[0]")
                self.line("return pieces")
            else:
                del self.lines[pieces_line]
                self.line("body = join(parts)")
                self.line(f"return [{self.head(head, 'len(body)') + ' + ' if head else ''}body]")

    def head(self, letters: str, body_size: str) -> str:
        """Write the code that finds the frame's size; return the expression of all that precedes the body."""
        name, size = self.packer(letters)
        self.line(f"size = {body_size} + {size - 4}")  # the size does not count itself
        with self.block(f"if size > {MAX_FRAME_BYTES}:"):
            self.line("too_large(size)")
        return f"pack_{name}(size, correlation_id)"

    def packed(self, *more: tuple[str, str]) -> str:
        """Return the pending run and the code after it as one expression. The run stays pending, and may be empty."""
        run = [*self.run, *more]
        if not run:
            return ""
        if all(letter == "x" for letter, _ in run):
            return repr(bytes(len(run)))
        if len(run) == 1 and run[0][0] == "B":
            return f"SMALL_UVARINTS[{run[0][1]}]"
        name, _ = self.packer("".join(letter for letter, _ in run))
        return f"pack_{name}({', '.join(value for letter, value in run if letter != 'x')})"

    def flush(self, *more: tuple[str, str]) -> None:
        """Write the pending run, and what is to follow it."""
        packed = self.packed(*more)
        if packed:
            self.line(f"{self.write}({packed})")
        self.run.clear()

    def struct(self, o: str, cls: type[Struct]) -> None:
        tagged: list[Field] = []
        for field in cls.FIELDS:
            value = f"{o}.{field.name}"
            if self.version not in span(field.versions):
                if not field.ignorable:
                    with self.block(f"if {self.differs(value, field)}:"):
                        self.line(f"refuse({self.title!r}, {cls.__name__ + '.' + field.name!r}, {value})")
            elif field.tag is not None:
                tagged.append(field)
            else:
                self.field(value, field)
        if self.flexible:
            self.tagged_fields(o, sorted(tagged, key=lambda field: field.tag or 0))

    def differs(self, value: str, field: Field) -> str:
        """Return the condition that value is not the field's default."""
        default = field.default()
        if default is None:
            return f"{value} is not None"
        if field.kind == "struct":
            name = self.constant(default, f"DEFAULT_{field.struct().__name__}")
            return f"({value} is not {name} and {value} != {name})"
        if isinstance(default, list):
            return f"{value} != []" if field.nullable != "none" else value
        return f"{value} != {default!r}"

    def is_written(self, value: str, field: Field) -> str:
        """Return the condition that a tagged field is written."""
        return "True" if field.writes_null else self.differs(value, field)

    def field(self, value: str, field: Field) -> None:
        nullable = self.version in span(field.nullable)
        if field.kind == "array":
            self.array(value, field, nullable)
        elif field.kind == "struct":
            self.single_struct(value, field, nullable)
        else:
            self.leaf(value, field.kind, nullable)

    def leaf(self, value: str, kind: str, nullable: bool) -> None:
        """Write the code of a field that is no array and no struct."""
        letter = FIXED_FORMATS.get(kind)
        if letter is not None:
            if kind == "uuid":
                with self.block(f"if len({value}) != 16:"):
                    self.line(f"bad_uuid({value})")
            self.run.append((letter, value))
            return
        v = self.fresh("v")
        letter = "h" if kind == "string" else "i"
        self.line(f"{v} = {value}")
        with self.or_null(v, nullable, ("x", "") if self.flexible else (letter, "-1")):
            self.sized(v, kind, letter)

    @contextmanager
    def or_null(self, v: str, nullable: bool, null: tuple[str, str]) -> Generator[None]:
        """What is written inside is for a value; where that may be None, the code `null` comes in its place."""
        if not nullable:
            yield
            return
        with self.block(f"if {v} is None:"):
            pending = list(self.run)
            self.flush(null)
            self.run = pending
        with self.block("else:"):
            yield

    def sized(self, v: str, kind: str, letter: str) -> None:
        """Write the code of a length, then the bytes of v."""
        if kind == "records":
            n = self.fresh("n")
            self.line(f"{n} = records_size({v})")
            self.length(n, letter)
            self.line(f"put_records({v}, {n}, parts, pieces)")
            return
        if kind == "string":
            self.line(f"{v} = {v}.encode()")
        self.length(f"len({v})", letter)
        self.line(f"{self.write}({v})")

    def length(self, size: str, letter: str) -> None:
        """Write the pending run with a length or count behind it."""
        if not self.flexible:
            self.flush((letter, size))
            return
        n = self.fresh("n")
        self.line(f"{n} = {size} + 1")
        with self.block(f"if {n} < 128:"):
            self.line(f"{self.write}({self.packed(('B', n))})")
        with self.block("else:"):
            self.flush()
            self.line(f"{self.write}(uvarint({n}))")

    def array(self, value: str, field: Field, nullable: bool) -> None:
        v = self.fresh("v")
        self.line(f"{v} = {value}")
        with self.or_null(v, nullable, ("x", "") if self.flexible else ("i", "-1")):
            self.elements(v, field)

    def elements(self, v: str, field: Field) -> None:
        self.length(f"len({v})", "i")
        if field.of is not None and field.of != "uuid" and field.of in FIXED_FORMATS:
            self.line(f'{self.write}(pack(f">{{len({v})}}{FIXED_FORMATS[field.of]}", *{v}))')
            return
        o = self.fresh("o")
        with self.block(f"for {o} in {v}:"):
            if field.of is None:
                before = len(self.lines)
                self.struct(o, field.struct())
                self.flush()
                if len(self.lines) == before:
                    self.line("pass")
            else:
                self.leaf(o, field.of, nullable=False)
                self.flush()

    def single_struct(self, value: str, field: Field, nullable: bool) -> None:
        """Write the code of a struct in line. If it may be null, a byte comes first: 1, or -1 for null (tagged: 0)."""
        o, cls = self.fresh("o"), field.struct()
        self.line(f"{o} = {value}")
        with self.or_null(o, nullable, ("b", "-1" if field.tag is None else "0")):
            if nullable:
                self.run.append(("b", "1"))
            self.struct(o, cls)
            if nullable:
                self.flush()

    def tagged_fields(self, o: str, known: list[Field]) -> None:
        """Write the code of the tagged fields that end a struct: those that are not the default, in order of tags."""
        if not known:
            self.run.append(("x", ""))
            return
        changed = {each.name: self.is_written(f"{o}.{each.name}", each) for each in known}
        pending = list(self.run)
        with self.block(f"if {' or '.join(changed.values())}:"):
            self.flush()
            outer, tags, count = self.write, self.fresh("t"), self.fresh("n")
            self.line(f"{tags} = []")
            self.line(f"{count} = 0")
            for field in known:
                with self.block(f"if {changed[field.name]}:"):
                    parts = self.fresh("b")
                    self.write = self.fresh("w")
                    self.line(f"{parts} = []")
                    self.line(f"{self.write} = {parts}.append")
                    self.field(f"{o}.{field.name}", field)
                    self.flush()
                    self.line(f"{parts} = join({parts})")
                    self.line(f"{tags} += (uvarint({field.tag}), uvarint(len({parts})), {parts})")
                    self.line(f"{count} += 1")
            self.write = outer
            self.line(f"{outer}(uvarint({count}))")
            self.line(f"{outer}(join({tags}))")
        self.run = pending
        with self.block("else:"):
            self.flush(("x", ""))


# The generated code calls these for the rare cases.


def _refuse(title: str, name: str, value: object) -> NoReturn:
    raise EncodeError(f"{title} has no {name} and may not drop it: {value!r}")


def too_large(size: int) -> NoReturn:
    """Raise the EncodeError of a frame whose size does not fit in front of it."""
    raise EncodeError(f"a frame of {size} bytes: {MAX_FRAME_BYTES} is the most")


def _bad_uuid(value: bytes) -> NoReturn:
    raise EncodeError(f"a UUID has 16 bytes, not {len(value)}")


def _records_size(records: Any) -> int:
    """Return the bytes in a records field: of one piece, or of a list or tuple of them."""
    if isinstance(records, (list, tuple)):
        return sum(map(len, cast("list[Sized]", records)))
    return len(records)


def _put_records(records: Any, size: int, parts: list[bytes], pieces: list[Piece]) -> None:
    """Put records in their place: behind the parts so far, which are closed unless a copy is the cheaper way."""
    if size <= COPIED_BYTES and isinstance(records, (bytes, memoryview, bytearray)):
        parts.append(cast("bytes", records))
        return
    if parts:
        pieces.append(b"".join(parts))
        parts.clear()
    if isinstance(records, (list, tuple)):
        pieces.extend(cast("list[Sized]", records))
    else:
        pieces.append(records)


_SCOPE: dict[str, Any] = {
    "join": b"".join,
    "pack": struct.pack,
    "struct_error": struct.error,
    "uvarint": encode_uvarint,
    "SMALL_UVARINTS": SMALL_UVARINTS,
    "refuse": _refuse,
    "bad_uuid": _bad_uuid,
    "too_large": too_large,
    "records_size": _records_size,
    "put_records": _put_records,
    "EncodeError": EncodeError,
}
