"""What a file or a listener offers of certificates, and whether a client that trusts some authorities takes it.

Whether they are taken is tried: by a handshake with the listener, or between the file and a client in memory. So the
judge is the OpenSSL that clients use, too.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from ..broker.security import pem
from ..broker.security.certificates import CertificateError, subject_name
from ..client.core.handshakes import handshake_error
from ..client.errors import NoBrokerReachable
from .broker_address import BadAddress, split_addresses
from .errors import CliError, as_cli_error
from .health_check import REQUEST

_WITHIN_S = 10.0
# The number of that encoding in Python's module of OpenSSL.
_DER = 2
# A handshake in memory takes two turns of each side.
_MAX_TURNS = 10


@dataclass(frozen=True, slots=True)
class Described:
    """A certificate in words: its principal as ACLs have it, and times in milliseconds since 1970."""

    subject: str
    issuer: str
    names: list[str]
    begins_ms: int
    ends_ms: int
    key: str


@dataclass(frozen=True, slots=True)
class Offered:
    """The certificates of a file or a listener, the own one first, and what else is to say."""

    certificates: list[Described]
    notes: list[str]
    # Try whether a context takes them. Raises ssl.SSLError where it does not.
    attempt: Callable[[ssl.SSLContext], None] = field(repr=False)


def described(certificate: x509.Certificate) -> Described:
    """Return what a certificate says."""
    from cryptography.hazmat.primitives.serialization import Encoding

    return Described(
        subject_name(certificate.public_bytes(Encoding.DER)),
        certificate.issuer.rfc4514_string(),
        _names(certificate),
        int(certificate.not_valid_before_utc.timestamp() * 1000),
        int(certificate.not_valid_after_utc.timestamp() * 1000),
        _key_kind(certificate),
    )


def distrust(offered: Offered, trust: str) -> str | None:
    """Return why a client that trusts the authorities of a file does not take what is offered; None if it does."""
    with as_cli_error(pem.StoreError, CertificateError):
        authorities = pem.certificates(pem.read(trust), trust)
    context = ssl.create_default_context()
    try:
        context = ssl.create_default_context(cadata=authorities)
        offered.attempt(context)
    except ssl.SSLCertVerificationError as error:
        return f"{error.verify_message.rstrip('.').lower()}{_remedy(offered.certificates[-1], trust, error)}"
    except ssl.SSLError as error:
        return (error.reason or str(error)).replace("_", " ").lower()
    return None


def _remedy(last: Described, trust: str, error: ssl.SSLCertVerificationError) -> str:
    # OpenSSL's numbers for a chain without an end that is trusted.
    if error.verify_code in (2, 18, 19, 20, 21):
        return f"; {trust} lacks the certificate of {last.issuer}, or has another one of that name"
    return ""


# -- A file


def of_file(path: str) -> Offered:
    """Return what a PEM file offers. CliError if it cannot be read, or its key is that of another certificate."""
    with as_cli_error(pem.StoreError, CertificateError):
        text = pem.read(path)
        found = _parsed(lambda: x509.load_pem_x509_certificates(pem.certificates(text, path).encode()), path)
    key = _private_key(text)
    if key is not None and key != found[0].public_key():
        raise CliError(f"{path}: the private key does not belong to the first certificate")

    def attempt(context: ssl.SSLContext) -> None:
        if key is None:
            raise CliError(f"{path} has no private key that can be read, so no handshake can tell: name the listener")
        _handshake(path, context, is_client=_is_client(found[0]))

    return Offered([described(each) for each in found], [], attempt)


def _private_key(text: str) -> object | None:
    """Return the public key that belongs to the private key of a text; None where there is none without a password."""
    try:
        return load_pem_private_key(text.encode("latin-1"), None).public_key()
    except (ValueError, TypeError):
        return None


def _is_client(certificate: x509.Certificate) -> bool:
    """Return whether a certificate is for clients alone."""
    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return False
    return ExtendedKeyUsageOID.SERVER_AUTH not in usage and ExtendedKeyUsageOID.CLIENT_AUTH in usage


def _handshake(path: str, judge: ssl.SSLContext, *, is_client: bool) -> None:
    """Have a context judge the certificate of a file in a handshake in memory. Raises its ssl.SSLError."""
    authorities = judge.get_ca_certs(binary_form=True)
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT if is_client else ssl.PROTOCOL_TLS_SERVER)
    shown.load_cert_chain(path)
    if is_client:
        shown.check_hostname, shown.verify_mode = False, ssl.CERT_NONE
        judge = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        judge.load_verify_locations(cadata=b"".join(authorities))
        judge.verify_mode = ssl.CERT_REQUIRED
        # A server needs a certificate of its own.
        judge.load_cert_chain(path)
    judge.check_hostname = False
    one, other = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [judge.wrap_bio(one, other, is_client), shown.wrap_bio(other, one, not is_client)]
    for _ in range(_MAX_TURNS):
        for side in sides:
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()


# -- A listener


def of_listener(address: str) -> Offered:
    """Connect to a listener and return what it shows. CliError if it cannot be reached or has no TLS."""
    try:
        ((_, host, port),) = split_addresses(address)
    except (BadAddress, ValueError):
        raise CliError(f"{address} is no file, and no HOST:PORT") from None
    chain, notes = _look(address, host, port)
    found = _parsed(lambda: [x509.load_der_x509_certificate(each) for each in chain], address)

    def attempt(context: ssl.SSLContext) -> None:
        with _connected(address, host, port, context):
            pass

    return Offered([described(each) for each in found], notes, attempt)


def _look(address: str, host: str, port: int) -> tuple[list[bytes], list[str]]:
    """Return the chain in DER that a listener shows, and what else is to say of it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # To show a certificate it need not be trusted. Nothing secret is sent.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with _connected(address, host, port, context) as connection:
            cipher = connection.cipher()
            notes = [f"{address}: {connection.version()}, {cipher[0] if cipher else 'no cipher'}"]
            chain = _chain(connection)
            if _is_refused(connection):
                notes.append(f"{address} ends a session without a client certificate")
            return chain, notes
    except ssl.SSLError as error:
        said = handshake_error(address, error)
        raise CliError(said.message if said else str(error)) from error


