"""Requests that went wrong on their way: valid ones out of `tests/golden/wire`, changed as a seed decides."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from struct import pack

GOLDEN = Path(__file__).parents[1] / "golden" / "wire"
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
    """Every request that was captured and that Kafka answered, without its length."""
    rows = [
        line.split("\t") for path in sorted(GOLDEN.glob("[A-Z]*.tsv")) for line in path.read_text().splitlines()[1:]
    ]
    return [bytes.fromhex(row[3]) for row in rows if row[2] == "answered"]


def mutated(chance: random.Random) -> bytes:
    """A request that is almost valid, without its length."""
    data = bytearray(chance.choice(requests()))
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
                other = chance.choice(requests())
                data[at:] = other[chance.randrange(len(other)) :]
    return bytes(data)


def framed(data: bytes) -> bytes:
    """With the length in front."""
    return pack(">i", len(data)) + data
