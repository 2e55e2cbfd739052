"""The text of a .proto file as a FileDescriptorProto, which is what Protobuf itself calls a file.

The library proto-schema-parser has the grammar. It goes on where a text is wrong, so the first error ends it here.
Names of types stay as they are written: who links the file resolves them. Options are kept as text, to tell two files
apart, but for the features of editions: they say how fields are written.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from antlr4.error.ErrorListener import ErrorListener
from antlr4.tree.Tree import ParseTreeListener
from google.protobuf import descriptor_pb2
from proto_schema_parser import ast
from proto_schema_parser.antlr.ProtobufLexer import ProtobufLexer
from proto_schema_parser.parser import Parser

from ..errors import InvalidSchema
from .json_text import MAX_DEPTH

# The parser is Python, and reads 20,000 to 50,000 characters a second. Other threads run meanwhile.
MAX_CHARACTERS = 1 << 17
_MAX_CACHED = 256
# The highest numbers of fields and of enum values: `max` in a range.
_MAX_FIELD, _MAX_VALUE = (1 << 29) - 1, (1 << 31) - 1
_FIELD: Any = descriptor_pb2.FieldDescriptorProto
_LABELS = {"OPTIONAL": _FIELD.LABEL_OPTIONAL, "REQUIRED": _FIELD.LABEL_REQUIRED, "REPEATED": _FIELD.LABEL_REPEATED}
_FEATURES: dict[str, Any] = {f"features.{each.name}": each for each in descriptor_pb2.FeatureSet.DESCRIPTOR.fields}
_SCALARS: dict[str, int] = {
    name.removeprefix("TYPE_").lower(): number
    for name, number in _FIELD.Type.items()
    if name not in ("TYPE_GROUP", "TYPE_MESSAGE", "TYPE_ENUM")
}


@lru_cache(_MAX_CACHED)
def read(text: str) -> bytes:
    """Return the FileDescriptorProto of a text, serialized and without a name. Raises InvalidSchema."""
    if len(text) > MAX_CHARACTERS:
        raise InvalidSchema(f"the text of the .proto file is longer than {MAX_CHARACTERS} characters")
    try:
        with _uncollected():
            parsed = _parsed(text)
        return _file(parsed).SerializeToString(deterministic=True)
    except RecursionError:
        raise InvalidSchema(f"the schema is nested deeper than {MAX_DEPTH} levels") from None
    except (ValueError, TypeError) as error:  # a number in a form or of a size that nothing has
        raise InvalidSchema(f"no Protobuf: {error}") from None


def _parsed(text: str) -> Any:
    """Return the library's syntax tree of a text. The parser's own trees are taken apart.

    Their nodes refer to their parents, so only Python's collector would free them, in 0.2 s during which no other
    thread runs.
    """
    nodes = _Nodes()

    def set_up(parser: Any) -> None:
        _end_at_errors(parser)
        parser.addParseListener(nodes)
        nodes.tokens = parser.getTokenStream()
        _write_in_decimal(nodes.tokens)

    try:
        return Parser(setup_lexer=_end_at_errors, setup_parser=set_up).parse(text)
    finally:
        for each in nodes.entered:
            each.parentCtx = each.children = each.parser = each.exception = None
        nodes.entered.clear()
        if nodes.tokens is not None:
            nodes.tokens.tokens.clear()


def _write_in_decimal(tokens: Any) -> None:
    """Write octal and hexadecimal numbers in decimal where they stand: the library takes most for decimal ones."""
    tokens.fill()
    stream = tokens.tokenSource.inputStream
    text = list(stream.strdata)
    for each in tokens.tokens:
        if each.type == ProtobufLexer.INT_LITERAL and each.text[0] == "0":
            number = str(int(each.text, 16 if each.text[1:2] in "xX" else 8)).zfill(len(each.text))
            # The numbers of fields and values fit. Larger ones are those of options, which stay as they are written.
            if len(number) == len(each.text):
                text[each.start : each.stop + 1] = number
    stream.strdata = "".join(text)


class _Nodes(ParseTreeListener):
    """The nodes that a parser makes, and its tokens."""

    def __init__(self) -> None:
        self.entered: list[Any] = []
        self.tokens: Any = None

    def enterEveryRule(self, ctx: Any) -> None:
        self.entered.append(ctx)


@contextmanager
def _uncollected() -> Generator[None]:
    """Have the collector of cycles wait."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _FirstError(ErrorListener):
    """Ends a parser at its first error."""

    def syntaxError(self, recognizer: Any, offendingSymbol: Any, line: int, column: int, msg: str, e: Any) -> None:
        raise InvalidSchema(f"no Protobuf at line {line}, column {column + 1}: {msg.partition(' expecting ')[0]:.200}")


