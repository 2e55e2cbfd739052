"""State batches against a model: a state for each offset."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.broker.coordination.share_states.kept_state import combine
from odradek.broker.coordination.share_states.share_state import Progress, ShareKey, StateBatch
from odradek.broker.share_partitions.stretches import RecordState
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.tests.support.fakes.memory_persister import MemoryPersister

# Acquired records are never written.
WRITTEN = [each for each in RecordState if each is not RecordState.ACQUIRED]


@st.composite
def batches(draw: st.DrawFn) -> StateBatch:
    first = draw(st.integers(0, 30))
    length = draw(st.integers(1, 12))
    return StateBatch(first, first + length - 1, draw(st.sampled_from(WRITTEN)), draw(st.integers(1, 3)))


@given(st.lists(st.tuples(st.lists(batches(), max_size=5), st.integers(0, 20)), max_size=6))
def test_the_batches_are_what_each_offset_has(writes: list[tuple[list[StateBatch], int]]) -> None:
    combined: list[StateBatch] = []
    offsets: dict[int, tuple[int, int]] = {}
    start = 0
    for written, advance in writes:
        start = max(start, advance)
        for batch in written:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                offsets[offset] = max(offsets.get(offset, (-1, -1)), (batch.delivery_count, batch.delivery_state))
        offsets = {offset: state for offset, state in offsets.items() if offset >= start}
        combined = combine(combined, written, start)
        spread = {
            offset: (each.delivery_count, each.delivery_state)
            for each in combined
            for offset in range(each.first_offset, each.last_offset + 1)
        }
        assert spread == offsets
        assert sum(each.last_offset - each.first_offset + 1 for each in combined) == len(offsets)
        assert combined == sorted(combined)


def test_neighbours_alike_become_one() -> None:
    first, second = StateBatch(0, 4, RecordState.ACKNOWLEDGED, 1), StateBatch(5, 9, RecordState.ACKNOWLEDGED, 1)
    assert combine([first], [second], 0) == [StateBatch(0, 9, RecordState.ACKNOWLEDGED, 1)]


KEY = ShareKey("shoppers", bytes(16), 0)


async def test_the_persister_in_memory_fences_as_the_coordinator_does() -> None:
    persister = MemoryPersister()
    assert (await persister.read_summary(KEY)).start_offset == -1
    with pytest.raises(KafkaError) as uninitialized:
        await persister.read(KEY, 0)
    assert uninitialized.value.code is ErrorCode.INVALID_REQUEST
    await persister.initialize(KEY, 2, -1)
    assert (await persister.read(KEY, 7)).leader_epoch == 7
    for state_epoch, leader_epoch, code in (
        (1, 7, ErrorCode.FENCED_STATE_EPOCH),
        (2, 6, ErrorCode.FENCED_LEADER_EPOCH),
    ):
        with pytest.raises(KafkaError) as fenced:
            await persister.write(KEY, state_epoch, leader_epoch, lambda: Progress(5, 0), ())
        assert fenced.value.code is code
    await persister.write(KEY, 2, 7, lambda: Progress(5, 1), [StateBatch(3, 6, RecordState.ACKNOWLEDGED, 1)])
    assert (await persister.read(KEY, 7)).batches == (StateBatch(5, 6, RecordState.ACKNOWLEDGED, 1),)
    await persister.delete(KEY)
    assert (await persister.read_summary(KEY)).start_offset == -1
