"""kill -9 of a broker under load, thirty rounds. A failure names its seed."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.tests.support.histories import killing


@pytest.mark.parametrize("seed", range(100, 130))
def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path: Path, seed: int) -> None:
    killing.run(tmp_path, seed)
