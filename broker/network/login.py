"""The login of a connection by SASL: which requests a client may send before it is known, and after its session ends.

    VERSIONS      ApiVersions, SaslHandshake        the first request
    HANDSHAKE     SaslHandshake                     after an ApiVersions that was answered
    AUTHENTICATE  SaslAuthenticate                  after SaslHandshake 1
    RAW           tokens without a header           after SaslHandshake 0
    COMPLETE      all; SaslHandshake begins again   while the session lasts, where it has an end (KIP-368)

Any other request closes the connection: without an answer before the handshake, as nobody knows what it is, and with
ILLEGAL_SASL_STATE after it. The answer to a failure is held back (connection.failed.authentication.delay.ms). A client
that does not log in within `LOGIN_MS` is closed; Kafka leaves it for ten minutes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import Enum
from functools import partial
from struct import error as StructError
from typing import Any, NamedTuple, cast

from ...protocol import frame
from ...protocol.apis import ApiKey, key_of
from ...protocol.errors import DecodeError, ErrorCode
from ...protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ...protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ...protocol.schema import Message
from ..clock import Clock
from ..security.principals import user
from ..security.sasl.exchange import Exchange, Failed, Identity, Work
from ..security.sasl.logins import Logins
from ..threads import Workers
from ..timers import TimerHandle, Timers
from .connection import CloseConnection, Connection, Dispatch, Pending
from .send_queue import EncodedResponse

LOGIN_MS = 30_000
# As in Kafka, a session is renewed at most once in this time.
_MIN_RENEWAL_MS = 1_000
# Nobody is known who sends these. None of their fields is an array; the rest are tagged fields.
_MAX_VALUES = 1_000
# Where the error code of an ApiVersions response stands: behind size and correlation id.
_ERROR_CODE = slice(8, 10)

_log = logging.getLogger(__name__)


class State(Enum):
    """Where a login is. The module says what each state takes."""

    VERSIONS = "versions"
    HANDSHAKE = "handshake"
    AUTHENTICATE = "authenticate"
    RAW = "raw"
    COMPLETE = "complete"


# Answers a request with an error code and a text; raises CloseConnection where its API has no field for one.
Reject = Callable[[Connection, memoryview, ErrorCode, str], EncodedResponse]


class LoginDoor(NamedTuple):
    """What the logins of one listener share."""

    logins: Logins
    dispatch: Dispatch
    reject: Reject
    workers: Workers
    clock: Clock
    timers: Timers
    delay_ms: int

    def open(self, connection: Connection) -> None:
        """Have a new connection log in before anything else."""
        connection.most_request_bytes = self.logins.max_receive_bytes
        connection.login = login = Login(connection, self)
        connection.at_close[Login] = login.close


class Login:
    """The login of one connection, and its session after it. It stands before the dispatcher."""

    def __init__(self, connection: Connection, door: LoginDoor) -> None:
        self._connection = connection
        self._door = door
        self._state = State.VERSIONS
        self._mechanism = ""
        self._exchange: Exchange | None = None
        # The size of the token that it works on.
        self._token_bytes = 0
        # Of the session before this one: who it was and by which mechanism.
        self._renewed: tuple[str, str] | None = None
        self._renewed_ms = 0
        self._session_end_ms: int | None = None
        self._deadline: TimerHandle | None = door.timers.after(LOGIN_MS, self._expire)

    def close(self) -> None:
        """Forget a login whose connection is closed."""
        self._stop_deadline()
        if self._exchange is not None:
            self._exchange.close()

    def __call__(self, connection: Connection, data: memoryview) -> EncodedResponse | Pending:
        if self._state is State.RAW:
            return self._take_token(bytes(data), self._answer_raw)
        try:
            key, version = frame.KEY_AND_VERSION.unpack_from(data)
        except StructError:
            raise CloseConnection("a request without a header before the login") from None
        if self._state is State.COMPLETE:
            return self._in_session(key, version, data)
        if self._state is State.AUTHENTICATE:
            return self._authenticate(key, version, data)
        if key == ApiKey.API_VERSIONS and self._state is State.VERSIONS:
            return self._versions(data)
        if key == ApiKey.SASL_HANDSHAKE:
            return self._handshake(version, data)
        raise CloseConnection(f"Unexpected Kafka request of type {_name(key)} during SASL handshake.")

    # -- The states

    def _versions(self, data: memoryview) -> EncodedResponse | Pending:
        """Answer ApiVersions. After an error the client may ask again."""
        response = self._door.dispatch(self._connection, data)
        if isinstance(response, list) and cast(bytes, response[0])[_ERROR_CODE] == b"\0\0":
            self._state = State.HANDSHAKE
        return response

    def _handshake(self, version: int, data: memoryview) -> EncodedResponse | Pending:
        if version not in SaslHandshakeRequest.VERSIONS:
            raise CloseConnection(f"SaslHandshake version {version} is not served")
        correlation_id, request = _decode(SaslHandshakeRequest, version, data)
        enabled = list(self._door.logins.mechanisms)
        response = SaslHandshakeResponse(0, enabled)
        is_known = request.mechanism in enabled
        if not is_known:
            response.error_code = int(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        encoded = _encode(correlation_id, response, version)
        if not is_known:
            return self._fail(encoded, f"mechanism {request.mechanism[:40]!r} is not one of {', '.join(enabled)}")
        self._mechanism, self._exchange = request.mechanism, None
        self._state = State.AUTHENTICATE if version else State.RAW
        return encoded

    def _authenticate(self, key: int, version: int, data: memoryview) -> EncodedResponse | Pending:
        if key != ApiKey.SASL_AUTHENTICATE:
            return self._refuse(key, data)
        if version not in SaslAuthenticateRequest.VERSIONS:
            raise CloseConnection(f"SaslAuthenticate version {version} is not served")
        correlation_id, request = _decode(SaslAuthenticateRequest, version, data)
        return self._take_token(request.auth_bytes, partial(self._answer, correlation_id, version))

    def _refuse(self, key: int, data: memoryview) -> Pending:
        """Answer a request that has no place in an exchange."""
        why = f"Unexpected Kafka request of type {_name(key)} during SASL authentication."
        try:
            response = self._door.reject(self._connection, data, ErrorCode.ILLEGAL_SASL_STATE, why)
        except DecodeError as error:
            raise CloseConnection(f"a request header that cannot be read: {error}") from None
        return self._fail(response, why)

    def _in_session(self, key: int, version: int, data: memoryview) -> EncodedResponse | Pending:
        """Handle a request of a session that has an end."""
        if key == ApiKey.SASL_HANDSHAKE:
            now_ms = self._door.clock.monotonic_ms()
            if now_ms - self._renewed_ms >= _MIN_RENEWAL_MS:
                self._renewed_ms = now_ms
                self._deadline = self._door.timers.after(LOGIN_MS, self._expire)
                self._connection.most_request_bytes = self._door.logins.max_receive_bytes
                return self._handshake(version, data)
        elif self._session_end_ms is not None and self._door.clock.monotonic_ms() >= self._session_end_ms:
            raise CloseConnection(f"the session of {self._connection.principal} has ended and was not renewed")
        return self._door.dispatch(self._connection, data)

    # -- The exchange

    def _take_token(self, token: bytes, answer: Callable[[Any], EncodedResponse]) -> EncodedResponse | Pending:
        """Give the exchange the client's token. `answer` encodes what it says to it."""
        self._token_bytes = len(token)
        if self._renewed is not None and self._renewed[1] != self._mechanism:
            why = (
                f"SASL mechanism '{self._mechanism}' requested by client is not supported for re-authentication of "
                f"mechanism '{self._renewed[1]}'"
            )
            return self._fail(None, why)
        if self._exchange is None:
            self._exchange = self._door.logins.mechanisms[self._mechanism].begin(token)
            return self._go_on(partial(next, self._exchange), answer)
        return self._go_on(partial(self._exchange.send, token), answer)

    def _go_on(
        self, step: Callable[[], bytes | Work], answer: Callable[[Any], EncodedResponse]
    ) -> EncodedResponse | Pending:
        """Have the exchange take a step, and do what it says."""
        try:
            said = step()
        except StopIteration as end:
            return self._complete(end.value, answer)
        except Failed as failure:
            return self._reject(failure, answer)
        if not isinstance(said, Work):
            return answer(said)
        checks = self._connection.token_checks
        working = self._door.workers.run(checks.counted(said.run, self._token_bytes))
        if working is None:
            checks.uncount(self._token_bytes)
            return self._reject(Failed("too many logins are being checked"), answer)
        self._connection.note_kept(self._token_bytes)
        return Pending(working, partial(self._worked, answer))

    def _worked(
        self, answer: Callable[[Any], EncodedResponse], working: asyncio.Future[Any]
    ) -> EncodedResponse | Pending:
        """Give the exchange the result of its work, or the error."""
        assert self._exchange is not None
        if (error := working.exception()) is not None:
            return self._go_on(partial(self._exchange.throw, error), answer)
        return self._go_on(partial(self._exchange.send, working.result()), answer)

    def _complete(self, identity: Identity, answer: Callable[[Any], EncodedResponse]) -> EncodedResponse | Pending:
        principal = user(identity.name)
        if self._renewed is not None and self._renewed[0] != identity.name:
            said = f"User.{self._renewed[0]}: User.{identity.name}"
            why = f"Cannot change principals during re-authentication from {said}"
            return self._reject(Failed(why, why), answer)
        self._stop_deadline()
        self._exchange = None
        self._state = State.COMPLETE
        connection, door = self._connection, self._door
        session_ms = door.logins.session_ms(self._mechanism, identity.expires_ms)
        response = answer(identity._replace(expires_ms=session_ms))
        connection.let_in(principal, self._mechanism)
        _log.debug("%s: %s has logged in by %s", connection.name, principal, self._mechanism)
        if not session_ms:
            del connection.at_close[Login]
        else:
            self._session_end_ms = door.clock.monotonic_ms() + session_ms
            self._renewed = (identity.name, self._mechanism)
            connection.login = self
        return response

    # -- Answers

    def _answer(self, correlation_id: int, version: int, said: bytes | Identity | Failed) -> EncodedResponse:
        if isinstance(said, Failed):
            while_renewing = "during re-authentication" if self._renewed is not None else "during authentication"
            text = f"Authentication failed {while_renewing} due to invalid credentials with SASL mechanism "
            code = int(ErrorCode.SASL_AUTHENTICATION_FAILED)
            response = SaslAuthenticateResponse(code, said.message or text + self._mechanism)
        elif isinstance(said, Identity):
            response = SaslAuthenticateResponse(auth_bytes=said.data, session_lifetime_ms=said.expires_ms or 0)
        else:
            response = SaslAuthenticateResponse(auth_bytes=said)
        return _encode(correlation_id, response, version)

    def _answer_raw(self, said: bytes | Identity | Failed) -> EncodedResponse:
        if isinstance(said, Failed):
            return None
        token = said.data if isinstance(said, Identity) else said
        return [len(token).to_bytes(4) + token]

    def _reject(self, failure: Failed, answer: Callable[[Any], EncodedResponse]) -> Pending:
        self._exchange = None
        return self._fail(answer(failure), f"login by {self._mechanism} failed: {failure.why}")

    def _fail(self, response: EncodedResponse, why: str) -> Pending:
        """Hold an answer back, then send it, if there is one, and close."""
        delay: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._door.timers.after(self._door.delay_ms, lambda: None if delay.done() else delay.set_result(None))

        def finish(_: asyncio.Future[None]) -> EncodedResponse:
            if response is None:
                raise CloseConnection(why)
            # Requests may stand behind this one, and a password among them would be checked too.
            self._connection.refuse(why)
            return response

        return Pending(cast("asyncio.Future[Any]", delay), finish)

    # -- The deadline

    def _expire(self) -> None:
        self._deadline = None
        self._connection.drop(f"did not log in within {LOGIN_MS} ms")

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _decode(cls: type[Any], version: int, data: memoryview) -> tuple[int, Any]:
    """Return the correlation id and the request. Raises CloseConnection."""
    try:
        correlation_id, _, request, _ = frame.request_decoder(cast("type[Message]", cls), version)(data, _MAX_VALUES)
        return correlation_id, request
    except DecodeError as error:
        raise CloseConnection(f"a {cls.__name__} that cannot be read: {error}") from None


def _encode(correlation_id: int, response: Message, version: int) -> EncodedResponse:
    return cast(EncodedResponse, frame.encode_response(correlation_id, response, version))


def _name(key: int) -> str:
    try:
        return key_of(key).name
    except (KeyError, ValueError):
        return str(key)
