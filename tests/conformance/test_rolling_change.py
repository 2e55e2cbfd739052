"""From PLAINTEXT to SASL_SSL broker by broker under load: one seed of those in tests/soak."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.tests.support.clusters.rolling_change import rolling_change
from odradek.tests.support.clusters.zookeeper import why_missing


@pytest.mark.skipif(bool(why_missing()), reason=why_missing())
def test_no_acknowledged_record_is_lost(tmp_path: Path) -> None:
    with rolling_change(tmp_path, 0) as change:
        change.run()
