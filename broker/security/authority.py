"""A certificate authority in a folder, for the brokers and clients of one machine or team. Needs cryptography."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 397
# A start makes the certificate again from then on before it expires.
_RENEWED_DAYS = 30


class BadAuthority(Exception):
    """The files of an authority cannot be used, or do not allow what is asked for."""


class Authority:
    """A key and a certificate that sign others."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self.certificate = certificate

    @classmethod
    def open(cls, folder: Path) -> Authority:
        """Read the authority of a folder, or make one. OSError, ValueError or BadAuthority where that fails."""
        if (folder / "ca.key").exists() and (folder / "ca.pem").exists():
            return cls.read(folder)
        return cls._make(folder, "Odradek authority", AUTHORITY_DAYS, write_secret)

    @classmethod
    def read(cls, folder: Path, password: bytes | None = None) -> Authority:
        """Read the authority of a folder. OSError, ValueError or BadAuthority where that fails.

        `password` is that of its key; None: it has none.
        """
        key_file, file = folder / "ca.key", folder / "ca.pem"
        key = _read_key(key_file, password)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise BadAuthority(f"{key_file} has another kind of key")
        certificate = x509.load_pem_x509_certificate(file.read_bytes())
        if certificate.public_key() != key.public_key():
            raise BadAuthority(f"{key_file} is not the key of {file}")
        return cls(key, certificate)

    @classmethod
    def make(cls, folder: Path, name: str, days: int = AUTHORITY_DAYS, password: bytes | None = None) -> Authority:
        """Make an authority in a folder that has none. OSError (FileExistsError where it has) or ValueError.

        `password` encrypts its key.
        """
        if (folder / "ca.pem").exists():
            raise FileExistsError(errno.EEXIST, "exists", str(folder / "ca.pem"))
        return cls._make(folder, name, days, write_new_secret, password)

    @classmethod
    def _make(
        cls, folder: Path, name: str, days: int, write: Callable[[Path, bytes], None], password: bytes | None = None
    ) -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _common_name(name)
        builder = _builder(subject, subject, key.public_key(), days)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        certificate = builder.sign(key, hashes.SHA256())
        write(folder / "ca.key", _pem(key, password))
        _write_beside(folder / "ca.pem", certificate.public_bytes(Encoding.PEM), 0o644).rename(folder / "ca.pem")
        return cls(key, certificate)

    def keep_certificate(self, path: Path, names: Sequence[str]) -> None:
        """Make a key store for these names, unless there is one that has them and does not expire soon.

        OSError, ValueError or BadAuthority where that fails.
        """
        if path.exists() and _is_good(x509.load_pem_x509_certificate(path.read_bytes()), names):
            return
        left = self.certificate.not_valid_after_utc - datetime.now(UTC)
        days = max(1, min(CERTIFICATE_DAYS, left.days))
        key, certificate = self._sign("Odradek broker", names, days, [ExtendedKeyUsageOID.SERVER_AUTH])
        write_secret(path, _pem(key) + certificate.public_bytes(Encoding.PEM))

    def make_server(self, path: Path, names: Sequence[str], days: int = CERTIFICATE_DAYS) -> x509.Certificate:
        """Make the key store of a broker with these names. FileExistsError, ValueError or BadAuthority if it cannot be.

        A broker shows the same certificate where it is the client: to the other brokers of its cluster.
        """
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        return self._make_store(path, names[0], names, days, usages)

    def make_client(self, path: Path, name: str, days: int = CERTIFICATE_DAYS) -> x509.Certificate:
        """Make the key store of a client, whose principal is User:CN=name. Errors are those of `make_server`."""
        return self._make_store(path, name, (), days, [ExtendedKeyUsageOID.CLIENT_AUTH])

    def _make_store(
        self, path: Path, name: str, names: Sequence[str], days: int, usages: list[x509.ObjectIdentifier]
    ) -> x509.Certificate:
        key, certificate = self._sign(name, names, days, usages)
        write_new_secret(path, _pem(key) + certificate.public_bytes(Encoding.PEM))
        return certificate

    def _sign(
        self, name: str, names: Sequence[str], days: int, usages: list[x509.ObjectIdentifier]
    ) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
        """Return a new key with its certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_common_name(name), self.certificate.subject, key.public_key(), days)
        if names:
            builder = builder.add_extension(_alternatives(names), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = builder.add_extension(issuer, critical=False).sign(self._key, hashes.SHA256())
        ends = self.certificate.not_valid_after_utc
        if certificate.not_valid_after_utc > ends:
            raise BadAuthority(f"the authority itself ends on {ends:%Y-%m-%d}: ask for fewer days")
        return key, certificate


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


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
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    is_fresh = certificate.not_valid_after_utc > datetime.now(UTC) + timedelta(days=_RENEWED_DAYS)
    return is_fresh and set(_alternatives(names)) <= set(found)


def _pem(key: ec.EllipticCurvePrivateKey, password: bytes | None = None) -> bytes:
    encryption = NoEncryption() if password is None else BestAvailableEncryption(password)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def _read_key(file: Path, password: bytes | None) -> PrivateKeyTypes:
    """Read a private key. OSError, ValueError or BadAuthority where that fails."""
    data = file.read_bytes()
    try:
        return load_pem_private_key(data, password)
    except TypeError as error:
        why = "is encrypted, and no password was given" if password is None else "is not encrypted: give no password"
        raise BadAuthority(f"{file} {why}") from error
    except ValueError as error:
        if password is None:
            raise
        raise BadAuthority(f"{file} cannot be read with this password") from error


def write_secret(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    _write_beside(path, data, 0o600).rename(path)


def write_new_secret(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read, whole or not at all. FileExistsError where there is one already."""
    temporary = _write_beside(path, data, 0o600)
    try:
        # Unlike a rename, a link replaces nothing.
        os.link(temporary, path)
    except FileExistsError:
        raise FileExistsError(errno.EEXIST, "exists", str(path)) from None
    finally:
        temporary.unlink()


def _write_beside(path: Path, data: bytes, mode: int) -> Path:
    """Write a file that is to get this path. Its own name is new: another process may write to the same path."""
    fd, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    with open(fd, "wb") as file:
        os.fchmod(fd, mode)
        file.write(data)
    return Path(name)
