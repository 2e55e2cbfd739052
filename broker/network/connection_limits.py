"""Connection limits: `max.connections` for the whole broker, and `max.connections.per.ip` for each client address.

All listeners and processors share one count. A connection over a limit is closed before anything is read from it;
open connections stay open.
"""

from __future__ import annotations

from typing import Protocol


class LimitsConfig(Protocol):
    """The configs that limit connections; both may change while the broker runs."""

    @property
    def max_connections(self) -> int: ...
    @property
    def max_connections_per_ip(self) -> int: ...


class ConnectionLimits:
    """The number of open connections, in total and by client address."""

    def __init__(self, config: LimitsConfig) -> None:
        self._config = config
        self._open = 0
        # Invariant: every count is positive, and together they are `_open`.
        self._by_address: dict[str, int] = {}

    def acquire(self, address: str) -> str | None:
        """Count a connection from `address`; or return the limit that refuses it, and count nothing."""
        config = self._config
        if self._open >= config.max_connections:
            return f"max.connections is {config.max_connections}"
        count = self._by_address.get(address, 0)
        if count >= config.max_connections_per_ip:
            return f"max.connections.per.ip is {config.max_connections_per_ip}"
        self._open += 1
        self._by_address[address] = count + 1
        return None

    def release(self, address: str) -> None:
        """Forget one connection that `acquire` counted."""
        self._open -= 1
        left = self._by_address[address] - 1
        if left:
            self._by_address[address] = left
        else:
            del self._by_address[address]
