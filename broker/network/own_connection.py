"""This broker as a client of its own: what stands in the place of a connection where it sends itself a request."""

from __future__ import annotations

from contextlib import suppress

from ..configs.broker_config import BrokerConfig
from ..security.pem import StoreError
from ..security.principals import ANONYMOUS
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
        self.principal = ANONYMOUS
        if has_authorizer:
            from ..security.outgoing import own_principal  # it brings TLS and SASL

            with suppress(StoreError):  # it could not log in at its own listener
                self.principal = own_principal(config)

    def keep(self, data: memoryview) -> memoryview:
        """Return the data: nobody overwrites it."""
        return data

    def mute(self, delay_ms: int) -> None:
        """Do nothing: quotas let clients wait, not the broker."""
