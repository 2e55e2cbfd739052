"""From PLAINTEXT to SASL_SSL broker by broker under load."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.tests.support.clusters.rolling_change import rolling_change
from odradek.tests.support.clusters.zookeeper import why_missing
from odradek.tests.support.seeds import seeds


@pytest.mark.skipif(bool(why_missing()), reason=why_missing())
@pytest.mark.parametrize("seed", seeds([0], range(1, 21)))
def test_no_acknowledged_record_is_lost(tmp_path: Path, seed: int) -> None:
    with rolling_change(tmp_path, seed) as change:
        change.run()
