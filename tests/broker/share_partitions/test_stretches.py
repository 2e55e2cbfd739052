"""Stretches against a dict of offsets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from odradek.broker.share_partitions.stretches import InFlightBatch, RecordState, Stretch, Stretches

STATES = (RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)
RANGES = st.tuples(st.integers(0, 40), st.integers(0, 8))
ORDERS = st.lists(st.tuples(st.sampled_from(["fill", "cut", "drop", "join"]), RANGES, st.sampled_from(STATES)))


def covered(stretches: Stretches) -> dict[int, RecordState]:
    return {offset: stretch.state for stretch in stretches for offset in range(stretch.first, stretch.last + 1)}


@given(ORDERS)
def test_runs_hold_what_a_dict_holds(orders: list[tuple[str, tuple[int, int], RecordState]]) -> None:
    stretches, model = Stretches(), dict[int, RecordState]()
    for order, (first, length), state in orders:
        last = first + length
        if order == "fill":
            for low, high in stretches.gaps(first, last):
                stretches.add(Stretch(low, high, state, 1, InFlightBatch(low, high)))
            model |= {offset: state for offset in range(first, last + 1) if offset not in model}
        elif order == "cut":
            for stretch in stretches.cut(first, last):
                stretch.state = state
            model |= {offset: state for offset in range(first, last + 1) if offset in model}
        elif order == "drop":
            stretches.drop_below(first)
            model = {offset: kept for offset, kept in model.items() if offset >= first}
        else:
            stretches.join_done(first, last)
        check(stretches, model)


def check(stretches: Stretches, model: dict[int, RecordState]) -> None:
    assert covered(stretches) == model
    bounds = [offset for stretch in stretches for offset in (stretch.first, stretch.last)]
    assert bounds == sorted(bounds)
    assert stretches.end == max(model, default=None)
    for offset in range(50):
        stretch = stretches.reaching(offset)
        following = min((each for each in model if each >= offset), default=None)
        assert following is None if stretch is None else max(stretch.first, offset) == following


def test_neighbours_that_are_done_with_become_one_run() -> None:
    stretches = Stretches()
    for offset in range(6):
        state = RecordState.ARCHIVED if offset == 3 else RecordState.ACKNOWLEDGED
        stretches.add(Stretch(offset, offset, state, 1, InFlightBatch(offset, offset)))
    stretches.join_done(0, 5)
    assert [(stretch.first, stretch.last) for stretch in stretches] == [(0, 2), (3, 3), (4, 5)]
