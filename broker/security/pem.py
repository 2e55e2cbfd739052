"""PEM: the keys and certificates of a text, checked so that an error says what is wrong and what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

# Enough for a trust store of hundreds of certificates.
MAX_PEM_BYTES = 1024 * 1024

# Between the lines five hyphens do not occur, so that no text is searched twice. No group is possessive: Python 3.11.2
# matches those wrongly.
_SECTION = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----[^-]*(?:-(?!----)[^-]*)*-----END \1-----")
# How other stores begin: Java's own, and PKCS12, which is DER.
_JKS, _DER = b"\xfe\xed\xfe\xed", b"\x30\x82"
_CONVERT = "openssl pkcs12 -in {path} -nodes -out {path}.pem"
_CONVERT_JKS = "keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12 -deststoretype pkcs12, then "


class StoreError(Exception):
    """A key store or trust store cannot be used: why, and what to do."""


class KeyStore(NamedTuple):
    """A private key and its certificate chain, as PEM."""

    key: str
    chain: str


def check_type(config: str, kind: str, location: str | None) -> None:
    """Raise StoreError unless a store is of type PEM, with the command that makes it one."""
    if kind.strip().upper() == "PEM":
        return
    name = location or "STORE"
    convert = (_CONVERT_JKS if kind.strip().upper() != "PKCS12" else "") + _CONVERT
    given = location or "the store"
    raise StoreError(
        f"{config}={kind}: only PEM can be read. If {given} is PEM, set {config}=PEM; "
        f"else convert it: {convert.replace('{path}', name)}"
    )


def read(path: str) -> str:
    """Return the text of a PEM file. Raises StoreError, also for another kind of store."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_PEM_BYTES + 1)
    except OSError as error:
        raise StoreError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    if data.startswith(_JKS):
        check_type("ssl.keystore.type", "JKS", path)
    if data.startswith(_DER):
        check_type("ssl.keystore.type", "PKCS12", path)
    return data.decode("latin-1")


def key_store(text: str, where: str) -> KeyStore:
    """Return the one private key of a text and its certificates. Raises StoreError."""
    sections = _sections(text, where)
    keys = [section for label, section in sections if label.endswith("PRIVATE KEY")]
    if len(keys) != 1:
        raise StoreError(f"{where}: has {len(keys)} private keys (BEGIN PRIVATE KEY), and one is needed")
    chain = [section for label, section in sections if label == "CERTIFICATE"]
    if not chain:
        raise StoreError(f"{where}: has no certificate (BEGIN CERTIFICATE); it follows the key in the same file")
    return KeyStore(keys[0] + "\n", "\n".join(chain) + "\n")


def certificates(text: str, where: str) -> str:
    """Return the certificates of a text. StoreError where it has none."""
    found = [section for label, section in _sections(text, where) if label == "CERTIFICATE"]
    if not found:
        raise StoreError(f"{where}: has no certificate (BEGIN CERTIFICATE)")
    return "\n".join(found) + "\n"


def _sections(text: str, where: str) -> list[tuple[str, str]]:
    """Return the sections of a text, each with its label."""
    if len(text) > MAX_PEM_BYTES:
        raise StoreError(f"{where}: is over {MAX_PEM_BYTES >> 10} KiB, so it is not a PEM store")
    sections = [(match[1], match[0]) for match in _SECTION.finditer(text)]
    if not all(section.isascii() for _, section in sections):
        raise StoreError(f"{where}: a section has letters that PEM does not have")
    return sections
