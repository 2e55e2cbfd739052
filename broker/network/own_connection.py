"""This broker as a client of its own: what stands in the place of a connection where it sends itself a request."""

from __future__ import annotations

from ..configs.broker_config import BrokerConfig
from ..security.pem import StoreError
from ..security.principals import ANONYMOUS, Principal
from .connection import Listener


class OwnConnection:
    """As a Connection to the inter-broker listener that has logged in: an authorizer asks who the broker is there."""

    name = "this broker"
    client_host = "127.0.0.1"
    advertised_address = ("", 0)
    is_stranger = False
    muted_ms = 0

    def __init__(self, config: BrokerConfig, has_authorizer: bool) -> None:
        self.listener = Listener(config.inter_broker_listener)
        self.principal = _principal(config) if has_authorizer else ANONYMOUS

    def keep(self, data: memoryview) -> memoryview:
        """Return the data: nobody overwrites it."""
        return data

    def mute(self, delay_ms: int) -> None:
        """Do nothing: quotas let clients wait, not the broker."""


def _principal(config: BrokerConfig) -> Principal:
    """Return who the broker is; nobody where it could not log in at its own listener."""
    from ..security.outgoing import own_principal  # it brings TLS and SASL

    try:
        return own_principal(config)
    except StoreError:
        return ANONYMOUS