def _end_at_errors(recognizer: Any) -> None:
    recognizer.removeErrorListeners()
    recognizer.addErrorListener(_FirstError())


def _file(parsed: Any) -> Any:
    made: Any = descriptor_pb2.FileDescriptorProto()
    if parsed.edition:
        made.syntax, made.edition = "editions", descriptor_pb2.Edition.Value(f"EDITION_{parsed.edition}")
    elif parsed.syntax and parsed.syntax != "proto2":  # which a descriptor does not name
        made.syntax = parsed.syntax
    for each in parsed.file_elements:
        match each:
            case ast.Import():
                made.dependency.append(each.name)
                if each.public:
                    made.public_dependency.append(len(made.dependency) - 1)
            case ast.Package():
                made.package = _name(each.name)
            case ast.Service():
                _service(made.service.add(), each)
            case _:
                _member(each, made, made.message_type, made.syntax == "proto3")
    return made


def _member(each: Any, made: Any, messages: Any, is_proto3: bool) -> None:
    """Add what files and messages can hold: types, extensions and options."""
    match each:
        case ast.Message():
            _message(messages.add(), each, is_proto3)
        case ast.Enum():
            _enum(made.enum_type.add(), each)
        case ast.Extension():
            for field in each.elements:
                _extension(made, field, each.typeName, messages, is_proto3)
        case ast.Option():
            _option(made.options, each)
        case _:  # comments, and semicolons alone
            pass


def _extension(made: Any, field: Any, extended: str, messages: Any, is_proto3: bool) -> None:
    if isinstance(field, ast.Field | ast.Group):
        added = made.extension.add(extendee=_name(extended))
        _field(added, field, messages, is_proto3)


def _message(made: Any, parsed: Any, is_proto3: bool) -> None:
    made.name = parsed.name
    for each in parsed.elements:
        match each:
            case ast.Field() | ast.Group():
                _field(made.field.add(), each, made.nested_type, is_proto3)
            case ast.MapField():
                _map(made, each)
            case ast.OneOf():
                _oneof(made, each, is_proto3)
            case ast.Reserved():
                made.reserved_name.extend(each.names)
                for start, end in map(_range, each.ranges):
                    made.reserved_range.add(start=start, end=end + 1)
            case ast.ExtensionRange():
                for start, end in map(_range, each.ranges):
                    made.extension_range.add(start=start, end=end + 1)
            case _:
                _member(each, made, made.nested_type, is_proto3)
    _optional_oneofs(made)


def _field(made: Any, parsed: Any, messages: Any, is_proto3: bool) -> None:
    made.name, made.number = parsed.name, parsed.number
    made.label = _LABELS[parsed.cardinality.name if parsed.cardinality else "OPTIONAL"]
    made.proto3_optional = bool(is_proto3 and parsed.cardinality and parsed.cardinality.name == "OPTIONAL")
    if isinstance(parsed, ast.Group):
        made.type, made.type_name, made.name = _FIELD.TYPE_GROUP, parsed.name, parsed.name.lower()
        return _message(messages.add(), parsed, is_proto3)
    _type(made, parsed.type)
    for each in parsed.options:
        _option(made.options, each)


