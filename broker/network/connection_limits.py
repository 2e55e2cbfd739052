"""Who may connect: at most `max.connections` at a time, and at most `max.connections.per.ip` from one address.

One count for all listeners and processors of a broker. A connection over a limit is closed before a byte of it is
read; those that are open never notice.
"""

INT_MAX = 2**31 - 1


class Admission:
    """The open connections of a broker, by address."""

    def __init__(self, max_connections: int = INT_MAX, max_per_address: int = INT_MAX) -> None:
        # Both may be changed at any time: connections that are open stay, new ones go by the new limits.
        self.max_connections = max_connections
        self.max_per_address = max_per_address
        self._open = 0
        # Invariant: the values are positive and add up to `_open`.
        self._by_address: dict[str, int] = {}

    def admit(self, address: str) -> str | None:
        """Counts a connection from `address`; or says why it is refused, and counts nothing."""
        if self._open >= self.max_connections:
            return f"max.connections is {self.max_connections}"
        count = self._by_address.get(address, 0)
        if count >= self.max_per_address:
            return f"max.connections.per.ip is {self.max_per_address}"
        self._open += 1
        self._by_address[address] = count + 1
        return None

    def release(self, address: str) -> None:
        """A connection that was admitted is closed."""
        self._open -= 1
        left = self._by_address[address] - 1
        if left:
            self._by_address[address] = left
        else:
            del self._by_address[address]
