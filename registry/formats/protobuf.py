"""Protobuf: stored and served. Whether a text is one is checked by the grammar's statements, not by what they name, so
nothing is said about compatibility.

A second version of a subject needs the level NONE; at any other level the registry refuses it rather than guess.

A schema is the text of a .proto file, or a FileDescriptorProto in base64, as confluent-kafka for Python sends it.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator

from ..errors import InvalidSchema, RegistryError
from .json_text import MAX_DEPTH, MAX_SCHEMA_BYTES


def canonical(text: str) -> str:
    """Return the text as it is stored. Raises InvalidSchema for what is no Protobuf, or past the bound."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_SCHEMA_BYTES:
        raise InvalidSchema(f"the schema is larger than {MAX_SCHEMA_BYTES} bytes")
    text = text.strip()
    if not _is_descriptor(text):
        _check(text)
    return text


def refuse_comparison() -> RegistryError:
    """Return the error of a check that nothing here can make."""
    return RegistryError(
        42205, "This registry does not compare Protobuf schemas: set the compatibility of the subject to NONE"
    )


# -- A .proto file

_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/|(?P<word>[\w.+-]+)|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"""|(?P<sign>[{}\[\]()<>=;,:/])""",
    re.DOTALL,
)
_NAME, _OPTIONS = r"\.?[A-Za-z_][\w.]*", r"(?: \[ .* \])?"
_LABEL, _NUMBER = r"(?:(?:optional|required|repeated) )?", r"(?:- )?[-\w]+"
_OPTION, _RPC = r"option [^=]+ = .+", rf"rpc {_NAME} \( (?:stream )?{_NAME} \) returns \( (?:stream )?{_NAME} \)"
_FIELD = rf"{_LABEL}(?:map < {_NAME} , {_NAME} >|{_NAME}) {_NAME} = {_NUMBER}{_OPTIONS}"
_RESERVED = r"(?:reserved|extensions) .+"
# Of each kind of block: the statements in it, and those that open a block in it.
_STATEMENTS = {
    "file": rf"(?:syntax|edition) = TEXT|import (?:(?:public|weak|option) )?TEXT|package {_NAME}|{_OPTION}",
    "message": rf"{_OPTION}|{_RESERVED}|{_FIELD}",
    "enum": rf"{_OPTION}|{_RESERVED}|{_NAME} = {_NUMBER}{_OPTIONS}",
    "service": rf"{_OPTION}|{_RPC}",
    "rpc": _OPTION,
}
_BLOCKS = {
    "file": rf"(?:(?:export|local) )?(?:message|enum|service|extend) {_NAME}",
    "message": rf"(?:(?:export|local) )?(?:message|enum|extend|oneof) {_NAME}"
    rf"|{_LABEL}group {_NAME} = {_NUMBER}{_OPTIONS}",
    "service": _RPC,
}
# By the word that opens it: a message, a oneof or what is extended may be called service.
_KIND = re.compile(r"(?:(?:export|local) )?(enum|service|rpc) ")
_CLOSERS = {"[": "]", "(": ")", "{": "}", "<": ">"}


def _check(text: str) -> None:
    """Raise InvalidSchema for a text that is not made of the statements of .proto files."""
    kinds, statement, inner, count = ["file"], list[str](), list[str](), 0
    for token in _tokens(text):
        if inner or (token in "[(" or (token == "{" and "=" in statement and statement[0] == "option")):
            statement.append(token)
            _nest(inner, token)
        elif token == ";":
            count += _is_statement(statement, kinds[-1])
            statement = []
        elif token == "{":
            _expect(_BLOCKS.get(kinds[-1]), statement)
            found = _KIND.match(" ".join(statement))
            kinds.append(found[1] if found else "message")
            statement = []
        elif token == "}":
            if statement or len(kinds) == 1:
                raise _no_protobuf([*statement, token])
            kinds.pop()
            count += 1
        else:
            statement.append(token)
        if len(kinds) > MAX_DEPTH:
            raise InvalidSchema(f"the schema is nested deeper than {MAX_DEPTH} levels")
    if statement or len(kinds) > 1 or not count:
        raise _no_protobuf(statement)


def _tokens(text: str) -> Iterator[str]:
    """Yield words and signs; a literal is TEXT. Raises InvalidSchema."""
    at = 0
    while (found := _TOKEN.match(text, at)) is not None:
        at = found.end()
        if found.lastgroup is not None:
            yield "TEXT" if found.lastgroup == "text" else found[0]
    if at < len(text):
        raise _no_protobuf([text[at : at + 20]])


def _nest(inner: list[str], token: str) -> None:
    """Note what is open inside of a statement."""
    if token in ("[", "(", "{"):
        inner.append(_CLOSERS[token])
    elif inner and token == inner[-1]:
        inner.pop()


def _is_statement(statement: list[str], kind: str) -> bool:
    """Tell whether there is a statement. Raises InvalidSchema for one that the block cannot have."""
    if statement:
        _expect(_STATEMENTS[kind], statement)
    return bool(statement)


def _expect(pattern: str | None, statement: list[str]) -> None:
    if pattern is None or re.fullmatch(pattern, " ".join(statement)) is None:
        raise _no_protobuf(statement)


def _no_protobuf(near: list[str]) -> InvalidSchema:
    return InvalidSchema(f"no Protobuf near {' '.join(near)[:100]!r}" if near else "no Protobuf: it ends too early")


# -- A descriptor

# Numbers of the fields of a FileDescriptorProto by their wire types: whole numbers, and contents with a length.
_VARINTS, _CONTENTS = {10, 11, 14}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15}


def _is_descriptor(text: str) -> bool:
    """Tell whether a text is a FileDescriptorProto in base64, by its outermost fields."""
    try:
        content = b64decode(text, validate=True)
    except (Base64Error, ValueError):
        return False
    at, seen = 0, set[int]()
    while at < len(content):
        tag, at = _varint(content, at)
        length, at = _varint(content, at)
        if tag >> 3 not in {0: _VARINTS, 2: _CONTENTS}.get(tag & 7, ()):
            return False
        seen.add(tag >> 3)
        at += length if tag & 7 == 2 else 0
    return at == len(content) and 1 in seen


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Return a number and where it ends: after the end of the content if it is cut off."""
    for size, byte in enumerate(content[at : at + 10], 1):
        if byte < 0x80:
            number = sum((each & 0x7F) << 7 * place for place, each in enumerate(content[at : at + size]))
            return number, at + size
    return 0, len(content) + 1
