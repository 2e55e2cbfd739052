"""SASL of a fake cluster: a broker that checks passwords and tokens, and ends sessions.

    cluster = FakeCluster({"t": 1})
    sasl = FakeSasl(cluster, users={"alice": "secret"}, lifetime_ms=1000)

The broker's side of SCRAM is written here from RFC 5802, without code of the client.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Generator
from typing import Any

from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from odradek.protocol.messages.sasl_handshake import SaslHandshakeResponse

from .wire import Call, HangUp, Wire

# A broker's side of a mechanism: takes tokens, yields answers, ends with whether the client is in and the last token.
Server = Generator[bytes, bytes, tuple[bool, bytes]]


class FakeSasl:
    """Which users and tokens a cluster lets in, by which mechanisms, and for how long."""

    def __init__(
        self,
        cluster: Wire,
        *,
        users: dict[str, str] | None = None,
        tokens: set[str] | None = None,
        mechanisms: tuple[str, ...] = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
        lifetime_ms: int = 0,
    ) -> None:
        self.users = users or {}
        self.tokens = tokens or set()
        self.mechanisms = mechanisms
        self.lifetime_ms = lifetime_ms
        self.authentications = 0
        # By connection: the exchange under way, and those that are in.
        self._exchanges: dict[object, Server] = {}
        self._inside: set[object] = set()
        cluster.refuses = self.refuses
        cluster.defaults[ApiKey.SASL_HANDSHAKE] = self._handshake
        cluster.defaults[ApiKey.SASL_AUTHENTICATE] = self._authenticate

    def refuses(self, call: Call) -> bool:
        """Whether a broker would hang up at this request, because its connection is not authenticated."""
        sasl = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
        return call.key not in sasl and (call.peer not in self._inside or call.peer in self._exchanges)

    async def _handshake(self, call: Call) -> Any:
        mechanism = call.request.mechanism
        if mechanism not in self.mechanisms:
            return SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, list(self.mechanisms))
        server = self._server(mechanism)
        next(server)
        self._exchanges[call.peer] = server
        return SaslHandshakeResponse(0, list(self.mechanisms))

    async def _authenticate(self, call: Call) -> Any:
        server = self._exchanges.get(call.peer)
        if server is None:
            return HangUp()
        try:
            return SaslAuthenticateResponse(auth_bytes=server.send(call.request.auth_bytes))
        except StopIteration as ended:
            del self._exchanges[call.peer]
            inside, last = ended.value
        if not inside:
            self._inside.discard(call.peer)
            return SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, "wrong credentials")
        self._inside.add(call.peer)
        self.authentications += 1
        return SaslAuthenticateResponse(auth_bytes=last, session_lifetime_ms=self.lifetime_ms)

    def _server(self, mechanism: str) -> Server:
        if mechanism == "PLAIN":
            return self._plain()
        return self._bearer() if mechanism == "OAUTHBEARER" else self._scram(mechanism.partition("-")[2])

    def _plain(self) -> Server:
        _, name, password = (yield b"").decode().split("\0")
        return self.users.get(name) == password, b""

    def _bearer(self) -> Server:
        said = (yield b"").decode()
        token = said.split("\x01")[1].removeprefix("auth=Bearer ")
        if token in self.tokens:
            return True, b""
        assert (yield json.dumps({"status": "invalid_token"}).encode()) == b"\x01"
        return False, b""

    def _scram(self, name: str) -> Server:
        hash_name = name.replace("-", "").lower()
        first = (yield b"").decode().removeprefix("n,,")
        user, nonce = (part.split("=", 1)[1] for part in first.split(","))
        salt = b"salt of a test"
        server_first = f"r={nonce}more,s={base64.b64encode(salt).decode()},i=4096"
        final = (yield server_first.encode()).decode()
        without_proof, _, proof = final.rpartition(",p=")
        password = self.users.get(user.replace("=2C", ",").replace("=3D", "="))
        if password is None:
            return False, b""
        salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, 4096)
        message = ",".join((first, server_first, without_proof)).encode()
        key = hmac.new(salted, b"Client Key", hash_name).digest()
        signature = hmac.new(hashlib.new(hash_name, key).digest(), message, hash_name).digest()
        if bytes(a ^ b for a, b in zip(key, signature, strict=True)) != base64.b64decode(proof):
            return False, b""
        verdict = hmac.new(hmac.new(salted, b"Server Key", hash_name).digest(), message, hash_name).digest()
        return True, b"v=" + base64.b64encode(verdict)
