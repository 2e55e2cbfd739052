"""The table of the configs of a secure ZooKeeper: TLS, the login of this broker, and the ACLs of its znodes."""

from __future__ import annotations

from dataclasses import dataclass

from .definition import BOOLEAN, LIST, PASSWORD, STRING, ConfigError, define

_VERSIONS = ("TLSv1.2", "TLSv1.3")


def _check_identification(name: str) -> str | None:
    return None if name.lower() in ("", "https") else "must be HTTPS, or empty for no check of the host name"


# Never made by itself: BrokerConfig takes its fields, so that no methods are generated for it here.
@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class ZooKeeperTable:
    """Configs of the session with a secure ZooKeeper, one row each. They act where zookeeper.connect is set."""

    # fmt: off
    zookeeper_ssl_client_enable: bool = define(BOOLEAN, False,
        doc="ZooKeeper is reached by TLS, at its secureClientPort.")
    zookeeper_ssl_keystore_location: str | None = define(STRING, None,
        doc="A PEM file with the key and the certificate that ZooKeeper is shown. Unset: none.")
    zookeeper_ssl_keystore_password: str | None = define(PASSWORD, None,
        doc="The password of an encrypted key in zookeeper.ssl.keystore.location.")
    zookeeper_ssl_keystore_type: str | None = define(STRING, None,
        doc="The type of that key store: PEM is the only one that can be read. Unset: PEM if the name ends with .pem.")
    zookeeper_ssl_truststore_location: str | None = define(STRING, None,
        doc="A PEM file with the certificates of the authorities that sign ZooKeeper's. Unset: those of the system.")
    zookeeper_ssl_truststore_password: str | None = define(PASSWORD, None,
        doc="Rejected: a PEM file has no password.")
    zookeeper_ssl_truststore_type: str | None = define(STRING, None,
        doc="The type of that trust store: PEM is the only one that can be read. Unset: PEM if the name ends with "
            ".pem.")
    zookeeper_ssl_protocol: str = define(STRING, "TLSv1.2", choices=_VERSIONS,
        doc="The version of TLS that is spoken with ZooKeeper, where zookeeper.ssl.enabled.protocols is empty.")
    zookeeper_ssl_enabled_protocols: tuple[str, ...] = define(LIST, (), choices=_VERSIONS,
        doc="The versions of TLS that may be spoken with ZooKeeper.")
    zookeeper_ssl_cipher_suites: tuple[str, ...] = define(LIST, (),
        doc="The cipher suites that may be used with ZooKeeper, by IANA's names. Empty: those of OpenSSL.")
    zookeeper_ssl_endpoint_identification_algorithm: str = define(STRING, "HTTPS", check=_check_identification,
        doc="HTTPS: ZooKeeper's certificate must name the host of zookeeper.connect. Empty: any name will do.")
    zookeeper_set_acl: bool = define(BOOLEAN, False,
        doc="Only who makes a znode may change it, and read it where users or configs of brokers are in it. All "
            "brokers of a cluster need the same identity at ZooKeeper, by TLS or by a login.")
    java_security_auth_login_config: str | None = define(STRING, None,
        doc="A JAAS file. Its section Client has the login at ZooKeeper, by DIGEST-MD5. Java takes this as a property "
            "of its own (-Djava.security.auth.login.config in KAFKA_OPTS).")
    # fmt: on


def check_zookeeper(table: ZooKeeperTable) -> None:
    """Raise ConfigError where znodes should have an owner and this broker has no identity."""
    has_certificate = table.zookeeper_ssl_client_enable and table.zookeeper_ssl_keystore_location is not None
    if table.zookeeper_set_acl and not has_certificate and table.java_security_auth_login_config is None:
        why = (
            "needs an identity at ZooKeeper: zookeeper.ssl.client.enable with zookeeper.ssl.keystore.location, or "
            "java.security.auth.login.config with a section Client"
        )
        raise ConfigError("zookeeper.set.acl", "true", why)
