"""The log on a faulty disk (torn and lost writes, no space, errors): a hundred seeds here, thousands in tests/soak."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.tests.support import torn_log

# Each found a flipped bit in a batch's length or last offset that was blamed on the batch behind it, or cut off.
ONCE_FAILED = (1277, 2264, 2298, 2400, 3522)


@pytest.mark.parametrize("seed", [*range(120), *ONCE_FAILED])
def test_a_log_is_what_a_list_says_whatever_the_disk_does(tmp_path: Path, seed: int) -> None:
    torn_log.run(tmp_path, seed)
