"""The requests of one session with ZooKeeper, made by kazoo in its threads and awaited in the event loop.

A connection that is lost for a while is waited for, and what was under way is asked again: a write that was lost with
its answer counts as done where its effect is there. When the session has expired every request ends with
SessionExpired, also when another session has begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

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
)
from kazoo.protocol.states import EventType

from .operations import (
    ANY_VERSION,
    Change,
    Check,
    Create,
    Delete,
    Dropped,
    Failure,
    Fenced,
    Pause,
    Put,
    ReadAll,
    ReadChildren,
    Refused,
    SessionExpired,
    WriteAll,
    Znode,
    portions,
    size_of,
)
from .security import OPEN, ZooKeeperSecurity

# Requests that wait for ZooKeeper at a time: more would only fill its queue.
IN_FLIGHT = 200
_LOST = (ConnectionLoss, ConnectionClosedError, OperationTimeoutError)
# ZooKeeper's errors that are answers, with the flag of Failure that each sets.
_ANSWERS: dict[type[KazooException], str] = {
    NodeExistsError: "exists",
    NoNodeError: "missing",
    BadVersionError: "bad_version",
    NotEmptyError: "has_children",
}


class Requests:
    """Requests of one session, until `end`."""

    def __init__(
        self,
        client: Any,
        connected: asyncio.Event,
        on_change: Callable[[str], None],
        security: ZooKeeperSecurity = OPEN,
    ) -> None:
        """`connected` is set while there is a connection, and when this session has ended."""
        self._client = client
        self._security = security
        self._connected = connected
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self.has_ended = False
        # The number of the present connection. A request that is lost together with two of them is suspect.
        self._connection = 0
        # Held by the one write that is repeated.
        self._repeating = asyncio.Lock()
        # Every path that is watched. No path is watched for its content and for its children.
        self._watched: set[str] = set()

    def end(self) -> None:
        """Let every request raise SessionExpired, and report no more changes."""
        self.has_ended = True
        self._connected.set()

    async def execute(self, operation: Any, fence: Check | None, others: Callable[[Any], Awaitable[Any]] | None) -> Any:
        """Do one operation, as `Session.run` says, and return its result."""
        if isinstance(operation, ReadAll):
            return await _in_portions(self._read(path, watch=operation.watch) for path in operation.paths)
        if isinstance(operation, ReadChildren):
            return await self._read_children(operation.path, watch=operation.watch)
        if isinstance(operation, WriteAll):
            return await _in_portions(self._write(group, fence) for group in operation.groups)
        if isinstance(operation, Pause):
            return await asyncio.sleep(0)
        assert others is not None, operation
        self._check()
        result = await others(operation)
        self._check()
        return result

    # -- Reads

    async def _read(self, path: str, *, watch: bool) -> Znode | None:
        while True:
            try:
                data, stat = await self.ask(self._client.get_async, path, watch=watch)
                return Znode(data or b"", stat.version, stat.czxid, stat.mzxid, stat.ephemeralOwner or 0)
            except NoNodeError:
                # A watch for its creation. Where it was created in between, it is read again.
                if not watch or await self.ask(self._client.exists_async, path, watch=True) is None:
                    return None

    async def _read_children(self, path: str, *, watch: bool) -> list[str] | None:
        try:
            return sorted(await self.ask(self._client.get_children_async, path, watch=watch))
        except NoNodeError:
            return None

    # -- Writes

    async def _write(self, group: tuple[Change, ...], fence: Check | None) -> Failure | None:
        whole, connection = group if fence is None else (fence, *group), self._connection
        try:
            return _outcome(group, fence, await self._commit(whole))
        except _LOST:
            return await self._write_again(group, fence, whole, connection)

    async def _write_again(
        self, group: tuple[Change, ...], fence: Check | None, whole: tuple[Change, ...], connection: int
    ) -> Failure | None:
        """Repeat a write that was lost with this connection. Raises Dropped where ZooKeeper drops it for the write.

        ZooKeeper does so with a request that is too large for it, each time. One write at a time is repeated, so that
        those that shared the connection are not blamed.
        """
        async with self._repeating:
            while True:
                await self._wait_for_connection()
                is_other = self._connection > connection
                try:
                    results = await self._commit(whole)
                    break
                except _LOST:
                    if is_other:
                        await self._wait_for_connection()
                        if await self._is_done(group):
                            return None
                        raise self._dropped(whole) from None
        failure = _outcome(group, fence, results)
        if failure is not None and await self._is_done(group):
            # The answer to an earlier try was lost, not the try.
            return None
        return failure

    async def _commit(self, changes: tuple[Change, ...]) -> list[Any]:
        return await self._once(self._transaction(changes).commit_async)

    def _dropped(self, changes: tuple[Change, ...]) -> Dropped:
        size = sum(map(size_of, changes))
        why = f"ZooKeeper has dropped the connection twice for a write of {size} bytes to {changes[-1].path}"
        return Dropped(f"{why}: is its jute.maxbuffer smaller?")

    def _transaction(self, group: tuple[Change, ...]) -> Any:
        transaction = self._client.transaction()
        for change in group:
            if isinstance(change, Create):
                sequence, acl = change.is_sequential, self._security.acl_of(change.path)
                transaction.create(change.path, change.data, acl, ephemeral=change.ephemeral, sequence=sequence)
            elif isinstance(change, Put):
                transaction.set_data(change.path, change.data, change.version)
            elif isinstance(change, Delete):
                transaction.delete(change.path, change.version)
            else:
                transaction.check(change.path, change.version)
        return transaction

    async def _is_done(self, group: tuple[Change, ...]) -> bool:
        """Return whether the effect of every change is there."""
        found = [await self._read(change.path, watch=False) for change in group]
        return all(self._has_effect(change, znode) for change, znode in zip(group, found, strict=True))

    def _has_effect(self, change: Change, found: Znode | None) -> bool:
        if isinstance(change, Delete):
            return found is None
        if found is None:
            return False
        if isinstance(change, Check):
            return change.version in (ANY_VERSION, found.version)
        if found.data != change.data:
            return False
        if isinstance(change, Put):
            return change.version < 0 or found.version == change.version + 1
        return not change.ephemeral or found.owner == self._client.client_id[0]

    async def ensure(self, path: str) -> None:
        """Make a znode, and those above it, where they are missing."""
        await self.ask(partial(self._client.ensure_path_async, acl=self._security.acl_of(path)), path)

    # -- One request

    async def ask(self, request: Callable[..., Any], path: str, *, watch: bool = False) -> Any:
        """Send one request for a path and return its result; again while the connection was lost.

        With `watch` the next change of the path is reported. Raises SessionExpired.
        """
        options = {"watch": self._watcher} if watch else {}
        while True:
            self._check()
            if watch:
                # Before each try: the connection may be lost as soon as ZooKeeper has set the watch.
                self._watched.add(path)
            try:
                return await self._once(request, path, **options)
            except _LOST:
                await self._wait_for_connection()

    async def _once(self, request: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        self._check()
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

    def _check(self) -> None:
        if self.has_ended:
            raise SessionExpired

    async def _wait_for_connection(self) -> None:
        self._check()
        await self._connected.wait()
        # The state may have changed in the same turn.
        self._check()

    # -- Watches

    def note_connection(self) -> None:
        """Take note of a new connection, and report every watched path as changed.

        A watch ends with its connection, and kazoo does not set it again. A receiver of a change reads the path and
        watches it again.
        """
        self._connection += 1
        for path in sorted(self._watched):
            self._note_change(path)

    def _watcher(self, event: Any) -> None:
        """Called in a thread of kazoo's, once for each watch. Changes of the connection are reported to watches too."""
        if event.type != EventType.NONE and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._note_change, event.path)

    def _note_change(self, path: str) -> None:
        self._watched.discard(path)
        if not self.has_ended:
            self._on_change(path)


async def _in_portions(work: Iterable[Any]) -> list[Any]:
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


def _resolve(future: asyncio.Future[Any], result: Any) -> None:
    if future.done():
        return
    if result.exception is not None:
        future.set_exception(result.exception)
    else:
        future.set_result(result.value)


def _outcome(group: tuple[Change, ...], fence: Check | None, results: list[Any]) -> Failure | None:
    """Return why a transaction was not done. Raises Fenced."""
    if fence is None:
        return _failure(group, results)
    if isinstance(results[0], (BadVersionError, NoNodeError)):
        raise Fenced
    return _failure(group, results[1:])


def _failure(group: tuple[Change, ...], results: list[Any]) -> Failure | None:
    """Return why a transaction was not done. Of several results, one names the cause; the others were rolled back."""
    for change, result in zip(group, results, strict=True):
        if isinstance(result, KazooException) and not isinstance(result, (RolledBackError, RuntimeInconsistency)):
            flag = _ANSWERS.get(type(result))
            if flag is None:
                raise Refused(f"ZooKeeper refuses to change {change.path}: {type(result).__name__}")
            return Failure(change.path, **{flag: True})
    return None
