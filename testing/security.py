"""TLS and users of a broker in a test: its listeners, its certificate, and the options with which clients connect.

Clients get one listener. The kit has another one, in plain text, so that it can look inside whatever the users may do.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from .. import how_to_install
from ..broker.configs.definition import suggestion
from ..client import ScramPassword
from .errors import Unavailable

_CLIENTS, _KIT = "CLIENTS", "KIT"
_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
# What clients use: the strongest of these.
MECHANISM = "SCRAM-SHA-512"
_JAVA_LOGIN = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True)
class Security:
    """How clients of a broker connect. `users`: their passwords by name."""

    tls: bool = False
    users: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    # Where the certificates are, if there is TLS.
    folder: Path = Path()

    @classmethod
    def beside(cls, data_dir: Path, tls: bool, users: Mapping[str, str] | None) -> Security:
        """Return it with a folder for certificates beside a data directory. Unavailable for users without passwords."""
        given: Any = {} if users is None else users
        if not isinstance(given, Mapping) or not all(isinstance(each, str) for each in cast("Any", given).values()):
            raise Unavailable('users are passwords by name, such as users={"alice": "secret"}')
        return cls(tls, dict(users or {}), Path(f"{data_dir}-certificates"))

    def passwords(self) -> list[ScramPassword]:
        """Return the passwords that a broker stores, for each mechanism of SCRAM."""
        return [ScramPassword(name, each, password) for name, password in self.users.items() for each in _SCRAM]

    @property
    def protocol(self) -> str:
        """Kafka's name of the listener's protocol."""
        return ("SASL_" if self.users else "") + ("SSL" if self.tls else "PLAINTEXT")

    @property
    def authority(self) -> Path:
        """The certificate that clients trust, a file in PEM."""
        return self.folder / "ca.pem"

    def configs(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the configs of the broker; makes the certificate. `given`: those that the test asks for."""
        if not self.tls and not self.users:
            return {}
        if "listeners" in given:
            raise Unavailable("tls and users come with listeners of the kit: leave the config listeners out")
        found = {
            "listeners": f"{_CLIENTS}://127.0.0.1:0,{_KIT}://127.0.0.1:0",
            "listener.security.protocol.map": f"{_CLIENTS}:{self.protocol},{_KIT}:PLAINTEXT",
            "inter.broker.listener.name": _KIT,
        }
        if self.tls:
            found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(_make_certificate(self.folder))}
        if self.users:
            found |= self._logins()
            if given.get("authorizer.class.name"):
                found["super.users"] = ";".join(filter(None, (given.get("super.users"), "User:ANONYMOUS")))
        return found

    def _logins(self) -> dict[str, str]:
        users = " ".join(f'user_{name}="{_quoted(password)}"' for name, password in self.users.items())
        return {
            "sasl.enabled.mechanisms": ",".join(("PLAIN", *_SCRAM)),
            f"listener.name.{_CLIENTS.lower()}.plain.sasl.jaas.config": f"{_JAVA_LOGIN}.plain.PlainLoginModule "
            f"required {users};",
            # A test of a wrong password need not wait.
            "connection.failed.authentication.delay.ms": "0",
        }

    def options(self, client: str, address: str, user: str | None) -> dict[str, Any]:
        """Return the options with which a client library connects. Unavailable names the nearest library or user."""
        make = _OPTIONS.get(client)
        if make is None:
            why = f"there are no options for {client!r}{suggestion(client, _OPTIONS)}"
            raise Unavailable(f"{why}; there are options for {', '.join(_OPTIONS)}")
        if user is not None and user not in self.users:
            why = f"there is no user {user!r}{suggestion(user, self.users)}; there are {sorted(self.users)}"
            raise Unavailable(why)
        name = user or next(iter(self.users), None)
        return make(self, address, name, self.users.get(name or "", ""))


def _make_certificate(folder: Path) -> Path:
    try:
        from ..broker.security.authority import Authority
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("cryptography"):
            raise
        raise Unavailable(f"tls=True makes certificates: {how_to_install('test,certs')}") from error
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    Authority.open(folder).keep_certificate(folder / "broker.pem", ["127.0.0.1", "localhost"])
    return folder / "broker.pem"


# -- The options of each client library, without those of security where there is none


def _librdkafka(security: Security, address: str, user: str | None, password: str) -> dict[str, Any]:
    names = {"ssl_cafile": "ssl.ca.location"}
    names |= {f"sasl_plain_{each}": f"sasl.{each}" for each in ("username", "password")}
    found = _kafka_python(security, address, user, password)
    return {names.get(name, name.replace("_", ".")): value for name, value in found.items()}


def _kafka_python(security: Security, address: str, user: str | None, password: str) -> dict[str, Any]:
    found = {"bootstrap_servers": address, "security_protocol": security.protocol}
    if security.tls:
        found["ssl_cafile"] = str(security.authority)
    if user is not None:
        found |= {"sasl_mechanism": MECHANISM, "sasl_plain_username": user, "sasl_plain_password": password}
    return found


def _aiokafka(security: Security, address: str, user: str | None, password: str) -> dict[str, Any]:
    found = _kafka_python(security, address, user, password)
    authority = found.pop("ssl_cafile", None)
    if authority is not None:
        found["ssl_context"] = ssl.create_default_context(cafile=authority)
    return found


def _java(security: Security, address: str, user: str | None, password: str) -> dict[str, Any]:
    found = {"bootstrap.servers": address, "security.protocol": security.protocol}
    if security.tls:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(security.authority)}
    if user is not None:
        found["sasl.mechanism"] = MECHANISM
        module = f"{_JAVA_LOGIN}.scram.ScramLoginModule"
        found["sasl.jaas.config"] = f'{module} required username="{user}" password="{_quoted(password)}";'
    return found


_OPTIONS: dict[str, Callable[[Security, str, str | None, str], dict[str, Any]]] = {
    "confluent-kafka": _librdkafka,
    "kafka-python": _kafka_python,
    "aiokafka": _aiokafka,
    "odradek": _kafka_python,
    "java": _java,
}


def keep_ports(listeners: str, addresses: Sequence[str]) -> str:
    """Return the config `listeners` with which a broker that starts again has the ports that its clients know."""
    names = [each.strip().partition("://")[0] for each in listeners.split(",")]
    return ",".join(f"{name}://{address}" for name, address in zip(names, addresses, strict=True))


def _quoted(password: str) -> str:
    """Return a password as the text between the quotes of a JAAS line."""
    return password.replace("\\", "\\\\").replace('"', '\\"')
