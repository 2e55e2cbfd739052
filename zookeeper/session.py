"""The session with ZooKeeper. kazoo keeps it in threads of its own; results and watches are handed to the event loop.

`run` drives steps (operations.py) through the requests of the present session (requests.py). A connection that is lost
for a while is waited for. A session that has expired ends every step with SessionExpired. kazoo begins a new one by
itself, which takes steps after `renew`; the owners of ephemeral znodes make them again.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, KazooException, WriterNotClosedException
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState, KeeperState

from ..protocol.errors import ErrorCode, KafkaError
from .operations import Check
from .requests import Requests
from .security import OPEN, ZooKeeperSecurity

T = TypeVar("T")

# How kazoo looks for a ZooKeeper that is away: for ever, and once a second. By itself it would wait up to a minute
# between two attempts, in which a ZooKeeper that is back would find nobody.
RECONNECT = {"max_tries": -1, "delay": 0.1, "max_delay": 1.0}
# How long after a refused login the next one is.
LOGIN_RETRY_S = 1.0
# How long a stop waits for ZooKeeper to take note of it. A session that is not ended expires.
STOP_WITHIN_S = 5.0

_log = logging.getLogger(__name__)


class ZooKeeperUnreachable(KafkaError):
    """No ZooKeeper answers, or it cannot be used. Retriable: it may be starting."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, message)


class Contact(Enum):
    """What the owner of a session is told of it."""

    CONNECTED = "connected"
    # Without a connection the session lives until its time-out.
    SUSPENDED = "suspended"
    EXPIRED = "expired"
    # There is a new session: `renew` has it take steps.
    RENEWED = "renewed"


