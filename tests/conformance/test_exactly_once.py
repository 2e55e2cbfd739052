"""Consume-transform-produce by real clients, with kills on both sides: exactly once."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.tests.support.clients import exactly_once
from odradek.tests.support.seeds import seeds


@pytest.mark.parametrize("seed", seeds([1], range(100, 120)))
def test_each_record_is_copied_exactly_once_however_often_clients_and_broker_are_killed(
    tmp_path: Path, seed: int
) -> None:
    started = exactly_once.run(tmp_path, seed)
    assert sum(started.values()) > len(started), "no worker was ever started again"
