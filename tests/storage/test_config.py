"""What a log is told: when segments are closed."""

from __future__ import annotations

from pathlib import Path

from odradek.broker.configs.broker_config import BrokerConfig
from odradek.broker.configs.topic_config import TopicConfig
from odradek.storage.config import LogConfig

DIRECTORY = Path("data/t-0")


def test_without_jitter_every_segment_is_closed_at_its_time() -> None:
    assert LogConfig(segment_ms=1000).closing_age_ms(DIRECTORY, 5) == 1000


def test_jitter_spreads_the_ages_evenly_and_never_past_segment_ms() -> None:
    config = LogConfig(segment_ms=1000, segment_jitter_ms=400)
    ages = [config.closing_age_ms(DIRECTORY, base_offset) for base_offset in range(1000)]
    assert 600 < min(ages) < 620
    assert 980 < max(ages) <= 1000
    assert 780 < sum(ages) / len(ages) < 820
    others = [config.closing_age_ms(Path("data/t-1"), base_offset) for base_offset in range(1000)]
    assert others != ages


def test_a_segment_has_the_same_age_in_another_place_and_after_a_restart() -> None:
    config = LogConfig(segment_ms=1000, segment_jitter_ms=400)
    assert config.closing_age_ms(Path("other/t-0"), 7) == config.closing_age_ms(DIRECTORY, 7)


def test_more_jitter_than_segment_ms_is_as_much_as_segment_ms() -> None:
    config = LogConfig(segment_ms=10, segment_jitter_ms=1 << 40)
    assert {config.closing_age_ms(DIRECTORY, base_offset) for base_offset in range(500)} == set(range(1, 11))


def test_the_defaults_are_those_of_the_brokers_configs() -> None:
    broker = BrokerConfig()
    assert TopicConfig.resolve(broker).log_config(broker.producer_id_expiration_ms) == LogConfig()
