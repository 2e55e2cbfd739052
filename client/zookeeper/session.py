"""The session with ZooKeeper. kazoo keeps it in threads of its own; results and watches are handed to the event loop.

A connection that is lost is waited for, and what was under way is asked again: a write that was lost with its answer
counts as done where its effect is there. A session that has expired ends everything with SessionExpired, until `renew`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import EventType, KazooState

from ..errors import ClientStopped
from .errors import SessionExpired, ZooKeeperUnreachable
from .operations import Change, Check, Create, Delete, Failure, Put, ReadAll, ReadChildren, WriteAll, Znode

T = TypeVar("T")

# Requests that wait for ZooKeeper at a time.
_IN_FLIGHT = 200
_LOST = (ConnectionLoss, ConnectionClosedError, OperationTimeoutError)

_log = logging.getLogger(__name__)


class Contact(Enum):
    """What the session is told of ZooKeeper."""

    CONNECTED = "connected"
    # The session lives until its time-out.
    SUSPENDED = "suspended"
    EXPIRED = "expired"


class Session:
    """One session after another. `start` before it is used; `stop` gives the session up."""

    def __init__(
        self,
        connect: str,
        session_timeout_ms: float,
        connection_timeout_ms: float,
        on_change: Callable[[], None],
        on_contact: Callable[[Contact], None],
    ) -> None:
        """`connect` is HOST:PORT,HOST:PORT/CHROOT. Both callbacks come in the event loop."""
        self._connect = connect
        self._connection_timeout_s = connection_timeout_ms / 1000
        self._on_change = on_change
        self._on_contact = on_contact
        self._loop = asyncio.get_running_loop()
        hosts, slash, chroot = connect.partition("/")
        # kazoo would warn of a chroot that is not there; a cluster that is not there is an error later.
        self._chroot = slash + chroot.rstrip("/") if chroot else ""
        self._client: Any = KazooClient(hosts=hosts, timeout=session_timeout_ms / 1000)
        self._is_expired = False
        self._is_stopping = False
        # Set while there is a connection.
        self._connected = asyncio.Event()
        # Whether the session is without a connection.
        self._is_suspended = False

    async def start(self) -> None:
        """Connect. Raises ZooKeeperUnreachable."""
        self._client.add_listener(self._state_changed)
        try:
            await asyncio.to_thread(self._client.start, self._connection_timeout_s)
        except (KazooTimeoutError, KazooException, OSError) as error:
            await self.stop()
            why = f"no ZooKeeper answers at {self._connect} within {self._connection_timeout_s:g} s"
            raise ZooKeeperUnreachable(f"{why}. Start it, or correct zookeeper_connect.") from error
        self._client.chroot = self._chroot
        self._connected.set()

    async def stop(self) -> None:
        """End the session, so that the ephemeral znodes go at once. Idempotent."""
        if not self._is_stopping:
            self._is_stopping = True
            self._connected.set()
            await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._client.stop()
        self._client.close()

    @property
    def session_id(self) -> int:
        """The present session, as the owner of its ephemeral znodes shows it."""
        return self._client.client_id[0] if self._client.client_id else 0

    @property
    def timeout_ms(self) -> float:
        """The session time-out that ZooKeeper has agreed to."""
        return self._client._session_timeout

    async def renewed(self) -> None:
        """Wait for a new session after one that has expired, and accept operations for it."""
        while True:
            await self._connected.wait()
            if self._is_stopping:
                raise ClientStopped("the consumer was shut down")
            if self._client.state == KazooState.CONNECTED:
                self._is_expired = False
                return
            self._connected.clear()

    # -- Operations

    async def execute(self, operation: ReadAll | ReadChildren | WriteAll) -> Any:
        """Do one operation and return its result. Raises SessionExpired."""
        if isinstance(operation, ReadAll):
            return await self._in_portions(operation.paths, lambda path: self._read(path, watch=operation.watch))
        if isinstance(operation, ReadChildren):
            return await self._read_children(operation.path, watch=operation.watch)
        return await self._in_portions(operation.groups, self._write)

    async def _in_portions(self, work: Sequence[Any], begin: Callable[[Any], Any]) -> list[Any]:
        """Do many requests, with a bound on how many wait at a time. An error of one ends all."""
        results: list[Any] = []
        for some in _portions(work, _IN_FLIGHT):
            # Every one is awaited, so that no error is left behind.
            found = await asyncio.gather(*map(begin, some), return_exceptions=True)
            error = next((each for each in found if isinstance(each, BaseException)), None)
            if error is not None:
                raise error
            results += found
        return results

    async def _read(self, path: str, *, watch: bool) -> Znode | None:
        watcher = self._watcher if watch else None
        while True:
            try:
                data, stat = await self._ask(self._client.get_async, path, watch=watcher)
                return Znode(data or b"", stat.ephemeralOwner or 0)
            except NoNodeError:
                # A watch for its creation. Where it was created in between, it is read again.
                if watcher is None or await self._ask(self._client.exists_async, path, watch=watcher) is None:
                    return None

    async def _read_children(self, path: str, *, watch: bool) -> list[str]:
        watcher = self._watcher if watch else None
        try:
            return sorted(await self._ask(self._client.get_children_async, path, watch=watcher))
        except NoNodeError:
            return []

    async def _write(self, group: tuple[Change, ...]) -> Failure | None:
        lost = False
        while True:
            try:
                results = await self._once(self._transaction(group).commit_async)
            except _LOST:
                lost = True
                await self._wait_for_connection()
                continue
            failure = _failure(group, results)
            if failure is not None and lost and await self._is_done(group):
                # The answer to an earlier try was lost, not the try.
                return None
            return failure

    def _transaction(self, group: tuple[Change, ...]) -> Any:
        transaction = self._client.transaction()
        for change in group:
            if isinstance(change, Create):
                transaction.create(change.path, change.data, ephemeral=change.ephemeral)
            elif isinstance(change, Put):
                transaction.set_data(change.path, change.data)
            elif isinstance(change, Delete):
                transaction.delete(change.path)
            else:
                transaction.check(change.path, -1)
        return transaction

    async def _is_done(self, group: tuple[Change, ...]) -> bool:
        """Return whether the effect of every change is there."""
        found = [await self._read(change.path, watch=False) for change in group]
        return all(self._has_effect(change, znode) for change, znode in zip(group, found, strict=True))

    def _has_effect(self, change: Change, found: Znode | None) -> bool:
        if isinstance(change, Delete):
            return found is None
        if found is None or isinstance(change, Check):
            return found is not None
        if isinstance(change, Create) and change.ephemeral and found.owner != self.session_id:
            return False
        return found.data == change.data

    # -- The connection

    async def _ask(self, request: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Send one request and return its result; again while the connection was lost. Raises SessionExpired."""
        while True:
            try:
                return await self._once(request, *arguments, **options)
            except _LOST:
                await self._wait_for_connection()

    async def _once(self, request: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        self.check()
        future: asyncio.Future[Any] = self._loop.create_future()

        def done(result: Any) -> None:
            # In a thread of kazoo's.
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(_resolve, future, result)

        request(*arguments, **options).rawlink(done)
        try:
            return await future
        except SessionExpiredError as error:
            raise SessionExpired from error

    def check(self) -> None:
        """Raise SessionExpired or ClientStopped where the session is not there any more."""
        if self._is_stopping:
            raise ClientStopped("the consumer was shut down")
        if self._is_expired:
            raise SessionExpired

    async def _wait_for_connection(self) -> None:
        self.check()
        await self._connected.wait()
        # The state may have changed in the same turn.
        self.check()

    def _state_changed(self, state: Any) -> None:
        """Called in a thread of kazoo's."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._note_state, state)

    def _note_state(self, state: Any) -> None:
        if self._is_stopping:
            return
        if state == KazooState.CONNECTED:
            self._connected.set()
            was_suspended, self._is_suspended = self._is_suspended, False
            self._on_contact(Contact.CONNECTED)
            if was_suspended:
                # A watch ends with its connection, and kazoo does not set it again: there may have been a change.
                self._on_change()
        elif state == KazooState.LOST:
            self._is_expired, self._is_suspended = True, False
            # Requests that wait for a connection learn that the session is gone.
            self._connected.set()
            _log.warning("the session with ZooKeeper at %s has expired: the partitions go to others", self._connect)
            self._on_contact(Contact.EXPIRED)
        else:
            self._connected.clear()
            self._is_suspended = True
            why = "the session lives until its time-out"
            _log.warning("the connection to ZooKeeper at %s is lost: %s", self._connect, why)
            self._on_contact(Contact.SUSPENDED)

    def _watcher(self, event: Any) -> None:
        """Called in a thread of kazoo's, once for each watch. Changes of the connection are reported to watches too."""
        if event.type != EventType.NONE and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._on_change)


def _resolve(future: asyncio.Future[Any], result: Any) -> None:
    if future.done():
        return
    if result.exception is not None:
        future.set_exception(result.exception)
    else:
        future.set_result(result.value)


def _failure(group: tuple[Change, ...], results: list[Any]) -> Failure | None:
    """Return why a transaction was not done. Of several results, one names the cause; the others were rolled back."""
    for change, result in zip(group, results, strict=True):
        if isinstance(result, KazooException) and not isinstance(result, (RolledBackError, RuntimeInconsistency)):
            is_known = isinstance(result, (NodeExistsError, NoNodeError))
            if not is_known:
                raise ZooKeeperUnreachable(f"ZooKeeper refuses to change {change.path}: {type(result).__name__}")
            return Failure(
                change.path, exists=isinstance(result, NodeExistsError), missing=isinstance(result, NoNodeError)
            )
    return None


def _portions(work: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for begin in range(0, len(work), size):
        yield work[begin : begin + size]
