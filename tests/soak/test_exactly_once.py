"""Consume-transform-produce by real clients, with kills on both sides, 20 seeds."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.tests.support.clients import exactly_once


@pytest.mark.parametrize("seed", range(100, 120))
def test_each_record_is_copied_exactly_once(tmp_path: Path, seed: int) -> None:
    exactly_once.run(tmp_path, seed)
