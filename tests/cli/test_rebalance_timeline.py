"""The timeline of a group's rebalances, as a terminal shows it."""

from __future__ import annotations

import re
import sys

import pytest
from odradek.cli.rebalance_timeline import WIDTH, show
from odradek.client.core.descriptions import GroupRebalance, RebalanceCause, RebalanceWait

LONG = "flights-dashboard-consumer-8f7c2d4e-1111-2222-3333-444455556666"


def rebalance() -> GroupRebalance:
    causes = (RebalanceCause("joined", f"{LONG} joined"), RebalanceCause("left", f"{LONG} left ({'so ' * 60})"))
    waited = (RebalanceWait(LONG, 123456, "came"),)
    return GroupRebalance(
        began_ms=1_700_000_000_123,
        ended_ms=1_700_000_100_123,
        joins_ms=99_999,
        assignment_ms=1,
        ending="overtaken",
        first_round=False,
        old_generation=12345,
        generation=12346,
        members=1000,
        protocol="cooperative-sticky",
        leader=LONG,
        waited=waited,
        causes=causes,
        more_causes=3,
    )


def test_the_timeline_fits_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show([rebalance(), rebalance()])
    lines = capsys.readouterr().out.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()
    assert max(map(len, lines)) <= WIDTH
    titles = ["BEGAN", "TOOK MS", "JOINS MS", "ASSIGNMENT MS", "ENDING", "GENERATION", "MEMBERS"]
    assert re.split(r"  +", lines[0]) == titles
    assert lines[1].split()[1:] == ["100000", "99999", "1", "overtaken", "12346", "1000"]
    assert lines[2] == f"    waited for: {LONG} 123456 ms came"
    assert lines[3].startswith(f"    why: {LONG} joined;")


def test_a_pipe_gets_one_line_a_rebalance(capsys: pytest.CaptureFixture[str]) -> None:
    show([rebalance()])
    (line,) = capsys.readouterr().out.splitlines()
    assert len(line.split("\t")) == 9
