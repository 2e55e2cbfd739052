"""How the session of a broker with ZooKeeper is secured: what its configs say, as Kafka 3.9 reads them."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ...zookeeper.security import ZooKeeperSecurity
from ...zookeeper.session import Contact, OpenSession, Session
from ..configs.broker_config import BrokerConfig
from ..security import tls
from ..security.pem import StoreError
from ..security.sasl.jaas import BadLine, parse_file

# The section of a JAAS file with the login at ZooKeeper.
SECTION = "Client"
# A file of logins is small.
_MAX_FILE_BYTES = 64 * 1024


def session_of(
    config: BrokerConfig,
    on_change: Callable[[str], None] = lambda path: None,
    on_contact: Callable[[Contact], None] = lambda contact: None,
    open_session: OpenSession | None = None,
) -> Session:
    """Return a session with the ZooKeeper of a broker. Raises ZooKeeperUnreachable, and as `zookeeper_security`."""
    assert config.zookeeper_connect is not None
    session_ms, connection_ms = config.zookeeper_session_timeout_ms, config.zookeeper_connection_timeout_ms
    times_ms = session_ms, session_ms if connection_ms is None else connection_ms
    security = zookeeper_security(config)
    return (open_session or Session)(config.zookeeper_connect, *times_ms, on_change, on_contact, security)


def zookeeper_security(config: BrokerConfig) -> ZooKeeperSecurity:
    """Return how a session is secured. Raises StoreError where stores or the JAAS file cannot be used."""
    context = _context(config) if config.zookeeper_ssl_client_enable else None
    return ZooKeeperSecurity(context, _login(config), config.zookeeper_set_acl)


def _context(config: BrokerConfig) -> ssl.SSLContext:
    keys, trust = config.zookeeper_ssl_keystore_location, config.zookeeper_ssl_truststore_location
    stores = replace(
        config.of_listener(config.endpoints[0].name),
        ssl_keystore_location=keys,
        ssl_keystore_type=config.zookeeper_ssl_keystore_type or _type_of(keys),
        ssl_keystore_password=None,
        ssl_keystore_key=None,
        ssl_keystore_certificate_chain=None,
        ssl_key_password=config.zookeeper_ssl_keystore_password,
        ssl_truststore_location=trust,
        ssl_truststore_type=config.zookeeper_ssl_truststore_type or _type_of(trust),
        ssl_truststore_password=config.zookeeper_ssl_truststore_password,
        ssl_truststore_certificates=None,
        ssl_enabled_protocols=config.zookeeper_ssl_enabled_protocols or (config.zookeeper_ssl_protocol,),
        ssl_cipher_suites=config.zookeeper_ssl_cipher_suites,
        ssl_endpoint_identification_algorithm=config.zookeeper_ssl_endpoint_identification_algorithm,
    )
    try:
        return tls.load_outgoing(stores)
    except StoreError as error:
        raise StoreError(f"zookeeper.{error}" if str(error).startswith("ssl.") else str(error)) from None


def _type_of(path: str | None) -> str:
    """Return the type of a store by its name, as ZooKeeper's own client takes it."""
    return "PEM" if path is not None and path.lower().endswith(".pem") else "JKS"


def _login(config: BrokerConfig) -> tuple[str, str] | None:
    """Return the name and the password of the section Client, if there is one."""
    path = config.java_security_auth_login_config
    if path is None:
        return None
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            sections = parse_file(file.read(_MAX_FILE_BYTES))
    except OSError as error:
        raise StoreError(f"java.security.auth.login.config={path}: {(error.strerror or str(error)).lower()}") from error
    except BadLine as error:
        raise StoreError(f"java.security.auth.login.config={path}: {error}") from None
    module = sections.get(SECTION)
    if module is None:
        raise StoreError(f"java.security.auth.login.config={path}: it has no section {SECTION}")
    username, password = module.options.get("username"), module.options.get("password")
    if module.name != "DigestLoginModule" or not username or password is None:
        wanted = 'DigestLoginModule required username="NAME" password="PASSWORD";'
        raise StoreError(f"java.security.auth.login.config={path}: section {SECTION} must have {wanted}")
    return username, password
