"""Units of config values: what goes in with one comes back as the number, and a number reads with one."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.broker.configs.broker_config import BROKER_CONFIGS
from odradek.cli.values import parse_value, readable, size_text, time_text


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retention.ms", "1h", "3600000"),
        ("retention.ms", "1.5 d", "129600000"),
        ("retention.ms", "-1", "-1"),
        ("retention.ms", "forever", "forever"),
        ("log.retention.minutes", "2h", "120"),
        ("log.roll.hours", "2d", "48"),
        ("segment.bytes", "1GiB", "1073741824"),
        ("log.segment.bytes", "1.5MB", "1500000"),
        ("log.cleaner.dedupe.buffer.size", "4KiB", "4096"),
        ("num.partitions", "1h", "1h"),
        ("cleanup.policy", "compact", "compact"),
    ],
)
def test_units_become_the_configs_own(name: str, text: str, value: str) -> None:
    assert parse_value(name, text) == value


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("retention.ms", "1GiB", "units are ms, s, min"),
        ("segment.bytes", "1G", "units are B, kB"),
        ("log.roll.hours", "30min", "that is 0.5 and no whole number"),
    ],
)
def test_other_units_are_wrong_usage(name: str, text: str, words: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        parse_value(name, text)
    assert words in caught.value.message


def test_numbers_read_with_a_unit() -> None:
    assert readable("retention.ms", "604800000") == "7 d"
    assert readable("log.roll.hours", "168") == "7 d"
    assert readable("max.message.bytes", "1048588") == "1.0 MiB"
    assert readable("segment.bytes", "1073741824") == "1 GiB"
    assert [readable("retention.ms", value) for value in ("-1", None, "9223372036854775807", "x")] == [None] * 4
    assert readable("num.partitions", "5") is None
    assert (size_text(0), size_text(17), time_text(0), time_text(1500)) == ("0 B", "17 B", "0 ms", "1.5 s")
    assert (size_text(2500 * 10**6), size_text(264_212_084 << 10)) == ("2500 MB", "252.0 GiB")


@given(st.integers(0, 2**62))
def test_any_number_reads(number: int) -> None:
    assert size_text(number)[0].isdigit() and time_text(number)[0].isdigit()


def test_every_broker_config_takes_its_default_back() -> None:
    for row in BROKER_CONFIGS.values():
        text = row.format(row.default)
        if text is not None:
            assert parse_value(row.name, text) == text
