"""The way to other brokers: the listener at which they are reached, and what this broker shows them there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from ...protocol.schema import Message
from ..configs.broker_config import BrokerConfig
from ..security.outgoing import OutgoingTls, broker_login
from .metadata_cache import BrokerView, MetadataCache
from .peer import Peer, PeerLost

R = TypeVar("R", bound=Message)


class InterBroker:
    """Makes connections to other brokers. Raises StoreError where its certificates, or its login, cannot be used."""

    def __init__(self, config: BrokerConfig) -> None:
        listener = self.listener = config.inter_broker_listener
        protocol = config.of_listener(listener).protocol
        self.is_plain = not protocol.has_tls and not protocol.has_sasl
        self._tls = OutgoingTls(lambda: config.of_listener(listener)) if protocol.has_tls else None
        self._login = broker_login(config)

    def address_of(self, endpoints: Mapping[str, tuple[str, int]]) -> tuple[str, int] | None:
        """Return where a broker with these endpoints is reached; None where it has no such listener.

        Without TLS and SASL the first one will do, since brokers need not give their listeners the same names.
        """
        address = endpoints.get(self.listener)
        return next(iter(endpoints.values()), None) if address is None and self.is_plain else address

    def peer(self, host: str, port: int, client_id: str) -> Peer:
        """Return a connection to a broker, which is opened when it is used."""
        return Peer(host, port, client_id, self._tls, self._login)


class Unreachable:
    """A broker without a listener for brokers, as a place to send requests to: used as a Peer is."""

    def __init__(self, broker_id: int, listener: str) -> None:
        self._why = f"broker {broker_id} has no listener {listener}"

    async def request(
        self, message: Message, version: int, response_type: type[R], timeout_s: float, *, is_large: bool = False
    ) -> R:
        """Raise PeerLost."""
        raise PeerLost(self._why)

    def close(self) -> None:
        """Do nothing: there is no connection."""


class Peers:
    """The peers by address, for one purpose. No more than the live brokers: a new peer closes those that are gone."""

    def __init__(self, config: BrokerConfig, view: MetadataCache, inter_broker: InterBroker, purpose: str = "") -> None:
        self._view = view
        self._inter_broker = inter_broker
        self._client_id = f"broker-{config.node_id}" + (f"-{purpose}" if purpose else "")
        self._peers: dict[tuple[str, int], Peer] = {}

    def to(self, broker: BrokerView) -> Peer:
        """Return the connection to a broker. Raises PeerLost where it has no listener for brokers."""
        address = self._inter_broker.address_of(broker.endpoints)
        if address is None:
            raise PeerLost(f"broker {broker.id} has no listener {self._inter_broker.listener}")
        peer = self._peers.get(address)
        if peer is None:
            live = {self._inter_broker.address_of(each.endpoints) for each in self._view.brokers.values()}
            for gone in self._peers.keys() - live:
                self._peers.pop(gone).close()
            peer = self._peers[address] = self._inter_broker.peer(*address, self._client_id)
        return peer

    def close(self) -> None:
        """Close all of them; requests that wait fail."""
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()


# Makes Peers for a purpose.
NewPeers = Callable[[str], Peers]
