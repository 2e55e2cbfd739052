"""A minute of chaos in a group of a hundred members of five clients (tests/support/clients/chaos.py).

ODRADEK_SOAK_SEEDS="1 2 3" chooses the seeds, ODRADEK_SOAK_S how long.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from odradek.tests.support.clients import chaos
from odradek.tests.support.clients.others import jars

SEEDS = [int(seed) for seed in os.environ.get("ODRADEK_SOAK_SEEDS", "1 2").split()]
CROWDS = (
    *(("confluent-kafka", count) for count in (1, 1, 14, 14)),
    *(("kafka-python", count) for count in (1, 7)),
    *(("aiokafka", count) for count in (1, 15, 15)),
    *(("odradek", count) for count in (1, 15, 10)),
    *(("java", count) for count in (5,)),
)
PLAN = chaos.Plan(
    crowds=tuple(each for each in CROWDS if each[0] != "java" or (shutil.which("javac") and jars())),
    partitions=120,
    lasts_s=float(os.environ.get("ODRADEK_SOAK_S", "60")),
    session_timeout_ms=6_000,
    pauses_s=(0.2, 9.0),
    between_s=(0.5, 3.0),
)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_hundred_members_in_chaos_lose_nothing_and_share_nothing(tmp_path: Path, seed: int) -> None:
    chaos.run(tmp_path, seed, PLAN)