class Session:
    """One session after another. `start` before it is used; `stop` gives the session up."""

    def __init__(
        self,
        connect: str,
        session_timeout_ms: float,
        connection_timeout_ms: float,
        on_change: Callable[[str], None],
        on_contact: Callable[[Contact], None],
        security: ZooKeeperSecurity = OPEN,
    ) -> None:
        """`connect` is zookeeper.connect: HOST:PORT,HOST:PORT/CHROOT. Raises ZooKeeperUnreachable for another text.

        `on_change` is called with the path of a znode whose watch fires. Both callbacks come in the event loop.
        """
        self._hosts, slash, chroot = connect.partition("/")
        self._chroot = (slash + chroot).rstrip("/")
        self._connection_timeout_s = connection_timeout_ms / 1000
        self._on_contact = on_contact
        self._loop = asyncio.get_running_loop()
        options = security.client_options
        self._handler = options["handler"]
        try:
            self._client: Any = KazooClient(
                hosts=self._hosts, timeout=session_timeout_ms / 1000, connection_retry=dict(RECONNECT), **options
            )
        except ValueError:
            why = f"zookeeper.connect={connect} is no HOST:PORT,HOST:PORT/CHROOT: correct it"
            raise ZooKeeperUnreachable(why) from None
        # Logs in again after ZooKeeper has refused the login.
        self._restarting: asyncio.Future[None] | None = None
        self._is_stopping = False
        # Set while there is a connection.
        connected = self._connected = asyncio.Event()
        self._new_requests = lambda: Requests(self._client, connected, on_change, security)
        # Those of the present session: steps of an earlier one do not go on in a later one.
        self._requests = self._new_requests()

    async def start(self, znodes: Sequence[str] = ()) -> None:
        """Connect, and make these znodes and the chroot where they are missing. Raises ZooKeeperUnreachable.

        Without `znodes` nothing is made: a chroot that is missing leads to errors later.
        """
        try:
            await self._begin(znodes)
        except BaseException:
            # Also where the caller is cancelled: kazoo's threads would keep the session for ever.
            await self.stop()
            raise

    async def _begin(self, znodes: Sequence[str]) -> None:
        self._client.add_listener(self._state_changed)
        try:
            await _in_thread(lambda: self._client.start(self._connection_timeout_s))
            self._connected.set()
            if znodes and self._chroot:
                await self._requests.ensure(self._chroot)
            self._client.chroot = self._chroot
            for path in znodes:
                await self._requests.ensure(path)
        except KazooTimeoutError as error:
            seen = self._handler.last_error
            why = f"no ZooKeeper answers at {self._hosts} within {self._connection_timeout_s:g} s"
            why += f" ({seen.strerror or seen})" if seen is not None else ""
            raise ZooKeeperUnreachable(f"{why}. Start it, or correct zookeeper.connect.") from error
        except AuthFailedError as error:
            raise ZooKeeperUnreachable(f"ZooKeeper at {self._hosts} refuses the login of this session") from error
        except (KazooException, OSError) as error:
            raise ZooKeeperUnreachable(f"ZooKeeper at {self._hosts} cannot be used: {_describe(error)}") from error

    async def stop(self) -> None:
        """End the session, so that the ephemeral znodes go at once. Idempotent.

        A ZooKeeper that does not answer is waited for with a bound: then the znodes stay until the session expires.
        """
        if self._is_stopping:
            return
        self._is_stopping = True
        self._requests.end()
        if self._restarting is not None:
            self._restarting.cancel()
        done, _ = await asyncio.wait([_in_thread(self._close)], timeout=STOP_WITHIN_S)
        if not done:
            self._note_open_session()

    def _close(self) -> None:
        try:
            self._client.stop()
            self._client.close()
        except WriterNotClosedException:
            self._note_open_session()

    def _note_open_session(self) -> None:
        _log.warning("ZooKeeper at %s does not answer: this session stays until its time-out", self._hosts)

    @property
    def session_id(self) -> int:
        """The present session, as the owner of its ephemeral znodes shows it."""
        return self._client.client_id[0] if self._client.client_id else 0

    @property
    def timeout_ms(self) -> float:
        """The session time-out that ZooKeeper has agreed to."""
        return self._client._session_timeout

    # -- Steps

    async def run(
        self,
        steps: Generator[Any, Any, T],
        fence: Check | None = None,
        others: Callable[[Any], Awaitable[Any]] | None = None,
    ) -> T:
        """Drive steps to their end and return what they return.

        With `fence` every write requires it: Fenced where it does not hold. `others` does operations that are not
        ZooKeeper's. Raises SessionExpired, also where there is a new session meanwhile.
        """
        requests, result = self._requests, None
        try:
            while True:
                try:
                    operation = steps.send(result)
                except StopIteration as end:
                    return end.value
                result = await requests.execute(operation, fence, others)
        finally:
            steps.close()

    # -- The connection

    def renew(self) -> None:
        """Take steps again after the session has expired: they belong to the new session."""
        self._requests = self._new_requests()

    def _state_changed(self, state: Any) -> None:
        """Called in a thread of kazoo's."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._note_state, state)

    def _note_state(self, state: Any) -> None:
        if self._is_stopping:
            return
        if state == KazooState.CONNECTED:
            self._connected.set()
            if self._requests.has_ended:
                _log.info("there is a new session with ZooKeeper at %s", self._hosts)
                self._on_contact(Contact.RENEWED)
                return
            self._on_contact(Contact.CONNECTED)
            self._requests.note_connection()
        elif state == KazooState.LOST:
            self._requests.end()
            is_refused = self._client.client_state == KeeperState.AUTH_FAILED
            _log.warning(
                "the session with ZooKeeper at %s %s",
                self._hosts,
                "is refused its login" if is_refused else "has expired",
            )
            self._on_contact(Contact.EXPIRED)
            if is_refused and (self._restarting is None or self._restarting.done()):
                # kazoo gives up. The password may be mended at ZooKeeper.
                self._restarting = asyncio.ensure_future(self._log_in_again())
        else:
            self._connected.clear()
            _log.warning("the connection to ZooKeeper at %s is lost; the session lives until its time-out", self._hosts)
            self._on_contact(Contact.SUSPENDED)

    async def _log_in_again(self) -> None:
        while True:
            await asyncio.sleep(LOGIN_RETRY_S)
            with suppress(KazooTimeoutError, KazooException):
                return await _in_thread(self._client.restart)


# Opens a session: `Session`, or what a test puts in its place.
OpenSession = Callable[
    [str, float, float, Callable[[str], None], Callable[[Contact], None], ZooKeeperSecurity], Session
]


def _in_thread(work: Callable[[], None]) -> asyncio.Future[None]:
    """Run `work` in a thread that does not keep the process from exiting: ZooKeeper may hang for ever."""
    done: concurrent.futures.Future[None] = concurrent.futures.Future()
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - passed on to the future, not swallowed
            done.set_exception(error)
        else:
            done.set_result(None)

    threading.Thread(target=run, name="odradek-zookeeper", daemon=True).start()
    return asyncio.wrap_future(done)


def _describe(error: Exception) -> str:
    return str(error) or type(error).__name__.removesuffix("Error")
