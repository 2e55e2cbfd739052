"""A few seconds of chaos in a group of members of four clients; `make soak` has a hundred of five clients for
a minute, or for ODRADEK_SOAK_S seconds.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from odradek.tests.support.clients import chaos
from odradek.tests.support.clients.others import jars
from odradek.tests.support.seeds import IS_SOAK, seeds

FEW = chaos.Plan(
    crowds=(("confluent-kafka", 2), ("kafka-python", 1), ("aiokafka", 2), ("odradek", 3)),
    partitions=12,
    lasts_s=4.0,
    session_timeout_ms=2_000,
    pauses_s=(0.2, 3.0),
    between_s=(0.2, 0.8),
)
CROWDS = (
    *(("confluent-kafka", count) for count in (1, 1, 14, 14)),
    *(("kafka-python", count) for count in (1, 7)),
    *(("aiokafka", count) for count in (1, 15, 15)),
    *(("odradek", count) for count in (1, 15, 10)),
    ("java", 5),
)
HUNDRED = chaos.Plan(
    crowds=tuple(each for each in CROWDS if each[0] != "java" or (shutil.which("javac") and jars())),
    partitions=120,
    lasts_s=float(os.environ.get("ODRADEK_SOAK_S", "60")),
    session_timeout_ms=6_000,
    pauses_s=(0.2, 9.0),
    between_s=(0.5, 3.0),
)


# An even seed: the broker stays. A member that starts while it is away cannot start, with some clients.
@pytest.mark.parametrize("seed", seeds([2], [1]))
def test_members_in_chaos_lose_nothing_and_share_nothing(tmp_path: Path, seed: int) -> None:
    chaos.run(tmp_path, seed, HUNDRED if IS_SOAK else FEW)
