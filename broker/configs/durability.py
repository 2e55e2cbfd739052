"""The durability of acknowledged records under the present configs, in one line that the broker logs at every start.

An acknowledged record (acks=1 or all) is in the page cache, so it survives the end of the process. A power cut
loses what was not forced to disk yet; flush.messages and flush.ms bound that, for the broker or for a topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .broker_config import BrokerConfig
from .definition import LONG_MAX

_FLUSH_CONFIGS = ("flush.messages", "flush.ms")


def describe_durability(config: BrokerConfig, topic_configs: Iterable[Mapping[str, str]]) -> str:
    """Return the line. `topic_configs` are the overrides of each topic."""
    own = sum(1 for each in topic_configs if any(name in each for name in _FLUSH_CONFIGS))
    line = f"durability: acknowledged records survive a crash{_power_cut(config)}"
    if own:
        line += f"; {own} topic{'s have' if own > 1 else ' has'} flush settings of {'their' if own > 1 else 'its'} own"
    return line


def _power_cut(config: BrokerConfig) -> str:
    """Return how the sentence on a crash goes on."""
    messages, interval_ms = config.log_flush_interval_messages, config.log_flush_interval_ms
    if messages == 1:
        return " and a power cut (flush.messages=1)"
    bounds: list[str] = []
    if messages < LONG_MAX:
        bounds.append(f"the last {messages} records (flush.messages)")
    if interval_ms is not None and interval_ms < LONG_MAX:
        bounds.append(f"those of the last {interval_ms} ms (flush.ms)")
    if bounds:
        return f"; a power cut may lose of each partition at most {' and at most '.join(bounds)}"
    return "; a power cut may lose what the system has not flushed"
