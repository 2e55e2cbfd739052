"""Requests of this broker to the controller, which may be this broker itself."""

from __future__ import annotations

from typing import TypeVar

from ...protocol.schema import Message
from ..configs.broker_config import BrokerConfig
from ..replication.peer import Peer, PeerLost
from ..replication.view import ClusterView

R = TypeVar("R", bound=Message)


class ControllerDoor:
    """The way to the broker that is the controller. End it with `close`."""

    def __init__(self, broker_id: int, view: ClusterView, config: BrokerConfig) -> None:
        self._broker_id = broker_id
        self._view = view
        self._config = config
        self._peer: Peer | None = None

    async def request(self, message: Message, version: int, response_type: type[R]) -> R:
        """Send a request to the present controller and return its response. Raises PeerLost where there is none."""
        timeout_s = self._config.controller_socket_timeout_ms / 1000
        return await self._connect().request(message, version, response_type, timeout_s)

    def _connect(self) -> Peer:
        found = self._view.brokers.get(self._view.controller_id)
        if found is None:
            raise PeerLost("the cluster has no controller at the moment")
        host, port = found.address(self._config.endpoints[0].name)
        if self._peer is None or (self._peer.host, self._peer.port) != (host, port):
            self.close()
            self._peer = Peer(host, port, f"broker-{self._broker_id}")
        return self._peer

    def close(self) -> None:
        """Close the connection. A later request opens another."""
        if self._peer is not None:
            self._peer.close()
            self._peer = None
