"""What this broker shows other brokers when it connects to them: its certificate, its login, and so its principal.

They are those of the inter-broker listener. A certificate or trust store that was replaced on disk, or by AlterConfigs,
is used by the next connection. While new files cannot be used, the last good ones are, and a warning says so.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ...protocol.sasl import Mechanism, plain, scram
from ..configs.broker_config import BrokerConfig
from ..configs.listener_config import ListenerConfig
from . import tls
from .certificates import subject_name
from .pem import StoreError
from .principal_rules import PrincipalRules
from .principals import ANONYMOUS, Principal, user
from .sasl.jaas import BadLine, parse

_log = logging.getLogger(__name__)


class BrokerLogin(NamedTuple):
    """The login of this broker at others. `begin` makes the exchange of one login."""

    mechanism: str
    username: str
    begin: Callable[[], Mechanism]


class OutgoingTls:
    """The TLS context for connections to other brokers. Raises StoreError where the stores cannot be used."""

    def __init__(self, config: Callable[[], ListenerConfig]) -> None:
        """`config` returns the present configs of the inter-broker listener."""
        self._config = config
        self._turn = asyncio.Lock()
        present = config()
        self._seen = present, tls.stamp(present)
        self._context = tls.load_outgoing(present)

    async def context(self) -> ssl.SSLContext:
        """Return the context for a new connection, made again if a config or a file has changed."""
        async with self._turn:
            await asyncio.to_thread(self._refresh, self._config())
        return self._context

    def _refresh(self, config: ListenerConfig) -> None:
        state = config, tls.stamp(config)
        if state == self._seen:
            return
        self._seen = state
        try:
            self._context = tls.load_outgoing(config)
        except StoreError as error:
            _log.warning("connections to other brokers use the certificates of before: %s", error)


def broker_login(config: BrokerConfig) -> BrokerLogin | None:
    """Return the login of this broker at others; None where the inter-broker listener asks for none.

    Raises StoreError where there is no user for it.
    """
    listener = config.of_listener(config.inter_broker_listener)
    if not listener.protocol.has_sasl:
        return None
    mechanism = config.sasl_mechanism_inter_broker_protocol
    name = f"listener.name.{listener.name.lower()}.{mechanism.lower()}.sasl.jaas.config"
    line = listener.of_mechanism(mechanism).sasl_jaas_config
    try:
        options: Mapping[str, str] = parse(line).options if line is not None else {}
    except BadLine as error:
        raise StoreError(f"{name}: {error}") from None
    username, password = options.get("username"), options.get("password")
    if not username or password is None:
        module = "PlainLoginModule" if mechanism == "PLAIN" else "ScramLoginModule"
        wanted = f'{module} required username="NAME" password="PASSWORD";'
        raise StoreError(f"brokers log in to each other by {mechanism}: set {name} to {wanted}")
    if mechanism == "PLAIN":
        return BrokerLogin(mechanism, username, lambda: plain(username, password))
    return BrokerLogin(mechanism, username, lambda: scram(mechanism, username, password))


def own_principal(config: BrokerConfig) -> Principal:
    """Return who this broker is to other brokers of its cluster. Raises StoreError."""
    listener, login = config.of_listener(config.inter_broker_listener), broker_login(config)
    if login is not None:
        return user(login.username)
    if not listener.protocol.has_tls or listener.ssl_client_auth == "none":
        return ANONYMOUS
    subject = subject_name(tls.load(listener).certificate)
    name = PrincipalRules(listener.ssl_principal_mapping_rules).name_of(subject)
    if name is None:
        raise StoreError(f"no rule of ssl.principal.mapping.rules matches this broker's own name, {subject}")
    return user(name)


def check_is_super_user(config: BrokerConfig) -> None:
    """Raise StoreError where an authorizer would deny the requests of this broker to others of its cluster."""
    if not config.authorizer_class_name:
        return
    principal = own_principal(config)
    if str(principal) in config.super_user_names:
        return
    why = f"brokers are {principal} to each other, which is not in super.users: every request of them would be denied"
    remedy = ""
    if principal == ANONYMOUS:
        remedy = (
            ". Let them log in (inter.broker.listener.name, with SASL) or show certificates "
            f"(listener.name.{config.inter_broker_listener.lower()}.ssl.client.auth=required)"
        )
    raise StoreError(why + remedy)