def _type(made: Any, name: str) -> None:
    if name in _SCALARS:
        made.type = _SCALARS[name]
    else:
        made.type_name = _name(name)


def _map(made: Any, parsed: Any) -> None:
    """Add a map: a repeated field of a message that has the keys and values."""
    entry = made.nested_type.add(
        name="".join(f"{part[:1].upper()}{part[1:]}" for part in parsed.name.split("_")) + "Entry"
    )
    entry.options.map_entry = True
    for number, (name, kind) in enumerate((("key", parsed.key_type), ("value", parsed.value_type)), 1):
        _type(entry.field.add(name=name, number=number, label=_FIELD.LABEL_OPTIONAL), kind)
    field = made.field.add(
        name=parsed.name,
        number=parsed.number,
        label=_FIELD.LABEL_REPEATED,
        type=_FIELD.TYPE_MESSAGE,
        type_name=entry.name,
    )
    for each in parsed.options:
        _option(field.options, each)


def _oneof(made: Any, parsed: Any, is_proto3: bool) -> None:
    oneof = made.oneof_decl.add(name=parsed.name)
    for each in parsed.elements:
        if isinstance(each, ast.Field | ast.Group):
            field = made.field.add(oneof_index=len(made.oneof_decl) - 1)
            _field(field, each, made.nested_type, is_proto3)
        elif isinstance(each, ast.Option):
            _option(oneof.options, each)


def _optional_oneofs(made: Any) -> None:
    """Give each `optional` of proto3 the oneof that a descriptor has for it, after those that are written."""
    for field in made.field:
        if field.proto3_optional:
            made.oneof_decl.add(name=f"_{field.name}")
            field.oneof_index = len(made.oneof_decl) - 1


def _enum(made: Any, parsed: Any) -> None:
    made.name = parsed.name
    for each in parsed.elements:
        match each:
            case ast.EnumValue():
                value = made.value.add(name=each.name, number=each.number)
                for option in each.options:
                    _option(value.options, option)
            case ast.EnumReserved():
                made.reserved_name.extend(each.names)
                for start, end in (_range(span, _MAX_VALUE) for span in each.ranges):
                    made.reserved_range.add(start=start, end=end)
            case ast.Option(name="allow_alias"):
                made.options.allow_alias = each.value is True
            case ast.Option():
                _option(made.options, each)
            case _:
                pass


def _service(made: Any, parsed: Any) -> None:
    made.name = parsed.name
    for each in parsed.elements:
        match each:
            case ast.Method():
                method = made.method.add(name=each.name)
                method.input_type, method.client_streaming = _name(each.input_type.type), each.input_type.stream
                method.output_type, method.server_streaming = _name(each.output_type.type), each.output_type.stream
                for option in each.elements:
                    if isinstance(option, ast.Option):
                        _option(method.options, option)
            case ast.Option():
                _option(made.options, each)
            case _:
                pass


def _option(made: Any, parsed: Any) -> None:
    """Keep an option as it is written: what it means is not asked here, unless it is a feature."""
    feature = _FEATURES.get(parsed.name)
    if feature is not None:
        # A name that the enum does not have is a ValueError, and what is no name a TypeError.
        return setattr(made.features, feature.name, getattr(parsed.value, "name", parsed.value))
    option = made.uninterpreted_option.add(aggregate_value=repr(parsed.value))
    option.name.add(name_part=parsed.name, is_extension=False)


def _range(text: str, highest: int = _MAX_FIELD) -> tuple[int, int]:
    first, _, last = text.partition("to")
    end = highest if last.strip() == "max" else int(last or first)
    return int(first), end


def _name(text: str) -> str:
    """Return a name as one word: a text may have spaces around its dots."""
    return "".join(text.split())
