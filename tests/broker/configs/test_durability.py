from __future__ import annotations

import logging
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.configs.durability import describe_durability


@pytest.mark.parametrize(
    ("texts", "promise"),
    [
        ({}, "a power cut may lose what the system has not flushed"),
        ({"log.flush.interval.messages": "1"}, "records survive a crash and a power cut (flush.messages=1)"),
        ({"log.flush.interval.messages": "50"}, "at most the last 50 records (flush.messages)"),
        ({"log.flush.interval.ms": "200"}, "at most those of the last 200 ms (flush.ms)"),
        (
            {"log.flush.interval.ms": "200", "log.flush.interval.messages": "50"},
            "at most the last 50 records (flush.messages) and at most those of the last 200 ms (flush.ms)",
        ),
    ],
)
def test_the_line_follows_from_the_configs(texts: dict[str, str], promise: str) -> None:
    line = describe_durability(BrokerConfig.parse(texts)[0], [{}])
    assert line.startswith("durability: acknowledged records survive a crash")
    assert promise in line
    assert "\n" not in line and "of its own" not in line


def test_topics_with_settings_of_their_own_are_counted() -> None:
    assert describe_durability(BrokerConfig(), [{"flush.ms": "1"}, {}]).endswith(
        "; 1 topic has flush settings of its own"
    )
    both = [{"flush.ms": "1"}, {"flush.messages": "1", "flush.ms": "2"}]
    assert describe_durability(BrokerConfig(), both).endswith("; 2 topics have flush settings of their own")


async def test_a_start_says_it_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "odradek")
    async with Broker(BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:0",), log_dirs=(str(tmp_path / "data"),))):
        pass
    assert len([each for each in caplog.messages if each.startswith("durability:")]) == 1
