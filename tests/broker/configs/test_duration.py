"""Durations in the notation of ISO 8601, as Java reads them."""

from __future__ import annotations

import pytest
from odradek.broker.configs.group_config import duration_ms


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("PT0S", 0),
        ("PT1.5S", 1500),
        ("pt1,5s", 1500),
        ("P1DT2H3M4.0056S", 86_400_000 + 7_200_000 + 180_000 + 4005),
        ("PT1H-30M", 1_800_000),
        ("P2D", 172_800_000),
    ],
)
def test_a_duration_is_in_milliseconds(text: str, time_ms: int) -> None:
    assert duration_ms(text) == time_ms


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1DT", "PT1", "1H", "PT-1S", "P1Y", "PT1S1M", "PT99999999999999999999S", "PT\u0661S"]
)
def test_anything_else_is_none(text: str) -> None:
    assert duration_ms(text) is None


def test_more_than_64_bits_of_milliseconds_is_none() -> None:
    assert duration_ms("P" + "9" * 18 + "D") is None
