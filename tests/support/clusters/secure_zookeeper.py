"""A real ZooKeeper that is reached by TLS, and one at which its clients log in by DIGEST-MD5."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from odradek.tests.support.brokers.process import free_port
from odradek.tests.support.clusters.zookeeper import ZooKeeperProcess
from odradek.tests.support.security.certificates import Certificates

USER, PASSWORD = "kafka", "5ecret at ZooKeeper"
_NETTY = "org.apache.zookeeper.server.NettyServerCnxnFactory"
_SASL = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
_X509 = "org.apache.zookeeper.server.auth.X509AuthenticationProvider"


class SecureZooKeeper(ZooKeeperProcess):
    """A ZooKeeper with a port for TLS and, at its plain one, logins by DIGEST-MD5."""

    def __init__(self, directory: Path, certificates: Certificates) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        jaas = directory / "server.jaas"
        module = "org.apache.zookeeper.server.auth.DigestLoginModule"
        jaas.write_text(f'Server {{ {module} required user_{USER}="{PASSWORD}"; }};\n')
        self.certificates = certificates
        self.tls_port = free_port()
        lines = {
            "serverCnxnFactory": _NETTY,
            "secureClientPort": self.tls_port,
            "authProvider.sasl": _SASL,
            "authProvider.x509": _X509,
            "ssl.keyStore.location": certificates.with_key(certificates.broker),
            "ssl.trustStore.location": certificates.authority,
            "ssl.clientAuth": "want",
        }
        super().__init__(directory, more="".join(f"{name}={value}\n" for name, value in lines.items()), jaas=jaas)

    @property
    def tls_address(self) -> str:
        """HOST:PORT by TLS."""
        return f"localhost:{self.tls_port}"

    def client_jaas(self, password: str = PASSWORD) -> Path:
        """Return a JAAS file with a section Client, as brokers take it."""
        path = self.directory / f"client-{len(password)}.jaas"
        module = "org.apache.zookeeper.server.auth.DigestLoginModule"
        path.write_text(f'Client {{\n  {module} required\n  username="{USER}"\n  password="{password}";\n}};\n')
        return path

    def tls_configs(self) -> dict[str, str]:
        """Return the configs of a broker that shows a certificate."""
        return {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.keystore.location": str(self.certificates.with_key(self.certificates.client)),
            "zookeeper.ssl.truststore.location": str(self.certificates.authority),
        }


@contextmanager
def secure_zookeeper(directory: Path) -> Iterator[SecureZooKeeper]:
    """Yield a running ZooKeeper."""
    process = SecureZooKeeper(directory, Certificates(directory / "certificates"))
    try:
        process.start()
        yield process
    finally:
        process.kill()
