"""TLS of one listener: its context, made again when a config or a file behind it has changed.

A connection keeps the context with which it began; a new certificate is for later ones. What replaces a certificate is
checked as in Kafka: the distinguished name stays, and no alternative name is lost, unless `ssl.allow.dn.changes` and
`ssl.allow.san.changes` allow it.

OpenSSL reads keys from files only, so it gets a file in memory, and an inline key is not written to a disk.
"""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Generator, Iterable
from typing import NamedTuple

from ...storage.system_calls import memory_file
from ..configs.listener_config import ListenerConfig
from . import pem
from .certificates import CertificateError, alternative_names, subject_name
from .pem import KeyStore, StoreError

# Python cannot choose among these before 3.15.
TLS_1_3 = {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
_EXCHANGES = {"ECDHE_ECDSA": "ECDHE-ECDSA-", "ECDHE_RSA": "ECDHE-RSA-", "DHE_RSA": "DHE-RSA-", "RSA": ""}
# Without a name of the mode OpenSSL means CBC.
_CIPHERS = {"AES_128": "AES128-", "AES_256": "AES256-", "CHACHA20_POLY1305": "CHACHA20-POLY1305-"}
_END = "-----END CERTIFICATE-----\n"


class BadSuite(Exception):
    """A cipher suite that cannot be used."""


def openssl_names(suites: Iterable[str]) -> tuple[str, set[ssl.TLSVersion]]:
    """Return OpenSSL's names of those for TLS 1.2, separated by colons, and the versions that have any suite.

    Raises BadSuite.
    """
    wanted = {name.strip().upper() for name in suites}
    of_1_3 = wanted & TLS_1_3
    if of_1_3 and of_1_3 != TLS_1_3:
        raise BadSuite(f"{min(of_1_3)} cannot be chosen alone: name all of {', '.join(sorted(TLS_1_3))}, or none")
    versions = {ssl.TLSVersion.TLSv1_3 if name in TLS_1_3 else ssl.TLSVersion.TLSv1_2 for name in wanted}
    return ":".join(_openssl_name(name) for name in sorted(wanted - TLS_1_3)), versions


def _openssl_name(name: str) -> str:
    exchange, _, rest = name.removeprefix("TLS_").partition("_WITH_")
    for cipher, short in _CIPHERS.items():
        if rest.startswith(cipher + "_") and exchange in _EXCHANGES:
            tail = rest.removeprefix(cipher + "_").removeprefix("CBC_").replace("_", "-")
            tail = "" if cipher == "CHACHA20_POLY1305" else tail
            return _EXCHANGES[exchange] + (short + tail).rstrip("-")
    raise BadSuite(f"{name} is not a cipher suite that is known here")


_VERIFY = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

# What tells that a file was replaced.
Stamp = tuple[int, int, int]


class Loaded(NamedTuple):
    """A context, with the broker's certificate in DER and the state of the files that it was read from."""

    context: ssl.SSLContext
    certificate: bytes
    stamps: tuple[Stamp | None, ...]


def load(config: ListenerConfig) -> Loaded:
    """Read the stores of a listener and make its context. Raises StoreError, without anything secret."""
    # Before the files are read: one that changes meanwhile is read again.
    stamps = stamp(config)
    store = _key_store(config)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = _VERIFY[config.ssl_client_auth]
    _load_stores(context, config, store)
    try:
        certificate = ssl.PEM_cert_to_DER_cert(store.chain.partition("-----END CERTIFICATE-----")[0] + _END)
        subject_name(certificate)
    except (CertificateError, ValueError) as error:
        raise StoreError(f"ssl.keystore: the first certificate cannot be read: {error}") from None
    return Loaded(context, certificate, stamps)


def load_outgoing(config: ListenerConfig) -> ssl.SSLContext:
    """Return the context by which this broker connects to others. It shows its own certificate. Raises StoreError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = bool(config.ssl_endpoint_identification_algorithm)
    # ZooKeeper may ask for no certificate.
    has_key = config.ssl_keystore_location or config.ssl_keystore_key
    _load_stores(context, config, _key_store(config) if has_key else None, ssl.Purpose.SERVER_AUTH)
    return context


def _load_stores(
    context: ssl.SSLContext,
    config: ListenerConfig,
    store: KeyStore | None,
    peers: ssl.Purpose = ssl.Purpose.CLIENT_AUTH,
) -> None:
    """Set the versions, the key and the trusted certificates.

    Without certificates of its own, a context that checks those of its peers trusts what the system trusts.
    """
    _set_protocols(context, config)
    trusted = _trusted(config)
    try:
        if store is not None:
            _load_key(context, store, config.ssl_key_password or "")
        if trusted is not None:
            context.load_verify_locations(cadata=trusted)
        elif context.verify_mode is not ssl.CERT_NONE:
            context.load_default_certs(peers)
    except ssl.SSLError as error:
        raise StoreError(_words(error, config, store is not None and "ENCRYPTED" in store.key)) from None


def check_replacement(before: bytes, after: bytes, config: ListenerConfig) -> None:
    """Raise StoreError where a certificate may not replace another. The texts are Kafka's."""
    old, new = subject_name(before), subject_name(after)
    if old != new and not config.ssl_allow_dn_changes:
        raise StoreError(f"Keystore DistinguishedName does not match: existing={old}, new={new}")
    if not config.ssl_allow_san_changes and not alternative_names(before) <= alternative_names(after):
        raise StoreError("Keystore SubjectAltNames do not match: the new certificate lacks names of the existing one")


def stamp(config: ListenerConfig) -> tuple[Stamp | None, ...]:
    """Return the state of the files of a listener's stores."""
    return tuple(_stamp(each) for each in (config.ssl_keystore_location, config.ssl_truststore_location) if each)


def _stamp(path: str) -> Stamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None  # reading it says what is wrong
    return found.st_mtime_ns, found.st_size, found.st_ino


def _key_store(config: ListenerConfig) -> KeyStore:
    key, chain, path = config.ssl_keystore_key, config.ssl_keystore_certificate_chain, config.ssl_keystore_location
    if path is None and key is None and chain is None:
        raise StoreError(
            "a listener with TLS needs a certificate: set ssl.keystore.type=PEM and ssl.keystore.location "
            "(odradek serve --secure makes one)"
        )
    pem.check_type("ssl.keystore.type", config.ssl_keystore_type, path)
    if config.ssl_keystore_password is not None:
        raise StoreError("ssl.keystore.password cannot be used with PEM, only ssl.key.password")
    if path is not None:
        if key is not None or chain is not None:
            raise StoreError("ssl.keystore.location and ssl.keystore.key exclude each other")
        return pem.key_store(pem.read(path), path)
    if key is None or chain is None:
        raise StoreError("ssl.keystore.key and ssl.keystore.certificate.chain must be set together")
    return pem.key_store(key + "\n" + chain, "ssl.keystore.key and ssl.keystore.certificate.chain")


def _load_key(context: ssl.SSLContext, store: KeyStore, password: str) -> None:
    with _file(store.chain) as chain, _file(store.key) as key:
        try:
            # Without a password OpenSSL would ask the terminal for one.
            context.load_cert_chain(chain, key, lambda: password)
        except ValueError as error:
            raise StoreError(f"ssl.key.password: {error}") from None


@contextlib.contextmanager
def _file(text: str) -> Generator[str]:
    """Yield the path of a file in memory."""
    fd, path = memory_file(text.encode("latin-1", "replace"))
    try:
        yield path
    finally:
        os.close(fd)


def _trusted(config: ListenerConfig) -> str | None:
    """Return the certificates of the trust store; None where there is none."""
    text, path = config.ssl_truststore_certificates, config.ssl_truststore_location
    if text is not None and path is not None:
        raise StoreError("ssl.truststore.location and ssl.truststore.certificates exclude each other")
    if config.ssl_truststore_password is not None:
        raise StoreError("ssl.truststore.password cannot be used with PEM")
    if path is None and text is None:
        return None
    pem.check_type("ssl.truststore.type", config.ssl_truststore_type, path)
    return pem.certificates(text or pem.read(path or ""), path or "ssl.truststore.certificates")


def _set_protocols(context: ssl.SSLContext, config: ListenerConfig) -> None:
    versions = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
    allowed = {versions[name] for name in config.ssl_enabled_protocols}
    if config.ssl_cipher_suites:
        try:
            names, versions_of_suites = openssl_names(config.ssl_cipher_suites)
            allowed &= versions_of_suites
            if names:
                context.set_ciphers(names)
        except BadSuite as error:
            raise StoreError(f"ssl.cipher.suites: {error}") from None
        except ssl.SSLError:
            raise StoreError("ssl.cipher.suites: OpenSSL has none of them") from None
    if not allowed:
        raise StoreError("ssl.enabled.protocols and ssl.cipher.suites leave no version of TLS")
    context.minimum_version, context.maximum_version = min(allowed), max(allowed)
    context.options |= ssl.OP_NO_RENEGOTIATION


def _words(error: ssl.SSLError, config: ListenerConfig, is_encrypted: bool) -> str:
    """Return what is wrong with a store. OpenSSL's own words name no secret."""
    where, reason = config.ssl_keystore_location or "ssl.keystore.key", error.reason or ""
    if reason == "KEY_VALUES_MISMATCH":
        return f"{where}: the private key does not belong to the first certificate of the chain"
    if is_encrypted:
        return f"{where}: the private key cannot be decrypted: set ssl.key.password to its password"
    return (
        f"{where}: {reason.replace('_', ' ').lower() or 'cannot be read'} (a private key and its certificates as PEM)"
    )
