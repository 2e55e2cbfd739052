"""`odradek conformance` against Kafka 4.3.1: a check that a real Kafka fails is itself wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from odradek.tests.support.clients import has_java
from odradek.tests.support.command import completed
from odradek.tests.support.process import KafkaProcess


@pytest.mark.skipif(not has_java() or shutil.which("java") is None, reason="java and KAFKA_LIB are not both there")
def test_kafka_passes_all_checks(tmp_path: Path) -> None:
    process = KafkaProcess(tmp_path, group_initial_rebalance_delay_ms=0)
    process.start()
    try:
        done = completed("conformance", "-b", process.address, "--json")
    finally:
        process.close()
    assert [each for each in json.loads(done.stdout) if each["outcome"] != "passed"] == []
    assert done.returncode == 0
