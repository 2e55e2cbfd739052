"""Another implementation reads what we write and writes what we read: the package kio."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import pytest
from kio.index import UnknownEntity, load_entity_schema
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from odradek.protocol import codec
from odradek.protocol.schema import Message
from odradek.tests.support.documents.apis import DECLARED


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def kio_class(cls: type[Message], version: int) -> Any:
    name = snake_case(cls.__name__)
    for suffix, kind in (("_request", EntityType.request), ("_response", EntityType.response)):
        if name.endswith(suffix):
            return load_entity_schema(name.removesuffix(suffix), version, kind)
    return load_entity_schema(name, version, EntityType.data)


def known_to_kio(cls: type[Message], version: int) -> bool:
    try:
        kio_class(cls, version)
    except UnknownEntity:
        return False
    return True


def test_kio_and_we_agree_to_the_byte(cls: type[Message], sample: Callable[..., Any]) -> None:
    known = [version for version in cls.VERSIONS if known_to_kio(cls, version)]
    for version in known:
        message = sample(cls, version)
        ours = b"".join(codec.encode(message, version))  # type: ignore[arg-type]
        theirs, size = entity_reader(kio_class(cls, version))(ours, 0)
        assert (version, size) == (version, len(ours))
        written = io.BytesIO()
        entity_writer(type(theirs))(written, theirs)
        assert (version, written.getvalue()) == (version, ours)
        assert (version, codec.decode(cls, version, written.getvalue())) == (version, message)
    if not known:
        pytest.skip("kio does not have this message")


def test_kio_knows_nearly_all_of_them() -> None:
    from odradek.protocol import apis

    pairs = [
        (cls, version)
        for key in DECLARED
        for cls in (apis.message(key, "request"), apis.message(key, "response"))
        for version in cls.VERSIONS
    ]
    unknown = [(cls.__name__, version) for cls, version in pairs if not known_to_kio(cls, version)]
    # The versions before Kafka 4.0, and the APIs that 4.0 has removed (versions 0-7, 0-4, 0-8 and 0-3); and what 4.4
    # has added to ApiVersions, TxnOffsetCommit and DeleteGroups.
    assert len(unknown) == 2 * (3 + 4 + 1 + 2 + 1 + 2 + 8 + 5 + 9 + 4 + 3)
