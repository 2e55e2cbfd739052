"""Connections to the brokers of the cluster, one for each broker, for one purpose."""

from __future__ import annotations

from ..configs.broker_config import BrokerConfig
from .inter_broker import InterBroker
from .metadata_cache import BrokerView, MetadataCache
from .peer import Peer, PeerLost


class Peers:
    """The peers by address. No more than the live brokers: a new peer closes those that are gone."""

    def __init__(self, config: BrokerConfig, view: MetadataCache, inter_broker: InterBroker, purpose: str) -> None:
        self._view = view
        self._inter_broker = inter_broker
        self._client_id = f"broker-{config.node_id}-{purpose}"
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
