"""The default partitioner against vectors that Java's own `Utils.murmur2` computed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.client.core.metadata import NO_LEADER, PartitionInfo, TopicInfo
from odradek.client.producer.partitioner import Partitioner, murmur2
from odradek.tests.support.clients.others import aiokafka, kafka

VECTORS = [
    (bytes.fromhex(key), signed & 0xFFFFFFFF, partition_of_six)
    for key, signed, partition_of_six in json.loads((Path(__file__).parent / "golden" / "murmur2.json").read_text())
]


def test_murmur2_and_the_partition_are_javas() -> None:
    for key, expected, partition_of_six in VECTORS:
        assert (murmur2(key), Partitioner(1).by_key(key, 6)) == (expected, partition_of_six), key


def test_remembered_hashes_stay_right_after_the_memory_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.client.producer.partitioner._CACHED_KEYS", 3)
    partitioner = Partitioner(1)
    for _ in range(3):
        for key, _expected, partition_of_six in VECTORS:
            assert partitioner.by_key(key, 6) == partition_of_six


def topic(*leaders: int) -> TopicInfo:
    return TopicInfo("t", bytes(16), tuple(PartitionInfo(number, leader) for number, leader in enumerate(leaders)))


def first(choices: Sequence[int]) -> int:
    return choices[0]


def test_records_without_a_key_stay_for_a_stride_and_then_go_elsewhere() -> None:
    partitioner = Partitioner(100, first)
    assert [partitioner.keyless(topic(1, 1, 1), 40) for _ in range(7)] == [0, 0, 0, 1, 1, 1, 0]


def test_records_without_a_key_avoid_partitions_without_a_leader() -> None:
    partitioner = Partitioner(100, first)
    assert partitioner.keyless(topic(NO_LEADER, 1), 10) == 1
    assert partitioner.keyless(topic(1, NO_LEADER), 10) == 0
    assert partitioner.keyless(topic(NO_LEADER, NO_LEADER), 10) == 1


def test_one_partition_takes_all() -> None:
    partitioner = Partitioner(10, first)
    assert {partitioner.keyless(topic(1), 10) for _ in range(5)} == {0}


def test_topics_have_their_own_strides() -> None:
    partitioner = Partitioner(10, first)
    other = TopicInfo("other", bytes(16), topic(1, 1).partitions)
    assert [partitioner.keyless(topic(1, 1), 10), partitioner.keyless(other, 10)] == [0, 0]
    assert [partitioner.keyless(topic(1, 1), 10), partitioner.keyless(other, 10)] == [1, 1]


# Importing tests.support.clients has imported these packages without their warnings.
AIOKAFKAS = import_module(f"{aiokafka.__name__}.partitioner").murmur2
KAFKA_PYTHONS = import_module(f"{kafka.__name__}.partitioner.default").murmur2


@given(st.binary(max_size=70), st.integers(1, 50))
def test_every_key_goes_where_other_peoples_clients_send_it(key: bytes, partitions: int) -> None:
    chosen = Partitioner(1).by_key(key, partitions)
    assert chosen == (AIOKAFKAS(key) & 0x7FFFFFFF) % partitions == (KAFKA_PYTHONS(key) & 0x7FFFFFFF) % partitions
    assert chosen == Partitioner(1).by_key(bytes(bytearray(key)), partitions)
