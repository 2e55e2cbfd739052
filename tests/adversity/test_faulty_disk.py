"""The log on a disk that tears, forgets, fills up and fails: a hundred seeds here, thousands in tests/soak."""

from pathlib import Path

import pytest

from tests.support import torn_log


@pytest.mark.parametrize("seed", range(120))
def test_a_log_is_what_a_list_says_whatever_the_disk_does(tmp_path: Path, seed: int) -> None:
    torn_log.run(tmp_path, seed)
