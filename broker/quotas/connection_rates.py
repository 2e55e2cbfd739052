"""Connection rates: how many connections a second the broker, a listener and an address may bring.

Over the rate of the broker or of a listener a new connection waits, as if it were accepted later; the broker's does not
concern the listener at which brokers reach each other. Over the quota of its address it is held for a moment and
closed, while others are served. In Kafka the accepting thread waits in place of the connection. Clients cannot tell.
"""

from __future__ import annotations

from typing import Final, NamedTuple, cast

from ..clock import Clock
from ..configs.broker_config import BrokerConfig
from ..configs.definition import INT_MAX
from ..configs.listener_config import PREFIX
from .client_quotas import ClientQuotas
from .rates import Rate

# One that would wait for longer is closed: few clients have the patience, and each wait holds a descriptor.
MAX_MS: Final = 10_000
# The whole broker, among the names of listeners.
_BROKER: Final = ""


class Entry(NamedTuple):
    """How a new connection comes in: after a delay, or not at all, which it learns after the delay."""

    delay_ms: int
    # Why it is closed; empty: it is not.
    rejection: str


AT_ONCE: Final = Entry(0, "")


class ConnectionRates:
    """The rates of new connections at one broker."""

    def __init__(self, config: BrokerConfig, quotas: ClientQuotas, clock: Clock) -> None:
        self._config = config
        self._quotas = quotas
        self._clock = clock
        # Of the broker and of each listener that has a limit: its rate, and when the last connection came in.
        self._rates: dict[str, Rate] = {}
        self._last_ms: dict[str, int] = {}

    def enter(self, listener: str, host: str) -> Entry:
        """Count a connection from an address, and say when it comes in."""
        held_ms = self._quotas.connected(host)
        if held_ms:
            return Entry(held_ms, f"the quota connection_creation_rate of {host} is used up")
        now_ms = self._clock.monotonic_ms()
        delay_ms = max((self._next_ms(*each, now_ms) for each in self._limits(listener)), default=now_ms) - now_ms
        if delay_ms > MAX_MS:
            return Entry(0, "more connections than max.connection.creation.rate allows are waiting")
        return Entry(delay_ms, "") if delay_ms else AT_ONCE

    def _limits(self, listener: str) -> list[tuple[str, int]]:
        """Return the limits on a connection of a listener that are set, by name."""
        config = self._config
        own = config.listener_configs.get(f"{PREFIX}{listener.lower()}.max.connection.creation.rate", INT_MAX)
        found = [(listener, cast(int, own))]
        if len(config.endpoints) == 1 or listener != config.inter_broker_listener:
            found.append((_BROKER, config.max_connection_creation_rate))
        return [each for each in found if each[1] != INT_MAX]

    def _next_ms(self, name: str, most_per_second: int, now_ms: int) -> int:
        """Return when the next connection comes in, behind those that wait."""
        config = self._config
        sample_ms = config.quota_window_size_seconds * 1000
        last_ms = max(self._last_ms.get(name, now_ms), now_ms)
        if last_ms - now_ms > MAX_MS:
            return last_ms
        rate = self._rates.setdefault(name, Rate(config.quota_window_num, sample_ms))
        rate.record(1, last_ms)
        self._last_ms[name] = last_ms + min(rate.excess_ms(most_per_second, last_ms), sample_ms)
        return self._last_ms[name]
