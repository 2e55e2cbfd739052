"""Compacted logs against a list, thousands of times. A failure names its seed, which does it again."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.tests.support.histories import compaction_history

HUNDRED = 100


@pytest.mark.parametrize("first", range(1_000, 6_000, HUNDRED))
def test_a_cleaned_log_tells_what_the_whole_one_did(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + HUNDRED):
        try:
            compaction_history.run(tmp_path / f"t-{seed}", seed)
        except Exception as error:
            raise AssertionError(f"tests.support.compaction_history.run(directory, seed={seed})") from error
