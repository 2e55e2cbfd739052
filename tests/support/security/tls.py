"""Certificates made in memory (trustme), a broker with a TLS listener, and clients of it."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import trustme
from odradek.broker import BrokerConfig
from odradek.tests.support.clients.raw import Raw


def pem_of(certificate: trustme.LeafCert) -> str:
    """The key and the chain of a certificate, as one PEM text."""
    return certificate.private_key_and_cert_chain_pem.bytes().decode()


class Authority:
    """A certificate authority with a folder for what it issues."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = trustme.CA()
        self.path = folder / "ca.pem"
        self.path.write_bytes(self.ca.cert_pem.bytes())

    @property
    def text(self) -> str:
        return self.path.read_text()

    def store(self, name: str = "broker.pem", *names: str) -> Path:
        """A PEM key store of a certificate for localhost and 127.0.0.1, or for other names."""
        path = self.folder / name
        made = self.ca.issue_cert(*(names or ("localhost", "127.0.0.1")), organization_unit_name="broker")
        path.write_text(pem_of(made))
        return path

    def context(self, client: trustme.LeafCert | None = None) -> ssl.SSLContext:
        """What a client uses that trusts the authority and may have a certificate of its own."""
        context = ssl.create_default_context(cadata=self.text)
        if client is not None:
            client.configure_cert(context)
        return context


def tls_config(config: BrokerConfig, authority: Authority, **configs: Any) -> BrokerConfig:
    """A config with the listener TLS besides the plain one."""
    return replace(
        config,
        listeners=("PLAINTEXT://127.0.0.1:0", "TLS://127.0.0.1:0"),
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,TLS:SSL",
        **{
            "ssl_keystore_type": "PEM",
            "ssl_keystore_location": str(authority.store()),
            "ssl_truststore_type": "PEM",
            "ssl_truststore_location": str(authority.path),
            **configs,
        },
    )


async def connect(address: str, context: ssl.SSLContext) -> Raw:
    """Connect by TLS."""
    return await Raw.connect(address, ssl=context)
