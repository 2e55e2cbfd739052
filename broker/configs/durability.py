"""What could be lost under the present settings, in one line, said at every start.

An acknowledged record (acks=1 or all) is in the page cache: the end of the process takes nothing. A power cut takes
what was not forced to disk yet, and that is for flush.messages and flush.ms to bound, for the broker or for a topic.
"""

from collections.abc import Iterable, Mapping

from .broker_config import BrokerConfig
from .definition import LONG_MAX

_OWN = ("flush.messages", "flush.ms")


def at_risk(config: BrokerConfig, topic_configs: Iterable[Mapping[str, str]]) -> str:
    """The line. `topic_configs`: what was set for each topic."""
    own = sum(1 for each in topic_configs if any(name in each for name in _OWN))
    kill = "what could be lost: if this process dies, no acknowledged record (acks=0 is never acknowledged)"
    line = f"{kill}; if the power fails, {_power_cut(config)}"
    if own:
        line += f"; {own} topic{'s have' if own > 1 else ' has'} flush settings of {'their' if own > 1 else 'its'} own"
    return line


def _power_cut(config: BrokerConfig) -> str:
    messages, interval_ms = config.log_flush_interval_messages, config.log_flush_interval_ms
    if messages == 1:
        return "none either (flush.messages=1: each is forced to disk before it is acknowledged)"
    bounds: list[str] = []
    if messages < LONG_MAX:
        bounds.append(f"the last {messages} records (flush.messages)")
    if interval_ms is not None and interval_ms < LONG_MAX:
        bounds.append(f"those of the last {interval_ms} ms (flush.ms)")
    if bounds:
        return f"of each partition at most {' and at most '.join(bounds)}"
    return "those that the system has not written to disk by itself (flush.messages and flush.ms are not set)"
