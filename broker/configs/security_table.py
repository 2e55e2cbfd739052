"""The tables of the configs of listeners (TLS, SASL, new connections, how brokers reach each other), and of ACLs.

A listener may have most of these configs for itself, as `listener.name.NAME.` and the name, and some of them
for one mechanism of SASL (`listener_config.py`).
"""

from __future__ import annotations

from .definition import BOOLEAN, CLASS, INT, INT_MAX, LIST, LONG, PASSWORD, STRING, ConfigError, ConfigTable, define

# Kafka's names of what checks OAuth tokens by the keys of their issuer. The second one is that of Kafka 3.
TOKEN_VALIDATORS = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
)
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
# By which brokers log in to each other.
BROKER_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_STORE = "Only PEM can be read; for another type an error names the command that converts the store."


def _check_mechanisms(names: tuple[str, ...]) -> str | None:
    # Kafka's default stands alone: a listener with SASL refuses it at the start.
    unknown = [name for name in names if name not in MECHANISMS]
    return f"must be of {', '.join(MECHANISMS)}" if unknown and names != ("GSSAPI",) else None


def _check_own_mechanism(name: str) -> str | None:
    # As above: brokers of a cluster that reach each other by SASL refuse Kafka's default at the start.
    return None if name in ("GSSAPI", *BROKER_MECHANISMS) else f"must be one of {', '.join(BROKER_MECHANISMS)}"


def _check_identification(name: str) -> str | None:
    return None if name.lower() in ("", "https") else "must be https, or empty for no check of the host name"


def _check_handler(name: str) -> str | None:
    return None if name in TOKEN_VALIDATORS else f"must be {TOKEN_VALIDATORS[0]}: other classes cannot be run here"


class SecurityTable(ConfigTable):
    """Configs of TLS and SASL, one row each."""

    # fmt: off
    # -- TLS
    ssl_keystore_type: str = define(STRING, "JKS",
        doc=f"The type of the broker's key store. {_STORE}")
    ssl_keystore_location: str | None = define(STRING, None,
        doc="A PEM file with the broker's private key (PKCS#8 or PKCS#1) and its certificate chain. A connection that "
            "comes after the file has changed gets the new certificate.")
    ssl_keystore_password: str | None = define(PASSWORD, None,
        doc="Rejected: a PEM file has no password. ssl.key.password decrypts its key.")
    ssl_keystore_key: str | None = define(PASSWORD, None,
        doc="The broker's private key as PEM, in place of a file.")
    ssl_keystore_certificate_chain: str | None = define(PASSWORD, None,
        doc="The broker's certificate and those that signed it as PEM, in place of a file.")
    ssl_key_password: str | None = define(PASSWORD, None,
        doc="The password of an encrypted private key.")
    ssl_truststore_type: str = define(STRING, "JKS",
        doc=f"The type of the trust store. {_STORE}")
    ssl_truststore_location: str | None = define(STRING, None,
        doc="A PEM file with the certificates of the authorities that sign clients' certificates. Unset: those of the "
            "system.")
    ssl_truststore_password: str | None = define(PASSWORD, None,
        doc="Rejected: a PEM file has no password.")
    ssl_truststore_certificates: str | None = define(PASSWORD, None,
        doc="The certificates of these authorities as PEM, in place of a file.")
    ssl_client_auth: str = define(STRING, "none", choices=("required", "requested", "none"),
        doc="Whether a client must, may or does not show a certificate. On a SASL_SSL listener only a value with the "
            "listener's prefix counts.")
    ssl_enabled_protocols: tuple[str, ...] = define(LIST, ("TLSv1.2", "TLSv1.3"), choices=("TLSv1.2", "TLSv1.3"),
        doc="The versions of TLS that clients may speak.")
    ssl_cipher_suites: tuple[str, ...] = define(LIST, (),
        doc="The cipher suites that clients may use, by IANA's names. Empty: those of OpenSSL. Without one of TLS 1.3 "
            "clients must speak TLS 1.2; those of TLS 1.3 can only be named together.")
    ssl_principal_mapping_rules: str = define(STRING, "DEFAULT",
        doc="Rules that make a user's name of the distinguished name in a client's certificate: DEFAULT, or "
            "RULE:pattern/replacement/ with L or U for the case. The first that matches counts.")
    ssl_endpoint_identification_algorithm: str = define(STRING, "https", check=_check_identification,
        doc="https: a broker that connects to another one requires that the certificate names the advertised host. "
            "Empty: any name will do. Clients decide for themselves.")
    ssl_allow_dn_changes: bool = define(BOOLEAN, False,
        doc="A certificate that replaces the broker's may have another distinguished name.")
    ssl_allow_san_changes: bool = define(BOOLEAN, False,
        doc="A certificate that replaces the broker's may lack host names of the one before.")

    # -- SASL
    sasl_enabled_mechanisms: tuple[str, ...] = define(LIST, ("GSSAPI",), check=_check_mechanisms,
        doc="The mechanisms by which clients may log in. A listener with SASL needs a value, because GSSAPI is not "
            "supported.")
    sasl_jaas_config: str | None = define(PASSWORD, None,
        doc="The users of PLAIN, or the options of OAUTHBEARER, as a line of JAAS. Its username and password are those "
            "by which this broker logs in to others. Only with the prefix of a listener and a mechanism: "
            "listener.name.NAME.plain.sasl.jaas.config.")
    sasl_server_callback_handler_class: str | None = define(CLASS, None, check=_check_handler,
        doc="What checks tokens of OAUTHBEARER by the keys of their issuer. Without it tokens have no signature, which "
            "is for development only.")
    sasl_server_max_receive_size: int = define(INT, 524_288,
        doc="The largest request of a client that has not logged in.")
    connections_max_reauth_ms: int = define(LONG, 0,
        doc="How long a session lasts before its client must log in again (KIP-368); 0: as long as its credential.")
    connection_failed_authentication_delay_ms: int = define(INT, 100, low=0,
        doc="How long the answer to a failed login is held back.")
    sasl_oauthbearer_jwks_endpoint_url: str | None = define(STRING, None,
        doc="Where the keys of the issuer of tokens are: an http, https or file URL of a JSON Web Key Set.")
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = define(LONG, 3_600_000,
        doc="How long these keys are used before they are read again.")
    sasl_oauthbearer_clock_skew_seconds: int = define(INT, 30,
        doc="How far the clocks of the issuer and of this machine may differ.")
    sasl_oauthbearer_expected_audience: tuple[str, ...] = define(LIST, (),
        doc="A token must be for one of these audiences. It must be set, or any is allowed by the next config.")
    sasl_oauthbearer_allow_unverified_audience: bool = define(BOOLEAN, False,
        doc="Whether a token may be for any audience where none is expected.")
    sasl_oauthbearer_expected_issuer: str | None = define(STRING, None,
        doc="A token must be of this issuer. It must be set, or any is allowed by the next config.")
    sasl_oauthbearer_allow_unverified_issuer: bool = define(BOOLEAN, False,
        doc="Whether a token may be of any issuer where none is expected.")
    sasl_oauthbearer_scope_claim_name: str = define(STRING, "scope",
        doc="The claim of a token that has its scopes.")
    sasl_oauthbearer_sub_claim_name: str = define(STRING, "sub",
        doc="The claim of a token that has the user's name.")

    # -- New connections
    max_connection_creation_rate: int = define(INT, INT_MAX, low=1, dynamic=True,
        doc="New connections a second of the whole broker, or with its prefix of a listener. Those above wait for "
            "their turn; one that would wait for more than 10 seconds is closed.")

    # -- Brokers among each other
    inter_broker_listener_name: str | None = define(STRING, None,
        doc="The listener at which the brokers of a cluster reach each other. Unset: the first one.")
    security_inter_broker_protocol: str = define(STRING, "PLAINTEXT", choices=_PROTOCOLS,
        doc="The protocol of the listener of that name at which brokers reach each other. Only where "
            "inter.broker.listener.name is unset.")
    sasl_mechanism_inter_broker_protocol: str = define(STRING, "GSSAPI", check=_check_own_mechanism,
        doc="The mechanism of SASL by which brokers log in to each other. A listener with SASL for brokers needs a "
            "value, because GSSAPI is not supported.")
    # fmt: on


