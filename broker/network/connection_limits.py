"""Connection limits: `max.connections` for the whole broker, and `max.connections.per.ip` for each client address.

All listeners and processors share one count. A connection over a limit is closed before anything is read from it;
open connections stay open. Connections leave a tenth of the descriptors that the system allows to the logs: otherwise
clients that only connect would stop the writes of all others.

As in Kafka, both bounds leave the brokers a way in, where inter.broker.listener.name is a listener of their own beside
those of clients: another connection is closed for theirs.
"""

from __future__ import annotations

import resource
from collections.abc import Callable

from ..configs.broker_config import BrokerConfig
from ..configs.endpoint import parse_address_limits
from ..quotas.connection_rates import AT_ONCE, ConnectionRates, Entry
from ..security.principals import address_text

# Connections leave one in so many descriptors to files, and to the connections to other brokers.
KEPT_FOR_FILES = 10


class ConnectionLimits:
    """The number of open connections, in total and by client address."""

    def __init__(self, config: BrokerConfig, rates: ConnectionRates | None = None) -> None:
        self._config = config
        self._rates = rates
        # What `_overrides` was made of.
        self._overrides_text = ""
        self._overrides: dict[str, int] = {}
        self._open = 0
        # Invariant: every count is positive, and together they are `_open`.
        self._by_address: dict[str, int] = {}
        # Closes the connection that is missed least, for one of the brokers. False: there is none.
        self.close_one: Callable[[], bool] = lambda: False

    def acquire(self, address: str, descriptor: int, listener: str = "") -> str | None:
        """Count a connection from `address`; or return the limit that refuses it, and count nothing.

        `descriptor` is that of its socket. The system gives the lowest one that is free, so it tells how many are in
        use.
        """
        exceeded = self._exceeded(descriptor)
        if exceeded is not None and not (self.is_protected(listener) and self._makes_way(descriptor)):
            return exceeded
        count = self._by_address.get(address, 0)
        most_of_address = self._most_of(address)
        if count >= most_of_address:
            return f"max.connections.per.ip is {most_of_address}"
        self._open += 1
        self._by_address[address] = count + 1
        return None

    def _exceeded(self, descriptor: int) -> str | None:
        """Return the bound of all connections that is reached."""
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if most != resource.RLIM_INFINITY and descriptor >= most - most // KEPT_FOR_FILES:
            used = f"{descriptor} of {most} descriptors are in use"
            return f"{used}, and the logs keep the rest: raise the limit (ulimit -n)"
        if self._open >= self._config.max_connections:
            return f"max.connections is {self._config.max_connections}"
        return None

    def is_protected(self, listener: str) -> bool:
        """Return whether a listener is the brokers' own, beside others."""
        return listener == self._config.inter_broker_listener and len(self._config.endpoints) > 1

    def _makes_way(self, descriptor: int) -> bool:
        """Close a connection for one of the brokers. Where all are theirs, it comes in while half of the rest is free.

        The closed one still counts until the loop is done with it.
        """
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        is_last = most != resource.RLIM_INFINITY and descriptor >= most - most // KEPT_FOR_FILES // 2
        return self.close_one() or not is_last

    def enter(self, listener: str, address: str) -> Entry:
        """Say when a connection that was counted comes in."""
        return AT_ONCE if self._rates is None else self._rates.enter(listener, address)

    def _most_of(self, address: str) -> int:
        text, most = self._config.max_connections_per_ip_overrides, self._config.max_connections_per_ip
        if not text:
            return most
        if text != self._overrides_text:
            self._overrides_text = text
            self._overrides = {address_text(each): number for each, number in parse_address_limits(text).items()}
        return self._overrides.get(address, most)

    def release(self, address: str) -> None:
        """Forget one connection that `acquire` counted."""
        self._open -= 1
        left = self._by_address[address] - 1
        if left:
            self._by_address[address] = left
        else:
            del self._by_address[address]
