"""Connection limits: `max.connections` for the whole broker, and `max.connections.per.ip` for each client address.

All listeners and processors share one count. A connection over a limit is closed before anything is read from it;
open connections stay open. Connections leave a tenth of the descriptors that the system allows to the logs: otherwise
clients that only connect would stop the writes of all others.
"""

from __future__ import annotations

import resource
from typing import Protocol

# Connections leave one in so many descriptors to files, and to the connections to other brokers.
KEPT_FOR_FILES = 10


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

    def acquire(self, address: str, descriptor: int) -> str | None:
        """Count a connection from `address`; or return the limit that refuses it, and count nothing.

        `descriptor` is that of its socket. The system gives the lowest one that is free, so it tells how many are in
        use.
        """
        config = self._config
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if most != resource.RLIM_INFINITY and descriptor >= most - most // KEPT_FOR_FILES:
            used = f"{descriptor} of {most} descriptors are in use"
            return f"{used}, and the logs keep the rest: raise the limit (ulimit -n)"
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
