"""A work queue whose workers are killed at random: every job is done or dead, and none is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.tests.support.histories.work_queue import run
from odradek.tests.support.seeds import IS_SOAK, seeds

JOBS, KILLS, WITHIN_S = (100_000, 30, 900.0) if IS_SOAK else (300, 1, 60.0)


@pytest.mark.parametrize("seed", seeds([1], range(2, 5)))
def test_every_job_is_done_or_dead(tmp_path: Path, seed: int) -> None:
    ended = run(tmp_path, seed, JOBS, KILLS, workers=4 if IS_SOAK else 2, within_s=WITHIN_S)
    assert (ended.lost, ended.seconds < WITHIN_S, ended.kills) == (set(), True, KILLS), ended._replace(lost=set())
    # A rejection that a kill cut off, or a job that was held by too many who were killed, has the other cause.
    assert ended.dead.total() >= JOBS // 25