@contextlib.contextmanager
def _connected(address: str, host: str, port: int, context: ssl.SSLContext) -> Generator[ssl.SSLSocket]:
    """Yield a connection with TLS. CliError where nobody answers in time; ssl.SSLError where a handshake fails."""
    try:
        with socket.create_connection((host, port), _WITHIN_S) as plain:
            with context.wrap_socket(plain, server_hostname=host) as connection:
                yield connection
    except ssl.SSLError:
        raise
    except TimeoutError:
        raise CliError(f"{address} did not answer within {_WITHIN_S:g} s: it may have no TLS") from None
    except UnicodeError:
        raise CliError(f"{address} is no file, and its host is no name") from None
    except OSError as error:
        raise CliError(NoBrokerReachable(f"{address} ({(error.strerror or str(error)).lower()})").message) from error


def _chain(connection: Any) -> list[bytes]:
    """Return the certificates that the other end showed, in DER."""
    if hasattr(connection, "get_unverified_chain"):
        return list(connection.get_unverified_chain())
    # Before Python 3.13 only the object below has the method.
    return [each.public_bytes(_DER) for each in connection._sslobj.get_unverified_chain()]


def _is_refused(connection: ssl.SSLSocket) -> bool:
    """Return whether a listener ends this session, which has no client certificate. By TLS 1.3 it does so afterwards.

    Some send the alert, some only close the connection. A listener of Kafka answers this request before a login.
    """
    try:
        connection.sendall(REQUEST)
        return not connection.recv(1)
    except ssl.SSLEOFError:
        return True
    except ssl.SSLError as error:
        return "CERTIFICATE" in (error.reason or "")
    except OSError as error:
        return not isinstance(error, TimeoutError)


def _parsed(parse: Callable[[], list[x509.Certificate]], where: str) -> list[x509.Certificate]:
    try:
        found = parse()
    except ValueError as error:
        raise CliError(f"{where}: a certificate cannot be read: {error}") from error
    if not found:
        raise CliError(f"{where} shows no certificate")
    return found


def _names(certificate: x509.Certificate) -> list[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return []
    return [str(each.value) for each in found]


def _key_kind(certificate: x509.Certificate) -> str:
    key = certificate.public_key()
    if isinstance(key, ec.EllipticCurvePublicKey):
        return f"EC {key.curve.name}"
    if isinstance(key, rsa.RSAPublicKey):
        return f"RSA {key.key_size}"
    return type(key).__name__.removesuffix("PublicKey").removeprefix("_")
