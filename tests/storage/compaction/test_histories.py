"""Compacted logs against a list, by seed."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.tests.support.histories import compaction_history
from odradek.tests.support.seeds import seeds


@pytest.mark.parametrize("seed", seeds(range(16), range(1_000, 6_000)))
def test_a_cleaned_log_tells_what_the_whole_one_did(tmp_path: Path, seed: int) -> None:
    compaction_history.run(tmp_path / "t", seed)
