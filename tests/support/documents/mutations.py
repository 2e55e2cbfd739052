"""Requests that no client would send, by seed: mutated captures of `tests/golden/wire`, or random fields."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from struct import pack
from typing import Any

from odradek.broker.network.routes import ALONE_ROUTES, CLUSTER_ROUTES
from odradek.protocol import frame
from odradek.protocol.apis import AnyKey, message
from odradek.protocol.schema import FIXED_FORMATS, Field, Struct, span
from odradek.tests.support.clients.raw import batch_of

GOLDEN = Path(__file__).parents[2] / "golden" / "wire"
IMAGINED_EACH = 3
# What a broker serves that is alone, and what one serves besides that is in a cluster.
EVERY_ROUTE = (*ALONE_ROUTES, *CLUSTER_ROUTES)
# What lengths, counts, offsets and timeouts are most likely to be mishandled at.
EXTREMES = [
    pack(">i", value) for value in (-(2**31), -2, -1, 0, 1, 127, 128, 2**15, 2**16, 10**6, 100 * 2**20, 2**31 - 1)
] + [pack(">q", value) for value in (-(2**63), -1, 2**63 - 1)]
EXTREMES += [pack(">h", value) for value in (-(2**15), -1, 2**15 - 1)]
EXTREMES += [
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\x01",
    b"\x80\x80\x80\x80\x08",
    b"\xff" * 12,
    b"\x80\x80\x80\x00",
]


@cache
def requests() -> list[bytes]:
    """Return every captured request that Kafka answered, without its length, and requests of all other APIs."""
    rows = [
        line.split("\t") for path in sorted(GOLDEN.glob("[A-Z]*.tsv")) for line in path.read_text().splitlines()[1:]
    ]
    captured = [bytes.fromhex(row[3]) for row in rows if row[2] == "answered"]
    return [*captured, *imagined(captured)]


def imagined(known: list[bytes]) -> list[bytes]:
    """Return requests of the APIs that the broker serves and `known` has none of, such as our own."""
    keys = {int.from_bytes(data[:2], "big") for data in known}
    missing = [route for route in EVERY_ROUTE if route.key not in keys]
    return [
        Imagination(seed, []).request(route.key, route.versions[-1])
        for route in missing
        for seed in range(IMAGINED_EACH)
    ]


def mutated(chance: random.Random, known: list[bytes] | None = None) -> bytes:
    """Return one of the requests `known` (default: all) that is almost valid, without its length."""
    known = known or requests()
    data = bytearray(chance.choice(known))
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        # The API key and version stay mostly what they were: otherwise little more than the header would be looked at.
        at = chance.randrange(0 if chance.random() < 0.05 else min(8, len(data)), len(data) + 1)
        match chance.randrange(7):
            case 0 if at < len(data):
                data[at] ^= 1 << chance.randrange(8)
            case 1 if at < len(data):
                data[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                extreme = chance.choice(EXTREMES)
                data[at : at + len(extreme)] = extreme
            case 3:
                del data[at:]
            case 4:
                del data[at : at + chance.randrange(1, 9)]
            case 5:
                data[at:at] = chance.randbytes(chance.randrange(1, 9))
            case _:
                other = chance.choice(known)
                data[at:] = other[chance.randrange(len(other)) :]
    return bytes(data)


TEXTS = (
    "t",
    "t",
    "t",
    "g",
    "g",
    "__consumer_offsets",
    "",
    ".",
    "..",
    "bad name",
    "n" * 249,
    "n" * 250,
    "\u00e9\u20ac",
    "1",
    "range",
)
NUMBERS = (0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, -1, -1, -2, -3, 100, 6000, 30_000, 1 << 20)
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


class Imagination:
    """Requests with random fields, most of them plausible.

    `topic_ids` holds the ids of topics that exist, `known` values of fields that have these most of the time.
    """

    def __init__(self, seed: int, topic_ids: list[bytes], known: Mapping[str, Any] | None = None) -> None:
        self.chance = random.Random(seed)
        self.known = known or {}
        self.topic_ids = [*topic_ids, bytes(16), b"\x05" * 16]

    def request(self, key: AnyKey, version: int) -> bytes:
        """Return a random request, without its length."""
        body = self._struct(message(key, "request"), version)
        client_id = self.chance.choice((None, "", "c"))
        pieces = frame.encode_request(key, version, self.chance.getrandbits(31), client_id, body)
        return b"".join(map(bytes, pieces))[4:]

    def _struct(self, cls: type[Struct], version: int) -> Any:
        fields = [field for field in cls.FIELDS if version in span(field.versions)]
        return cls(**{field.name: self._value(field, version) for field in fields})

    def _value(self, field: Field, version: int) -> Any:
        if field.name in self.known and self.chance.random() < 0.9:
            return self.known[field.name]
        if version in span(field.nullable) and self.chance.random() < 0.3:
            return None
        if field.kind == "array":
            count = self.chance.choice((0, 1, 1, 1, 2, 3))
            if field.of:
                return [self._leaf(field.of) for _ in range(count)]
            return [self._struct(field.struct(), version) for _ in range(count)]
        return self._struct(field.struct(), version) if field.kind == "struct" else self._leaf(field.kind)

    def _leaf(self, kind: str) -> Any:
        chance = self.chance
        if kind in BITS:
            limit = 1 << BITS[kind] - 1
            odd = (limit - 1, -limit, chance.randrange(-limit, limit))
            number = chance.choice(NUMBERS if chance.random() < 0.9 else odd)
            return number if -limit <= number < limit else 1
        match kind:
            case "string":
                return chance.choice(TEXTS)
            case "uuid":
                return chance.choice(self.topic_ids)
            case "bool":
                return chance.random() < 0.5
            case "bytes":
                return chance.randbytes(chance.choice((0, 1, 10, 1000)))
            case "records":
                return self._records()
            case _:
                return chance.getrandbits(8) if kind in FIXED_FORMATS else None

    def _records(self) -> bytes:
        chance = self.chance
        producer = {"producer_id": chance.randrange(3), "producer_epoch": 0, "base_sequence": chance.randrange(3)}
        batch = bytearray(batch_of(b"x" * chance.choice((0, 1, 1000)), **(producer if chance.random() < 0.3 else {})))
        match chance.randrange(8):
            case 0:
                batch[chance.randrange(len(batch))] ^= 1 << chance.randrange(8)
            case 1:
                del batch[chance.randrange(len(batch)) :]
            case 2:
                batch *= 2
            case _:
                pass
        return bytes(batch)


def framed(data: bytes) -> bytes:
    """Return the request with its length in front."""
    return pack(">i", len(data)) + data
