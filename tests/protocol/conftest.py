"""Fixtures of the protocol's tests: every declared message at every version, random values, Kafka's specifications."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from odradek.protocol import apis
from odradek.protocol.messages import consumer_protocol, group_records, transaction_records
from odradek.protocol.schema import FIXED_FORMATS, OWN_TAGS, Field, Message, Struct, span
from odradek.tests.support.documents.apis import DECLARED
from odradek.tests.support.seeds import examples

GOLDEN = Path(__file__).parents[1] / "golden"

# Of a version of a message.
MESSAGES = examples(15)
CHARACTERS = "a\0\x7f\xe9\u20ac\U0001f600"
INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


@cache
def declared_messages() -> list[type[Message]]:
    found = [apis.message(key, kind) for key in DECLARED for kind in ("request", "response")]
    for module in (consumer_protocol, group_records, transaction_records):
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Message) and value is not Message:
                found.append(value)
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that takes `cls` every message. The test goes through the versions: 600 tests cost more than 120."""
    if "cls" in metafunc.fixturenames:
        metafunc.parametrize("cls", declared_messages(), ids=lambda cls: cls.__name__)


@pytest.fixture
def classes() -> list[type[Message]]:
    """Return every message, for a check that is too small for a test of each."""
    return declared_messages()


@cache
def _specifications() -> tuple[dict[str, Any], dict[str, Any]]:
    return (
        json.loads((GOLDEN / "kafka-4.4.0" / "requests-and-responses.json").read_text()),
        json.loads((GOLDEN / "kafka-3.9.1" / "older-versions.json").read_text()),
    )


@pytest.fixture
def specification() -> Callable[[str, int], dict[str, Any]]:
    """Return Apache's specification of a message at a version: of Kafka 4.4.0, or of 3.9.1 if 4.4.0 has dropped it."""

    def find(name: str, version: int) -> dict[str, Any]:
        current, older = _specifications()
        found = current.get(name)
        return found if found is not None and version in span(found["validVersions"]) else older[name]

    return find


@pytest.fixture
def current_specifications() -> dict[str, Any]:
    """Apache's newest specifications: those of 4.4.0, and those of 3.9.1 for APIs that 4.x has removed."""
    current, older = _specifications()
    return {**older, **current}


def _leaf(kind: str, chance: Random) -> Any:
    if kind in INTEGER_BITS:
        limit = 1 << (INTEGER_BITS[kind] - 1)
        return chance.choice((-limit, -1, 0, limit - 1, chance.randrange(-limit, limit)))
    if kind in ("uint16", "uint32"):
        limit = 1 << int(kind[4:])
        return chance.choice((0, limit // 2, limit - 1, chance.randrange(limit)))
    # The length of a compact one takes a second byte from 127 on.
    size = chance.choice((0, 1, 126, 127, chance.randrange(200)))
    match kind:
        case "bool":
            return chance.random() < 0.5
        case "float64":
            return chance.choice((0.0, -1.5, float("inf"), chance.random() * 1e300))
        case "uuid":
            return chance.randbytes(16)
        case "string":
            return "".join(chance.choices(CHARACTERS, k=size))
        case _:
            return chance.randbytes(size)


def _value(field: Field, version: int, chance: Random) -> Any:
    if version in span(field.nullable) and chance.random() < 0.25:
        return None
    if field.kind == "array":
        # Few elements: a count beyond a byte is tested by itself.
        count = range(chance.randrange(4))
        return [_leaf(field.of, chance) if field.of else _filled(field.struct(), version, chance) for _ in count]
    return _filled(field.struct(), version, chance) if field.kind == "struct" else _leaf(field.kind, chance)


def _filled(cls: type[Struct], version: int, chance: Random) -> Any:
    fields = (field for field in cls.FIELDS if version in span(field.versions))
    return cls(**{field.name: _value(field, version, chance) for field in fields})


@pytest.fixture
def filled() -> Callable[..., Iterator[Any]]:
    """Return what makes messages in which every field of the version has any value of its type."""

    def some(cls: type[Struct], version: int, times: int = 1) -> Iterator[Any]:
        chance = Random(f"{cls.__name__} {version}")
        return (_filled(cls, version, chance) for _ in range(times * MESSAGES))

    return some


@pytest.fixture
def sample() -> Callable[..., Any]:
    """Return a message with every field of Kafka's version set to small distinct numbers and texts, always the same."""

    def make(cls: type[Struct], version: int, start: int = 1) -> Any:
        counter = iter(range(start, 1_000_000))

        def value(kind: str) -> Any:
            number = next(counter)
            if kind == "bool":
                return True
            if kind in FIXED_FORMATS and kind != "uuid":
                return number % 100 + 1
            return {
                "uuid": bytes([number % 255 + 1]) * 16,
                "string": f"text-{number}",
                "bytes": b"bytes-%d" % number,
                "records": b"records-%d" % number,
            }[kind]

        def build(cls: type[Struct]) -> Any:
            values: dict[str, Any] = {}
            for field in cls.FIELDS:
                if version not in span(field.versions) or (field.tag is not None and field.tag >= OWN_TAGS):
                    continue
                if field.kind == "array":
                    values[field.name] = [value(field.of) if field.of else build(field.struct()) for _ in range(2)]
                elif field.kind == "struct":
                    values[field.name] = build(field.struct())
                else:
                    values[field.name] = value(field.kind)
            return cls(**values)

        return build(cls)

    return make
