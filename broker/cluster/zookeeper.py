"""The session with ZooKeeper. kazoo keeps it in threads of its own; results and watches are handed to the event loop.

`run` drives steps (operations.py). A connection that is lost for a while is waited for, and what was under way is asked
again: a write that was lost with its answer counts as done where its effect is there. A session that has expired ends
every step with SessionExpired. kazoo begins a new one by itself; the owners of ephemeral znodes make them again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
    WriterNotClosedException,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import EventType, KazooState

from ..log_dirs.data_dir import StartError
from ..threads import in_thread
from .operations import (
    Change,
    Create,
    Delete,
    Failure,
    Operation,
    Pause,
    Put,
    ReadAll,
    ReadChildren,
    Steps,
    Znode,
    portions,
)
from .znodes import CONTROLLER_EPOCH, PERSISTENT

T = TypeVar("T")

# Requests that wait for ZooKeeper at a time: more would only fill its queue.
IN_FLIGHT = 200
# How kazoo looks for a ZooKeeper that is away: for ever, and once a second. By itself it would wait up to a minute
# between two attempts, in which a ZooKeeper that is back would find no broker.
RECONNECT = {"max_tries": -1, "delay": 0.1, "max_delay": 1.0}
# How long a stop waits for ZooKeeper to take note of it. A session that is not ended expires.
STOP_WITHIN_S = 5.0

_log = logging.getLogger(__name__)


class SessionExpired(Exception):
    """The session with ZooKeeper has ended: this broker is no longer registered, and no longer the controller."""


class ControllerMoved(Exception):
    """Another broker has become the controller: nothing of the write was done."""


class ZooKeeper:
    """One session after another. `start` before it is used; `stop` gives the session up."""

    def __init__(
        self,
        connect: str,
        session_timeout_ms: int,
        connection_timeout_ms: int,
        on_change: Callable[[str], None],
        on_session: Callable[[bool], None],
    ) -> None:
        """`connect` is zookeeper.connect: HOST:PORT,HOST:PORT/CHROOT.

        `on_change` is called with the path of a znode whose watch fires, `on_session` with False when the session has
        expired and with True when there is a new one; both in the event loop.
        """
        self._hosts, slash, chroot = connect.partition("/")
        self._chroot = slash + chroot.rstrip("/")
        self._connection_timeout_s = connection_timeout_ms / 1000
        self._on_change = on_change
        self._on_session = on_session
        self._loop = asyncio.get_running_loop()
        self._client: Any = KazooClient(
            hosts=self._hosts, timeout=session_timeout_ms / 1000, connection_retry=dict(RECONNECT)
        )
        self._is_expired = False
        self._is_stopping = False
        # Set while there is a connection.
        self._connected = asyncio.Event()
        # Every path that is watched in this session. No path is watched for its content and for its children.
        self._watched: set[str] = set()

    async def start(self) -> None:
        """Connect, and make the chroot and the znodes that every broker needs. Raises StartError."""
        self._client.add_listener(self._state_changed)
        try:
            await in_thread(partial(self._client.start, self._connection_timeout_s), "odradek-zookeeper")
        except KazooTimeoutError as error:
            await self.stop()
            why = f"no ZooKeeper answers at {self._hosts} within {self._connection_timeout_s:g} s"
            raise StartError(f"{why}. Start it, or correct zookeeper.connect.") from error
        self._connected.set()
        try:
            if self._chroot:
                await self._ask(self._client.ensure_path_async, self._chroot)
                self._client.chroot = self._chroot
            for path in PERSISTENT:
                await self._ask(self._client.ensure_path_async, path)
        except KazooException as error:
            await self.stop()
            raise StartError(f"ZooKeeper at {self._hosts} cannot be used: {_describe(error)}") from error

    async def stop(self) -> None:
        """End the session, so that the ephemeral znodes go at once. Idempotent.

        A ZooKeeper that does not answer is waited for with a bound: then the znodes stay until the session expires.
        """
        if self._is_stopping:
            return
        self._is_stopping = True
        done, _ = await asyncio.wait([in_thread(self._close, "odradek-zookeeper")], timeout=STOP_WITHIN_S)
        if not done:
            self._note_open_session()

    def _close(self) -> None:
        try:
            self._client.stop()
            self._client.close()
        except WriterNotClosedException:
            self._note_open_session()

    def _note_open_session(self) -> None:
        _log.warning("ZooKeeper at %s does not answer: this broker stays registered until its time-out", self._hosts)

    @property
    def session_id(self) -> int:
        """The present session, as the owner of its ephemeral znodes shows it."""
        return self._client.client_id[0] if self._client.client_id else 0

    # -- Steps

    async def run(self, steps: Steps[T], fence: int | None = None) -> T:
        """Drive steps to their end and return what they return.

        With `fence` every write requires that version of `/controller_epoch`: ControllerMoved where it is another.
        Raises SessionExpired.
        """
        result: Any = None
        while True:
            try:
                operation = steps.send(result)
            except StopIteration as end:
                return end.value
            try:
                result = await self._execute(operation, fence)
            except (SessionExpired, ControllerMoved):
                steps.close()
                raise

    async def _execute(self, operation: Operation, fence: int | None) -> Any:
        if isinstance(operation, ReadAll):
            return await self._in_portions(self._read(path, watch=operation.watch) for path in operation.paths)
        if isinstance(operation, ReadChildren):
            return await self._read_children(operation.path, watch=operation.watch)
        if isinstance(operation, Pause):
            return await asyncio.sleep(0)
        return await self._in_portions(self._write(group, fence) for group in operation.groups)

    async def _in_portions(self, work: Iterable[Any]) -> list[Any]:
        """Await many requests, with a bound on how many wait at a time. An error of one ends all."""
        results: list[Any] = []
        for portion in portions(work, IN_FLIGHT):
            # Every one is awaited, so that no error is left behind.
            found = await asyncio.gather(*portion, return_exceptions=True)
            error = next((each for each in found if isinstance(each, BaseException)), None)
            if error is not None:
                raise error
            results += found
        return results

    # -- Reads

    async def _read(self, path: str, *, watch: bool) -> Znode | None:
        while True:
            try:
                data, stat = await self._ask(self._client.get_async, path, watch=watch)
                return Znode(data or b"", stat.version, stat.czxid, stat.mzxid, stat.ephemeralOwner or 0)
            except NoNodeError:
                # A watch for its creation. Where it was created in between, it is read again.
                if not watch or await self._ask(self._client.exists_async, path, watch=True) is None:
                    return None

    async def _read_children(self, path: str, *, watch: bool) -> list[str] | None:
        try:
            names = await self._ask(self._client.get_children_async, path, watch=watch)
        except NoNodeError:
            return None
        return sorted(names)

    # -- Writes

    async def _write(self, group: tuple[Change, ...], fence: int | None) -> Failure | None:
        lost = False
        while True:
            transaction = self._transaction(group, fence)
            try:
                results = await self._once(transaction.commit_async)
            except (ConnectionLoss, ConnectionClosedError, OperationTimeoutError):
                lost = True
                await self._wait_for_connection()
                continue
            failure = _failure(group, results, fenced=fence is not None)
            if failure is not None and lost and await self._is_done(group):
                # The answer to an earlier try was lost, not the try.
                return None
            return failure

    def _transaction(self, group: tuple[Change, ...], fence: int | None) -> Any:
        transaction = self._client.transaction()
        if fence is not None:
            transaction.check(CONTROLLER_EPOCH, fence)
        for change in group:
            if isinstance(change, Create):
                sequence = change.is_sequential
                transaction.create(change.path, change.data, ephemeral=change.ephemeral, sequence=sequence)
            elif isinstance(change, Put):
                transaction.set_data(change.path, change.data, change.version)
            else:
                transaction.delete(change.path, change.version)
        return transaction

    async def _is_done(self, group: tuple[Change, ...]) -> bool:
        """Return whether the effect of every change is there."""
        found = [await self._read(change.path, watch=False) for change in group]
        return all(self._has_effect(change, znode) for change, znode in zip(group, found, strict=True))

    def _has_effect(self, change: Change, found: Znode | None) -> bool:
        if isinstance(change, Delete):
            return found is None
        if found is None or found.data != change.data:
            return False
        if isinstance(change, Put):
            return change.version < 0 or found.version == change.version + 1
        return not change.ephemeral or found.owner == self.session_id

    # -- The connection

    async def _ask(self, request: Callable[..., Any], path: str, *, watch: bool = False) -> Any:
        """Send one request for a path and return its result; again while the connection was lost.

        With `watch` the next change of the path is reported. Raises SessionExpired.
        """
        options = {"watch": self._watcher} if watch else {}
        while True:
            if watch:
                # Before each try: the connection may be lost as soon as ZooKeeper has set the watch.
                self._watched.add(path)
            try:
                return await self._once(request, path, **options)
            except (ConnectionLoss, ConnectionClosedError, OperationTimeoutError):
                await self._wait_for_connection()

    async def _once(self, request: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        if self._is_expired or self._is_stopping:
            raise SessionExpired
        future: asyncio.Future[Any] = self._loop.create_future()

        def done(result: Any) -> None:
            # In a thread of kazoo's.
            self._loop.call_soon_threadsafe(_resolve, future, result)

        request(*arguments, **options).rawlink(done)
        try:
            return await future
        except SessionExpiredError as error:
            raise SessionExpired from error

    async def _wait_for_connection(self) -> None:
        if self._is_expired or self._is_stopping:
            raise SessionExpired
        await self._connected.wait()
        # The state may have changed in the same turn.
        if self._is_expired or self._is_stopping:
            raise SessionExpired

    def renew(self) -> None:
        """Accept requests again after the session has expired: they belong to the new session."""
        self._is_expired = False

    def _state_changed(self, state: Any) -> None:
        """Called in a thread of kazoo's."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._note_state, state)

    def _note_state(self, state: Any) -> None:
        if self._is_stopping:
            self._connected.set()
            return
        if state == KazooState.CONNECTED:
            self._connected.set()
            if self._is_expired:
                _log.info("there is a new session with ZooKeeper at %s", self._hosts)
                self._on_session(True)
            else:
                self._note_lost_watches()
            return
        self._connected.clear()
        if state == KazooState.LOST and not self._is_expired:
            self._is_expired = True
            # Requests that wait for a connection learn that the session is gone.
            self._connected.set()
            self._watched.clear()
            _log.warning("the session with ZooKeeper at %s has expired", self._hosts)
            self._on_session(False)
        elif state == KazooState.SUSPENDED:
            _log.warning("the connection to ZooKeeper at %s is lost; the session lives until its time-out", self._hosts)

    def _note_lost_watches(self) -> None:
        """Report every watched path as changed: a watch ends with its connection, and kazoo does not set it again.

        A receiver of a change reads the path and watches it again.
        """
        for path in sorted(self._watched):
            self._note_change(path)

    def _watcher(self, event: Any) -> None:
        """Called in a thread of kazoo's, once for each watch. Changes of the connection are reported to watches too."""
        if event.type != EventType.NONE and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._note_change, event.path)

    def _note_change(self, path: str) -> None:
        self._watched.discard(path)
        if not self._is_stopping:
            self._on_change(path)


def _resolve(future: asyncio.Future[Any], result: Any) -> None:
    if future.done():
        return
    if result.exception is not None:
        future.set_exception(result.exception)
    else:
        future.set_result(result.value)


def _failure(group: tuple[Change, ...], results: list[Any], *, fenced: bool) -> Failure | None:
    """Return why a transaction was not done. Of several results, one names the cause; the others were rolled back."""
    if fenced:
        if isinstance(results[0], (BadVersionError, NoNodeError)):
            raise ControllerMoved
        results = results[1:]
    for change, result in zip(group, results, strict=True):
        if isinstance(result, KazooException) and not isinstance(result, (RolledBackError, RuntimeInconsistency)):
            return Failure(
                change.path,
                exists=isinstance(result, NodeExistsError),
                missing=isinstance(result, NoNodeError),
                bad_version=isinstance(result, BadVersionError),
                has_children=isinstance(result, NotEmptyError),
            )
    return None


def _describe(error: Exception) -> str:
    return str(error) or type(error).__name__.removesuffix("Error")
