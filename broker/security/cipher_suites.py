"""Cipher suites by IANA's names, as ssl.cipher.suites has them, and by OpenSSL's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

# Python cannot choose among these before 3.15.
TLS_1_3 = {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
_EXCHANGES = {
    "ECDHE_ECDSA": "ECDHE-ECDSA-",
    "ECDHE_RSA": "ECDHE-RSA-",
    "DHE_RSA": "DHE-RSA-",
    "RSA": "",
}
# Without a name of the mode OpenSSL means CBC.
_CIPHERS = {"AES_128": "AES128-", "AES_256": "AES256-", "CHACHA20_POLY1305": "CHACHA20-POLY1305-"}


class BadSuite(Exception):
    """A cipher suite that cannot be used."""


class Suites(NamedTuple):
    """OpenSSL's names for TLS 1.2, separated by colons, and whether TLS 1.3 may be spoken."""

    names: str
    allows_tls_1_3: bool


def openssl_names(suites: Iterable[str]) -> Suites:
    """Return OpenSSL's names of these suites. Raises BadSuite."""
    wanted = {name.strip().upper() for name in suites}
    of_1_3 = wanted & TLS_1_3
    if of_1_3 and of_1_3 != TLS_1_3:
        raise BadSuite(f"{min(of_1_3)} cannot be chosen alone: name all of {', '.join(sorted(TLS_1_3))}, or none")
    return Suites(":".join(_openssl_name(name) for name in sorted(wanted - TLS_1_3)), bool(of_1_3))


def _openssl_name(name: str) -> str:
    exchange, _, rest = name.removeprefix("TLS_").partition("_WITH_")
    for cipher, short in _CIPHERS.items():
        if rest.startswith(cipher + "_") and exchange in _EXCHANGES:
            tail = rest.removeprefix(cipher + "_").removeprefix("CBC_").replace("_", "-")
            tail = "" if cipher == "CHACHA20_POLY1305" else tail
            return _EXCHANGES[exchange] + (short + tail).rstrip("-")
    raise BadSuite(f"{name} is not a cipher suite that is known here")
