"""A certificate authority in a folder, for brokers of one machine or team. Needs cryptography."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_AUTHORITY_DAYS = 3650
_CERTIFICATE_DAYS = 397
# A start makes the certificate again from then on before it expires.
_RENEWED_DAYS = 30


class BadAuthority(Exception):
    """The files of an authority cannot be used."""


class Authority:
    """A key and a certificate that sign others."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate

    @classmethod
    def open(cls, folder: Path) -> Authority:
        """Read the authority of a folder, or make one. OSError, ValueError or BadAuthority where that fails."""
        key_file, file = folder / "ca.key", folder / "ca.pem"
        if key_file.exists() and file.exists():
            key = load_pem_private_key(key_file.read_bytes(), None)
            if not isinstance(key, ec.EllipticCurvePrivateKey):
                raise BadAuthority(f"{key_file} has another kind of key")
            return cls(key, x509.load_pem_x509_certificate(file.read_bytes()))
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Odradek authority")])
        builder = _builder(name, name, key.public_key(), _AUTHORITY_DAYS)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        certificate = builder.sign(key, hashes.SHA256())
        write_secret(key_file, _pem(key))
        file.write_bytes(certificate.public_bytes(Encoding.PEM))
        return cls(key, certificate)

    def keep_certificate(self, path: Path, names: Sequence[str]) -> None:
        """Make a key store for these names, unless there is one that has them and does not expire soon."""
        if path.exists() and _is_good(x509.load_pem_x509_certificate(path.read_bytes()), names):
            return
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Odradek broker")])
        builder = _builder(subject, self._certificate.subject, key.public_key(), _CERTIFICATE_DAYS)
        builder = builder.add_extension(_alternatives(names), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = builder.add_extension(issuer, critical=False).sign(self._key, hashes.SHA256())
        write_secret(path, _pem(key) + certificate.public_bytes(Encoding.PEM))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key)
    builder = x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
    # An hour earlier, for clients whose clock is behind.
    builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=days))
    return builder.add_extension(identifier, critical=False)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _alternatives(names: Sequence[str]) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([_general_name(name) for name in names])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _is_good(certificate: x509.Certificate, names: Sequence[str]) -> bool:
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    is_fresh = certificate.not_valid_after_utc > datetime.now(UTC) + timedelta(days=_RENEWED_DAYS)
    return is_fresh and set(_alternatives(names)) <= set(found)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def write_secret(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    temporary = path.with_suffix(".new")
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
    temporary.rename(path)
