"""The checker of histories itself: each fault, planted in a small history, is found, and nothing else is."""

from __future__ import annotations

import pytest
from odradek.tests.support.histories.history import Committing, Ended, Event, Outcome, Read, Stored, Wrote, check

FIRST, SECOND, THIRD = ("p", 1), ("p", 2), ("q", 1)


def sound() -> list[Event]:
    """Two transactions of p, committed and aborted, one of q whose end nobody was told, and a reader."""
    return [
        Wrote(FIRST, 0, "a"),
        Wrote(FIRST, 1, "b"),
        Wrote(FIRST, 0, "c"),
        Committing(FIRST, 10),
        Ended(FIRST, Outcome.COMMITTED),
        Wrote(SECOND, 0, "d"),
        Ended(SECOND, Outcome.ABORTED),
        Wrote(THIRD, 0, "e"),
        Wrote(THIRD, 1, "f"),
        Committing(THIRD, 30),
        Read("r", 0, 0, "a", 20),
        Read("r", 0, 1, "c", 21),
        Read("r", 0, 6, "e", 40),
        Stored(0, 0, "a"),
        Stored(0, 1, "c"),
        Stored(0, 6, "e"),
        Stored(1, 0, "b"),
        Stored(1, 3, "f"),
    ]


def kinds(history: list[Event]) -> set[str]:
    return {fault.kind for fault in check(history)}


def test_a_sound_history_has_no_fault() -> None:
    assert check(sound()) == []


def test_a_transaction_of_unknown_end_may_be_missing_as_a_whole() -> None:
    history = [each for each in sound() if not (isinstance(each, Stored | Read) and each.value in "ef")]
    assert check(history) == []


@pytest.mark.parametrize(
    ("taken", "added", "kind"),
    [
        pytest.param([Stored(1, 0, "b")], [], "lost", id="a committed record is not there"),
        pytest.param([Read("r", 0, 1, "c", 21)], [], "lost", id="a reader passes over a record"),
        pytest.param([], [Stored(1, 9, "b")], "duplicated", id="a record is stored twice"),
        pytest.param([], [Read("r", 0, 6, "e", 41)], "duplicated", id="a record is handed out twice"),
        pytest.param(
            [Stored(0, 0, "a"), Stored(0, 1, "c"), Read("r", 0, 0, "a", 20), Read("r", 0, 1, "c", 21)],
            [Stored(0, 0, "c"), Stored(0, 1, "a"), Read("s", 0, 0, "c", 20), Read("s", 0, 1, "a", 21)],
            "reordered",
            id="two records change places",
        ),
        pytest.param([], [Stored(0, 7, "d")], "dirty", id="an aborted record is stored as committed"),
        pytest.param([], [Read("s", 0, 3, "d", 50)], "dirty", id="an aborted record is read"),
        pytest.param([], [Read("s", 1, 0, "b", 9)], "dirty", id="a record is read before its commit"),
        pytest.param([Stored(1, 3, "f")], [], "half-visible", id="half of a transaction is there"),
    ],
)
def test_each_fault_is_found(taken: list[Event], added: list[Event], kind: str) -> None:
    history = [each for each in sound() if each not in taken] + added
    assert kind in kinds(history)
