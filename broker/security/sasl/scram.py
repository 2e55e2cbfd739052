"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), without channel binding, in Kafka's grammar.

The broker keeps a salt and two keys of a password, from which nobody gets the password or can log in. As in Kafka,
names are ASCII and passwords are not prepared. Unlike in Kafka, an unknown user gets a salt and iterations as a real
user has them, which stay the same for the name, and fails where a wrong password does: nobody can find out which users
there are.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from itertools import islice
from typing import NamedTuple

from ....protocol.sasl import SCRAM_HASHES as HASHES
from .exchange import Exchange, Failed, Identity, shown

MIN_ITERATIONS, MAX_ITERATIONS = 4_096, 16_384

# All have a bound: the event loop stands still while a message is read, and it may come from anybody. Those of clients
# have some hundred bytes.
MAX_MESSAGE_BYTES = 16_384
_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D){1,1000}"
_EXTENSIONS = r"(?:,[A-Za-z]+=[\x01-\x2b\x2d-\x7f]+){0,100}"
_FIRST = re.compile(rf"n,(?:a=({_NAME}))?,((?:m=[^,]+,)?n=({_NAME}),r=([\x21-\x2b\x2d-\x7e]+)({_EXTENSIONS}))")
_FINAL = re.compile(rf"(c=([A-Za-z0-9+/=]*),r=([\x21-\x2b\x2d-\x7e]+){_EXTENSIONS}),p=([A-Za-z0-9+/=]+)")
# The broker's part of a nonce, before base64.
_NONCE_BYTES = 24


