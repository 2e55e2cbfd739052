"""Consume-transform-produce by real clients, with kills on both sides: exactly once. `make soak` has more seeds."""

from __future__ import annotations

from pathlib import Path

from odradek.tests.support.clients import exactly_once


def test_each_record_is_copied_exactly_once_however_often_clients_and_broker_are_killed(
    tmp_path: Path,
) -> None:
    started = exactly_once.run(tmp_path, seed=1)
    assert sum(started.values()) > len(started), "no worker was ever started again"
