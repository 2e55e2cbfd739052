"""A second driver takes the checkpoint of a copy that is written exactly once, after kills of the broker.

It has a file of its own, so that another worker may run it beside test_sink_chaos.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the sink needs pyspark (extra `spark`)")

from odradek.tests.support.java import require_spark_java
from odradek.tests.support.sink_chaos import Chaos, Fault

FAULTS = [Fault(0, "decided", "broker"), Fault(1, "rows", "broker"), Fault(2, "written", "rival")]


def test_a_rival_takes_the_copy_over_and_the_first_driver_fails(tmp_path: Path) -> None:
    require_spark_java()
    Chaos(tmp_path, FAULTS).run()
