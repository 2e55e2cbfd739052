"""The log on a faulty disk, thousands of times. A failure names its seed, which does it again."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.tests.support.disks import beside_cleanings, rewritten_log, torn_log

HUNDRED = 100


@pytest.mark.parametrize("first", range(1_000, 6_000, HUNDRED))
def test_a_log_is_what_a_list_says_whatever_the_disk_does(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + HUNDRED):
        stages, descriptors = seed % 3 == 0, seed % 5 == 0
        try:
            torn_log.run(tmp_path / str(seed), seed, stages, descriptors)
        except Exception as error:
            raise AssertionError(f"torn_log.run(directory, {seed}, {stages=}, {descriptors=})") from error


@pytest.mark.parametrize("first", range(1_000, 6_000, HUNDRED))
def test_gaps_between_segments_and_rewritten_segments_cost_nothing(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + HUNDRED):
        try:
            rewritten_log.run(tmp_path / str(seed), seed)
        except Exception as error:
            raise AssertionError(f"tests.support.rewritten_log.run(directory, {seed})") from error


@pytest.mark.parametrize("first", range(1_000, 2_000, HUNDRED))
def test_look_ups_beside_cleanings_find_what_the_log_held(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + HUNDRED):
        try:
            beside_cleanings.run(tmp_path / str(seed), seed)
        except Exception as error:
            raise AssertionError(f"beside_cleanings.run(directory, {seed})") from error
