"""kill -9 of a broker under a share group, twenty rounds. A failure names its seed."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.tests.support import share_killing


@pytest.mark.parametrize("seed", range(200, 220))
def test_no_record_of_a_share_group_is_lost_by_kill_9(tmp_path: Path, seed: int) -> None:
    share_killing.run(tmp_path, seed)
