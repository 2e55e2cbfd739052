"""Protobuf: a schema is the text of a .proto file, or a FileDescriptorProto in base64, as confluent-kafka for Python
sends it. It is stored as it came.

Protobuf's own library links a file with what it imports, so what is a file and which names lead somewhere is its word.
An import is the name of a reference, or a file that everybody has and that clients never name as a reference.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from importlib import import_module
from operator import attrgetter
from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from ..errors import InvalidSchema
from .protobuf_text import read

# Protobuf's library links a file in one go, in which no other thread runs: the densest of this size takes some 30 ms.
MAX_DESCRIPTOR_BYTES = 1 << 18
# Of a schema with its references: a parser of text reads some 50,000 a second.
MAX_CHARACTERS = 1 << 19
# The files that come with a library: their names are paths, and theirs alone are taken for modules.
_OF_LIBRARIES = re.compile(r"google/(?:protobuf|type)/[a-z_]+\.proto")
# Confluent's own files. The first one has nothing but options, which nobody asks for here.
_OF_CONFLUENT = {
    "confluent/meta.proto": "package confluent;",
    "confluent/type/decimal.proto": 'syntax = "proto3"; package confluent.type;'
    " message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }",
    "confluent/type/variant.proto": 'syntax = "proto3"; package confluent.type;'
    " message Variant { bytes metadata = 1; bytes value = 2; }",
}


def identity(text: str, *, normalize: bool) -> str:
    """Return what texts of the same schema have in common, whatever their spaces and comments. Raises InvalidSchema."""
    made = _proto(text)
    made.ClearField("name")
    made.ClearField("source_code_info")
    if normalize:
        public = {made.dependency[at] for at in made.public_dependency}
        made.dependency.sort()
        made.public_dependency[:] = [at for at, name in enumerate(made.dependency) if name in public]
        _sort_fields(made.message_type)
    return made.SerializeToString(deterministic=True).hex()


def _sort_fields(messages: Any) -> None:
    for message in messages:
        message.field.sort(key=attrgetter("number"))
        _sort_fields(message.nested_type)


def serialized(text: str, references: Mapping[str, str]) -> str:
    """Return a schema as a FileDescriptorProto in base64, with whole names of types. Raises InvalidSchema."""
    made: Any = descriptor_pb2.FileDescriptorProto()
    parse(text, references).CopyToProto(made)
    made.ClearField("name")
    return b64encode(made.SerializeToString(deterministic=True)).decode()


def parse(text: str, references: Mapping[str, str]) -> Any:
    """Return the linked FileDescriptor of a schema. Raises InvalidSchema."""
    if len(text) + sum(map(len, references.values())) > MAX_CHARACTERS:
        raise InvalidSchema(f"the schema and what it refers to are longer than {MAX_CHARACTERS} characters")
    pool, there = DescriptorPool(), set[str]()
    for name, each in references.items():
        _add(pool, there, name, _proto(each), references)
    # Longer than any other name, so it is no other's.
    own = f"schema{max(references, key=len, default='')}"
    _add(pool, there, own, _proto(text), references)
    return pool.FindFileByName(own)


def _add(pool: Any, there: set[str], name: str, proto: Any, references: Mapping[str, str]) -> None:
    """Link a file, after what it imports that everybody has."""
    if name in there:
        return
    proto.name = name
    for each in proto.dependency:
        if each not in there:
            _add(pool, there, each, _known(each, references), references)
    try:
        pool.Add(proto)
    except (TypeError, ValueError) as error:
        raise InvalidSchema(f"no Protobuf: {error!s:.500}") from None
    there.add(name)


def _known(name: str, references: Mapping[str, str]) -> Any:
    """Return a file that everybody has."""
    if name in _OF_CONFLUENT:
        return _proto(_OF_CONFLUENT[name])
    made: Any = descriptor_pb2.FileDescriptorProto()
    try:
        if _OF_LIBRARIES.fullmatch(name):
            import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2").DESCRIPTOR.CopyToProto(made)
            return made
    except ModuleNotFoundError:
        pass
    raise InvalidSchema(f"the import {name[:200]!r} leads nowhere: no reference has this name")


def _proto(text: str) -> Any:
    """Return the FileDescriptorProto of a text or of base64. Raises InvalidSchema."""
    try:
        content = b64decode(text.strip(), validate=True)
    except (Base64Error, ValueError):
        content = read(text)
    if len(content) > MAX_DESCRIPTOR_BYTES:
        raise InvalidSchema(f"the descriptor is larger than {MAX_DESCRIPTOR_BYTES} bytes")
    made: Any = descriptor_pb2.FileDescriptorProto()
    try:
        made.ParseFromString(content)
    except DecodeError:
        raise InvalidSchema("no Protobuf: neither a .proto file nor a descriptor in base64") from None
    if not made.ListFields():  # a short word may be base64 of fields that a descriptor does not have
        raise InvalidSchema("no Protobuf: the file declares nothing")
    return made
