"""A real Kafka, and a broker of ours, with a listener for each way to be secure. Kafka needs KAFKA_LIB and Java."""

from __future__ import annotations

import sys
from pathlib import Path

from ..brokers.process import BrokerProcess, KafkaProcess, free_port
from .certificates import Certificates

USER, PASSWORD = "alice", 'secret, "=7'
_MODULE = "org.apache.kafka.common.security"
_JAAS_PASSWORD = PASSWORD.replace('"', '\\\\"')
# How long a session of the listener AUTH lives.
REAUTH_MS = 1_200


class SecureKafka(KafkaProcess):
    """Listeners: PLAINTEXT, TLS, MTLS (client certificates), AUTH (SASL_PLAINTEXT) and AUTHTLS (SASL_SSL)."""

    def __init__(self, folder: Path, certificates: Certificates) -> None:
        super().__init__(folder)
        self.certificates = certificates
        self.ports = {name: free_port() for name in ("TLS", "MTLS", "AUTH", "AUTHTLS")}

    def at(self, listener: str) -> str:
        return f"localhost:{self.ports[listener]}"

    def format(self) -> None:
        super().format()
        # A line that comes later replaces an earlier one.
        written = dict(line.split("=", 1) for line in self.properties.read_text().splitlines())
        lines = secure_lines(written["listeners"], f"PLAINTEXT://{self.address}", self.ports, self.certificates)
        lines["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
        with self.properties.open("a") as file:
            file.writelines(f"{name}={value}\n" for name, value in lines.items())


class SecureBroker(BrokerProcess):
    """`odradek serve` with the same listeners and the same configs."""

    def __init__(self, folder: Path, certificates: Certificates) -> None:
        super().__init__(folder)
        self.certificates = certificates
        self.ports = {name: free_port() for name in ("TLS", "MTLS", "AUTH", "AUTHTLS")}
        self.address = f"127.0.0.1:{free_port()}"

    def at(self, listener: str) -> str:
        return f"localhost:{self.ports[listener]}"

    def command(self) -> list[str]:
        plain = f"PLAINTEXT://{self.address}"
        lines = secure_lines(plain, plain, self.ports, self.certificates) | {"log.dirs": str(self.data_dir)}
        properties = self.folder / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        return [sys.executable, *self.program(), "serve", "--config", str(properties)]


def secure_lines(plain: str, told: str, ports: dict[str, int], certificates: Certificates) -> dict[str, str]:
    """The lines of server.properties. `plain` are the listeners without security, `told` what clients are told."""
    more = [f"{name}://localhost:{port}" for name, port in ports.items()]
    lines = {
        "listeners": ",".join([plain, *more]),
        "advertised.listeners": ",".join([told, *more]),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL,MTLS:SSL,AUTH:SASL_PLAINTEXT,AUTHTLS:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.with_key(certificates.broker)),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "listener.name.mtls.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.auth.connections.max.reauth.ms": str(REAUTH_MS),
    }
    for listener in ("auth", "authtls"):
        prefix = f"listener.name.{listener}"
        lines |= {
            f"{prefix}.plain.sasl.jaas.config": f"{_MODULE}.plain.PlainLoginModule required "
            f'username="broker" password="b" user_{USER}="{_JAAS_PASSWORD}";',
            f"{prefix}.scram-sha-256.sasl.jaas.config": f"{_MODULE}.scram.ScramLoginModule required;",
            f"{prefix}.scram-sha-512.sasl.jaas.config": f"{_MODULE}.scram.ScramLoginModule required;",
            f"{prefix}.oauthbearer.sasl.jaas.config": f"{_MODULE}.oauthbearer.OAuthBearerLoginModule required "
            'unsecuredLoginStringClaim_sub="broker";',
        }
    return lines
