"""The secrets of a run, and the search for them in everything that it wrote."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote


@dataclass
class Secrets:
    """Texts and bytes that nothing may show, each with a name for the message of a failure."""

    known: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def add(self, name: str, secret: str | bytes) -> None:
        self.known[name] = secret.encode() if isinstance(secret, str) else secret

    def add_key(self, name: str, pem: str) -> None:
        """The private key of a PEM text: one line from its middle tells enough."""
        lines = [line for line in pem.partition("-----BEGIN CERT")[0].splitlines() if line and not line.startswith("-")]
        self.add(name, lines[len(lines) // 2])

    def add_salted(self, name: str, password: str, salt: bytes, iterations: int = 4096) -> None:
        """What SCRAM makes of a password, from which a client could log in."""
        for digest in ("sha256", "sha512"):
            salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
            self.add(f"{name}, salted by {digest}", salted)

    def found_in(self, written: Iterable[tuple[str, bytes]]) -> list[str]:
        """Return which secret is where, in each form in which it could be written."""
        forms = {name: _forms(secret) for name, secret in self.known.items()}
        return [
            f"{name} in {where}"
            for where, data in written
            for name, all_forms in forms.items()
            if any(form in data for form in all_forms)
        ]


def _forms(secret: bytes) -> set[bytes]:
    encoded = {secret, base64.b64encode(secret).rstrip(b"="), secret.hex().encode(), quote(secret).encode()}
    # As a frame of text within another: in JSON, in a repr, in a JAAS line.
    return encoded | {repr(secret)[2:-1].encode()}


def files_of(folder: Path, apart_from: Iterable[Path] = ()) -> list[tuple[str, bytes]]:
    """Return every file below a folder, but those that hold secrets by their nature."""
    left_out = set(apart_from)
    return [(str(path), path.read_bytes()) for path in folder.rglob("*") if path.is_file() and path not in left_out]
