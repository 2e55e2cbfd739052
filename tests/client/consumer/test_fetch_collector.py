"""Whose turn it is: every partition has its turn, and those that have nothing cost each poll little."""

from __future__ import annotations

from collections import Counter

import pytest
from odradek.client import TopicPartition
from odradek.client.consumer.fetched_batch import CompletedFetch
from odradek.client.consumer.poller import FetchCollector
from odradek.client.consumer.positions import PartitionState, Positions, Signals
from odradek.client.errors import CorruptRecords
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.record import Record


class Looked:
    """A collector over partitions of one topic, which counts how often it looks at one."""

    def __init__(self, partitions: int) -> None:
        self.positions = Positions()
        self.states = self.positions.replace(TopicPartition("t", number) for number in range(partitions))
        self.collector = FetchCollector(self.positions, Signals())
        self.collector.waits = self.look
        self.times: Counter[TopicPartition] = Counter()

    def look(self, partition: TopicPartition) -> bool:
        self.times[partition] += 1
        return False

    def fetched(self, state: PartitionState, count: int) -> None:
        data = encode_batch([Record(-1, 7, None, b"x")] * count)
        state.position = state.fetch_offset = 0
        state.fetched.append(CompletedFetch(state.partition, memoryview(data), 0))

    def next(self) -> int | None:
        """Take one record. Return the number of its partition."""
        found = self.collector.next(lambda fetch: fetch.take(1))
        return None if found is None else found[0].partition.partition


def test_partitions_without_records_are_looked_at_once_a_round_and_not_for_each_record() -> None:
    looked = Looked(1_000)
    for state in looked.states[::20]:
        looked.fetched(state, 3)
    taken = Counter(iter(looked.next, None))
    assert taken == dict.fromkeys(range(0, 1_000, 20), 3)
    assert looked.times.total() < 4 * 1_000, "50 partitions with 3 records in one round, and one round that finds none"


def test_a_partition_that_gets_records_all_the_time_holds_up_nobody() -> None:
    looked = Looked(30)
    for state in looked.states[::3]:
        looked.fetched(state, 1)
    taken: Counter[int | None] = Counter()
    for _ in range(11):
        taken[looked.next()] += 1
        looked.fetched(looked.states[0], 1)
    assert taken == {number: 1 if number else 2 for number in range(0, 30, 3)}


def test_an_error_waits_for_its_turn_and_holds_up_nobody() -> None:
    looked = Looked(100)
    looked.states[50].error = CorruptRecords("broken")
    looked.fetched(looked.states[99], 1)
    with pytest.raises(CorruptRecords):
        looked.next()
    assert looked.next() == 99
    assert looked.next() is None
