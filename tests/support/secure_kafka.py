"""A real Kafka with a listener for each way to be secure. Needs KAFKA_LIB, Java and openssl."""

from __future__ import annotations

from pathlib import Path

from .certificates import Certificates
from .process import KafkaProcess, free_port

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
        more = [f"{name}://localhost:{port}" for name, port in self.ports.items()]
        lines = {
            "listeners": ",".join([written["listeners"], *more]),
            "advertised.listeners": ",".join([f"PLAINTEXT://{self.address}", *more]),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,MTLS:SSL,"
            "AUTH:SASL_PLAINTEXT,AUTHTLS:SASL_SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.certificates.with_key(self.certificates.broker),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.certificates.authority,
            "listener.name.mtls.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "listener.name.auth.connections.max.reauth.ms": REAUTH_MS,
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
        with self.properties.open("a") as file:
            file.writelines(f"{name}={value}\n" for name, value in lines.items())
