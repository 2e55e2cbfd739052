"""Certificates for tests, which openssl makes: an authority, a broker for localhost and 127.0.0.1, and a client."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest


class Certificates:
    """PEM files in a folder. Skips the test where openssl is missing."""

    def __init__(
        self, folder: Path, names: str = "DNS:localhost,IP:127.0.0.1", days: int = 2, strict: bool = True
    ) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("openssl makes the certificates, and it is not installed")
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.authority = folder / "ca.pem"
        # Python 3.13 wants the extensions of RFC 5280; many certificates lack them.
        usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign") if strict else ()
        self._run("req", "-x509", *self._new_key("ca"), "-out", self.authority, "-subj", "/CN=ca", "-days", "2", *usage)
        self.broker = self._sign("broker", names, days)
        self.client = self._sign("client", "DNS:client", 2)

    def key(self, certificate: Path) -> Path:
        return certificate.with_suffix(".key")

    def with_key(self, certificate: Path) -> Path:
        """A file with the certificate and its key, as Kafka's brokers want it."""
        both = certificate.with_suffix(".both.pem")
        both.write_text(self.key(certificate).read_text() + certificate.read_text())
        return both

    def server_context(self, needs_client: bool = False) -> ssl.SSLContext:
        """What a broker with these certificates uses."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.authority))
        context.load_cert_chain(self.broker, self.key(self.broker))
        context.verify_mode = ssl.CERT_REQUIRED if needs_client else ssl.CERT_NONE
        return context

    def _new_key(self, name: str) -> list[str]:
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key"]

    def _sign(self, name: str, names: str, days: int) -> Path:
        certificate, request, extensions = (self.folder / f"{name}.{end}" for end in ("pem", "csr", "ext"))
        extensions.write_text(f"subjectAltName={names}\nauthorityKeyIdentifier=keyid\n")
        self._run("req", *self._new_key(name), "-out", request, "-subj", f"/CN={name}")
        self._run(
            *("x509", "-req", "-in", request, "-CA", self.authority, "-CAkey", "ca.key", "-CAcreateserial"),
            *("-out", certificate, "-days", str(days), "-extfile", extensions),
        )
        return certificate

    def _run(self, *arguments: str | Path) -> None:
        subprocess.run(["openssl", *map(str, arguments)], cwd=self.folder, check=True, capture_output=True)
