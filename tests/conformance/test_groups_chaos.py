"""A few seconds of chaos in a group of members of four clients; `make soak` has a hundred, and a minute."""

from __future__ import annotations

from pathlib import Path

from odradek.tests.support.clients import chaos

PLAN = chaos.Plan(
    crowds=(("confluent-kafka", 2), ("kafka-python", 1), ("aiokafka", 2), ("odradek", 3)),
    partitions=12,
    lasts_s=4.0,
    session_timeout_ms=2_000,
    pauses_s=(0.2, 3.0),
    between_s=(0.2, 0.8),
)


def test_members_in_chaos_lose_nothing_and_share_nothing(tmp_path: Path) -> None:
    # An even seed: the broker stays. A member that starts while it is away cannot start, with some clients.
    chaos.run(tmp_path, 2, PLAN)
