"""Runs against a dict of offsets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from odradek.broker.share.runs import Batch, RecordState, Run, Runs

STATES = (RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)
RANGES = st.tuples(st.integers(0, 40), st.integers(0, 8))
ORDERS = st.lists(st.tuples(st.sampled_from(["fill", "cut", "drop", "join"]), RANGES, st.sampled_from(STATES)))


def covered(runs: Runs) -> dict[int, RecordState]:
    return {offset: run.state for run in runs for offset in range(run.first, run.last + 1)}


@given(ORDERS)
def test_runs_hold_what_a_dict_holds(orders: list[tuple[str, tuple[int, int], RecordState]]) -> None:
    runs, model = Runs(), dict[int, RecordState]()
    for order, (first, length), state in orders:
        last = first + length
        if order == "fill":
            for low, high in runs.gaps(first, last):
                runs.add(Run(low, high, state, 1, Batch(low, high)))
            model |= {offset: state for offset in range(first, last + 1) if offset not in model}
        elif order == "cut":
            for run in runs.cut(first, last):
                run.state = state
            model |= {offset: state for offset in range(first, last + 1) if offset in model}
        elif order == "drop":
            runs.drop_below(first)
            model = {offset: kept for offset, kept in model.items() if offset >= first}
        else:
            runs.join_done(first, last)
        check(runs, model)


def check(runs: Runs, model: dict[int, RecordState]) -> None:
    assert covered(runs) == model
    bounds = [offset for run in runs for offset in (run.first, run.last)]
    assert bounds == sorted(bounds)
    assert runs.end == max(model, default=None)
    for offset in range(50):
        run = runs.reaching(offset)
        following = min((each for each in model if each >= offset), default=None)
        assert following is None if run is None else max(run.first, offset) == following


def test_neighbours_that_are_done_with_become_one_run() -> None:
    runs = Runs()
    for offset in range(6):
        state = RecordState.ARCHIVED if offset == 3 else RecordState.ACKNOWLEDGED
        runs.add(Run(offset, offset, state, 1, Batch(offset, offset)))
    runs.join_done(0, 5)
    assert [(run.first, run.last) for run in runs] == [(0, 2), (3, 3), (4, 5)]
