"""kill -9 of a broker at each step of a dead letter, by seed."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.tests.support.histories import burial_killing
from odradek.tests.support.seeds import seeds


@pytest.mark.parametrize("seed", seeds(range(20)))
def test_each_step_of_a_dead_letter_may_be_the_last_one(tmp_path: Path, seed: int) -> None:
    burial_killing.run(tmp_path, seed)