class Credential(NamedTuple):
    """What the broker keeps of a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


def credential_of(mechanism: str, salted_password: bytes, salt: bytes, iterations: int) -> Credential:
    """Return what is kept of a password that was salted (AlterUserScramCredentials)."""
    name = HASHES[mechanism]
    client_key = hmac.digest(salted_password, b"Client Key", name)
    server_key = hmac.digest(salted_password, b"Server Key", name)
    return Credential(salt, hashlib.new(name, client_key).digest(), server_key, iterations)


class Strangers:
    """Credentials of users that there are not. They are always the same for a name, and look as those of real ones.

    The secret is that of all brokers of a cluster, and stays after a restart: a salt that changes would tell.
    """

    def __init__(
        self, secret: bytes, passwords: Mapping[str, Mapping[str, Credential]], now_ms: Callable[[], int] = int
    ) -> None:
        """`passwords` are those that there are, by user and mechanism. `now_ms` says when they are looked at again."""
        self._secret = secret
        self._passwords = passwords
        self._now_ms = now_ms
        # By mechanism, and when they were found.
        self._forms: dict[str, set[_Form]] = {}
        self._found_ms = -_FORMS_MS

    def credential(self, mechanism: str, user: str) -> Credential:
        """Return what is kept of no password."""
        form = self._form(mechanism, user)
        size = hashlib.new(HASHES[mechanism]).digest_size
        salt = self._bytes(f"{mechanism}:{user}:salt", form.salt_bytes)
        if form.is_text:
            salt = bytes(_SALT_LETTERS[each % len(_SALT_LETTERS)] for each in salt)
        return Credential(salt, secrets.token_bytes(size), bytes(size), form.iterations)

    def _form(self, mechanism: str, user: str) -> _Form:
        """Return the form of one of the real credentials. It changes with the forms alone, not with each password."""
        now_ms = self._now_ms()
        if now_ms - self._found_ms >= _FORMS_MS:
            self._forms, self._found_ms = _forms_of(self._passwords), now_ms
        forms = self._forms.get(mechanism) or {_OUR_FORM}
        return max(forms, key=lambda form: self._bytes(f"{mechanism}:{user}:{form}", 8))

    def _bytes(self, what: str, size: int) -> bytes:
        return hashlib.shake_256(self._secret + what.encode()).digest(size)


class _Form(NamedTuple):
    """What everybody is told of a credential, but for its bytes."""

    salt_bytes: int
    # Kafka's own tools make salts of letters and digits.
    is_text: bool
    iterations: int


# What `odradek users set` makes.
_OUR_FORM = _Form(24, False, MIN_ITERATIONS)
_SALT_LETTERS = b"0123456789abcdefghijklmnopqrstuvwxyz"
# Users whose forms are looked at, and how often: few forms are common, and a login holds the loop meanwhile.
_MAX_FORMS_OF = 1_000
_FORMS_MS = 10_000


def _forms_of(passwords: Mapping[str, Mapping[str, Credential]]) -> dict[str, set[_Form]]:
    """Return the forms of credentials by their mechanism."""
    found: dict[str, set[_Form]] = {}
    for each in islice(passwords.values(), _MAX_FORMS_OF):
        for mechanism, credential in each.items():
            found.setdefault(mechanism, set()).add(_form_of(credential))
    return found


def _form_of(credential: Credential) -> _Form:
    is_text = bool(credential.salt) and not credential.salt.strip(_SALT_LETTERS)
    return _Form(len(credential.salt), is_text, max(credential.iterations, MIN_ITERATIONS))


def scram(
    first: bytes,
    mechanism: str,
    find: Callable[[str], Credential | None],
    strangers: Strangers,
    nonce: str | None = None,
) -> Exchange:
    """Check that a client knows a password, and prove that the broker knows it too. `nonce` is for tests."""
    match = _FIRST.fullmatch(_text(first))
    if match is None:
        raise Failed("the client's first SCRAM message cannot be read")
    asked, bare, name, client_nonce, extensions = match.groups()
    user = name.replace("=2C", ",").replace("=3D", "=")
    if asked is not None and asked != name:
        raise Failed(f"user {shown(user)} asks to be another")
    # The name is then the id of a delegation token, and no user's. There are no tokens.
    is_token = "tokenauth=true" in extensions.lower().split(",")
    found = None if is_token else find(user)
    # It is made for everybody, so that the time that it takes tells nothing. Neither does the salt of a token's id,
    # which is another than that of a user of this name.
    stranger = strangers.credential(mechanism, f"\0token:{user}" if is_token else user)
    credential = found or stranger
    if credential.iterations < MIN_ITERATIONS:
        raise Failed(f"user {shown(user)}: fewer than {MIN_ITERATIONS} iterations are stored")
    both = client_nonce + (nonce or secrets.token_urlsafe(_NONCE_BYTES))
    salt = base64.b64encode(credential.salt).decode()
    server_first = f"r={both},s={salt},i={credential.iterations}"
    final = _FINAL.fullmatch(_text((yield server_first.encode())))
    # librdkafka before 2.6 writes its nonce twice. Both nonces are there, and the proof covers the broker's message.
    if final is None or final[3] not in (both, client_nonce + both):
        raise Failed(f"user {shown(user)}: the client's last SCRAM message does not answer the broker's")
    _check_binding(final[2], asked, user)
    said = f"{bare},{server_first},{final[1]}".encode()
    is_right = _is_proof(HASHES[mechanism], credential, said, final[4])
    # A password that was deleted or replaced meanwhile lets nobody in.
    if not is_right or found is None or find(user) != found:
        raise Failed(f"user {shown(user)}: wrong name or password")
    signature = hmac.digest(credential.server_key, said, HASHES[mechanism])
    return Identity(user, b"v=" + base64.b64encode(signature))


def _text(message: bytes) -> str:
    if len(message) > MAX_MESSAGE_BYTES:
        raise Failed(f"a SCRAM message of {len(message)} bytes")
    try:
        return message.decode("ascii")
    except UnicodeDecodeError:
        raise Failed("a SCRAM message that is not ASCII") from None


def _check_binding(binding: str, asked: str | None, user: str) -> None:
    expected = f"n,{'' if asked is None else 'a=' + asked},".encode()
    if binding != base64.b64encode(expected).decode():
        raise Failed(f"user {shown(user)}: the client asks for channel binding")


def _is_proof(name: str, credential: Credential, said: bytes, proof_text: str) -> bool:
    try:
        proof = base64.b64decode(proof_text, validate=True)
    except binascii.Error:
        return False
    signature = hmac.digest(credential.stored_key, said, name)
    if len(proof) != len(signature):
        return False
    client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
    return hmac.compare_digest(hashlib.new(name, client_key).digest(), credential.stored_key)
