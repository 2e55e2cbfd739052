"""Random histories of a share partition, and planted bugs that they find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from odradek.broker.share_partitions.machine import Change, Limits, SharePartition
from odradek.broker.share_partitions.stretches import TERMINAL, RecordState, Stretch, Stretches
from odradek.tests.support.histories.share_history import Broken, History
from odradek.tests.support.seeds import seeds

SEEDS = seeds(range(30), range(3_000))
STEPS = 150


def play(seed: int) -> None:
    history = History(seed)
    for _ in range(STEPS):
        history.step()
    history.finish()


@pytest.mark.parametrize("seed", SEEDS)
def test_no_record_is_lost_and_none_is_held_by_two(seed: int) -> None:
    play(seed)


# Bugs are planted in what other modules need not know.
MACHINE: Any = SharePartition


def _start_moves_before_the_write(monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(stretch: Stretch) -> bool:
        return stretch.state in TERMINAL

    monkeypatch.setattr(Stretch, "is_done", property(planted))


def _changes_can_be_acquired(monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(stretch: Stretch) -> bool:
        return stretch.state is RecordState.AVAILABLE

    monkeypatch.setattr(Stretch, "is_available", property(planted))


def _owners_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MACHINE, "_check_held", lambda *_: None)


def _a_change_is_not_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MACHINE, "undo", MACHINE.keep)


def _the_search_does_not_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    keep = MACHINE.keep

    def planted(self: Any, change: Change) -> None:
        search_from = self._search_from
        keep(self, change)
        self._search_from = search_from

    monkeypatch.setattr(MACHINE, "keep", planted)


def _gaps_count_as_delivered(monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(self: Stretches, first: int, last: int) -> list[tuple[int, int]]:
        return []

    monkeypatch.setattr(Stretches, "gaps", planted)


def _deliveries_have_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = MACHINE._begin

    def planted(self: Any, change: Change, stretches: list[Stretch], state: RecordState, limits: Limits) -> None:
        begin(self, change, stretches, state, limits._replace(max_deliveries=10**9))

    monkeypatch.setattr(MACHINE, "_begin", planted)


PLANTED = (
    _start_moves_before_the_write,
    _changes_can_be_acquired,
    _owners_are_not_checked,
    _a_change_is_not_taken_back,
    _the_search_does_not_go_back,
    _gaps_count_as_delivered,
    _deliveries_have_no_limit,
)


@pytest.mark.parametrize("plant", PLANTED)
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((Broken, AssertionError)):
        for seed in range(60):
            play(seed)
