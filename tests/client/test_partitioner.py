"""The default partitioner against vectors that Java's own `Utils.murmur2` computed."""

import json
from pathlib import Path

import pytest

from odradek.client.partitioner import KeyHashes, Sticky, murmur2

VECTORS = [
    (bytes.fromhex(key), signed & 0xFFFFFFFF, partition_of_six)
    for key, signed, partition_of_six in json.loads((Path(__file__).parent / "golden" / "murmur2.json").read_text())
]


@pytest.mark.parametrize(("key", "expected", "partition_of_six"), VECTORS)
def test_murmur2_is_javas(key: bytes, expected: int, partition_of_six: int) -> None:
    assert murmur2(key) == expected
    assert KeyHashes()[key] % 6 == partition_of_six


def test_remembered_hashes_stay_right_after_the_memory_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.client.partitioner._REMEMBERED_KEYS", 3)
    hashes = KeyHashes()
    for _ in range(3):
        for key, expected, _partition in VECTORS:
            assert hashes[key] == expected & 0x7FFFFFFF


def test_sticky_stays_until_it_is_told_to_move_and_then_moves_elsewhere() -> None:
    sticky = Sticky(lambda choices: choices[0])
    assert [sticky.partition("t", [0, 1, 2]) for _ in range(3)] == [0, 0, 0]
    assert sticky.move_on("t", [0, 1, 2]) == 1
    assert sticky.partition("t", [0, 1, 2]) == 1


def test_sticky_leaves_a_partition_that_is_not_available_any_more() -> None:
    sticky = Sticky(lambda choices: choices[-1])
    assert sticky.partition("t", [0, 1, 2]) == 2
    assert sticky.partition("t", [0, 1]) == 1


def test_sticky_has_nowhere_else_to_go_with_one_partition() -> None:
    sticky = Sticky(lambda choices: choices[0])
    assert sticky.partition("t", [4]) == 4
    assert sticky.move_on("t", [4]) == 4
