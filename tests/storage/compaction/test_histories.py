"""Compacted logs against a list, forty times. A failure names its seed, which does it again. tests/soak has more."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.tests.support.histories import compaction_history

HISTORIES = 10


@pytest.mark.parametrize("first", range(0, 40, HISTORIES))
def test_a_cleaned_log_tells_what_the_whole_one_did(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + HISTORIES):
        try:
            compaction_history.run(tmp_path / f"t-{seed}", seed)
        except Exception as error:
            raise AssertionError(f"tests.support.compaction_history.run(directory, seed={seed})") from error