# What no listener has for itself, and what even a mechanism of a listener may have.
OF_A_BROKER = (
    "connection.failed.authentication.delay.ms",
    "inter.broker.listener.name",
    "sasl.mechanism.inter.broker.protocol",
    "security.inter.broker.protocol",
)
OF_A_MECHANISM = ("sasl.jaas.config", "sasl.server.callback.handler.class", "connections.max.reauth.ms")
# What may change while the broker runs, with the prefix of a listener.
RELOADED = (
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.key.password",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
    "max.connection.creation.rate",
)


# Kafka's names of its authorizers. Either turns on the one that Odradek has.
AUTHORIZERS = ("org.apache.kafka.metadata.authorizer.StandardAuthorizer", "kafka.security.authorizer.AclAuthorizer")


def _check_authorizer(name: str) -> str | None:
    return None if name in ("", *AUTHORIZERS) else f"must be one of {', '.join(AUTHORIZERS)}, or empty for none"


def _check_super_users(text: str) -> str | None:
    wrong = next((each for each in _split(text) if ":" not in each.strip(":")), None)
    return None if wrong is None else f"must be TYPE:NAME;TYPE:NAME, as User:admin, not {wrong!r}"


def _split(text: str) -> list[str]:
    return [each.strip() for each in text.split(";") if each.strip()]


class AuthorizerTable(ConfigTable):
    """Configs of the authorizer, one row each."""

    # fmt: off
    authorizer_class_name: str = define(STRING, "", check=_check_authorizer,
        doc="Who may do what is decided by ACLs, with either of Kafka's names for its authorizer. Empty: everyone may "
            "do everything.")
    super_users: str = define(STRING, "", check=_check_super_users,
        doc="Principals that may do everything, whatever the ACLs say: User:admin;User:CN=ops,O=Acme.")
    allow_everyone_if_no_acl_found: bool = define(BOOLEAN, False,
        doc="Everyone may use a resource for which there is no ACL of anybody.")
    # fmt: on

    @property
    def super_user_names(self) -> list[str]:
        """The principals of super.users."""
        return _split(self.super_users)


def check_authorizer(table: AuthorizerTable) -> None:
    """Raise ConfigError where the configs of the authorizer cannot be used together."""
    has_authorizer = bool(table.authorizer_class_name)
    if table.super_users and not has_authorizer:
        raise ConfigError("super.users", table.super_users, "needs authorizer.class.name")
    if table.allow_everyone_if_no_acl_found and not has_authorizer:
        raise ConfigError("allow.everyone.if.no.acl.found", "true", "needs authorizer.class.name")
