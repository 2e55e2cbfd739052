"""Requests of this broker to the controller, which may be this broker itself.

Requests to itself do not use the network: a broker need not be able to reach its own advertised address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from ...protocol.schema import Message
from ..configs.broker_config import BrokerConfig
from .inter_broker import InterBroker, Peers
from .metadata_cache import MetadataCache
from .peer import Peer, PeerLost

R = TypeVar("R", bound=Message)

# Carries out a request of this broker to itself, in a version, and returns the response.
AskSelf = Callable[[Message, int], Awaitable[Any]]


class OwnBroker:
    """This broker, as a place to send requests to: used as a Peer is."""

    def __init__(self, ask: AskSelf) -> None:
        self._ask = ask

    async def request(
        self, message: Message, version: int, response_type: type[R], timeout_s: float, *, is_large: bool = False
    ) -> R:
        """Have this broker carry out `message`, and return the response. Raises PeerLost after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                return cast(R, await self._ask(message, version))
        except TimeoutError as error:
            api = type(message).__name__.removesuffix("Request")
            raise PeerLost(f"this broker did not carry out {api} within {timeout_s:g} s") from error

    def close(self) -> None:
        """Do nothing: there is no connection."""


class ControllerDoor:
    """The way to the broker that is the controller. One request is under way at a time. End it with `close`."""

    def __init__(
        self, config: BrokerConfig, view: MetadataCache, inter_broker: InterBroker, own: OwnBroker | None
    ) -> None:
        """`own` is this broker as a place to send requests to; None where a test plays the controller."""
        self._config = config
        self._view = view
        self._own = own
        self._peers = Peers(config, view, inter_broker)

    @property
    def is_open(self) -> bool:
        """Whether this broker knows where the controller is."""
        return self._view.controller_id in self._view.brokers

    async def request(self, message: Message, version: int, response_type: type[R]) -> R:
        """Send a request to the present controller and return its response. Raises PeerLost where there is none."""
        timeout_s = self._config.controller_socket_timeout_ms / 1000
        return await self._connect().request(message, version, response_type, timeout_s)

    def _connect(self) -> Peer | OwnBroker:
        if self._own is not None and self._view.controller_id == self._config.node_id:
            return self._own
        found = self._view.brokers.get(self._view.controller_id)
        if found is None:
            raise PeerLost("the cluster has no controller at the moment")
        return self._peers.to(found)

    def close(self) -> None:
        """Close the connections. A later request opens another."""
        self._peers.close()
