"""The broker that coordinates a group or transactional id: found on first use, and again after it has moved.

Requests to a coordinator have a connection of their own, so that no long fetch holds them up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ...protocol.schema import Message
from ..errors import ConnectionLost, NoBrokerReachable, RequestTimedOut
from .cluster import Cluster
from .connection import COORDINATION, Connection
from .metadata import Node

R = TypeVar("R", bound=Message)

# Key types of FindCoordinator.
GROUP = 0
TRANSACTION = 1
_FIRST_BATCHED_VERSION = 4  # FindCoordinator 4 takes several keys
_MOVED = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
# The key itself is not known: there is nothing more to say of the request.
_MISSING = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND})


async def find_coordinator(cluster: Cluster, key: str, key_type: int = GROUP) -> int:
    """Return the node id of the coordinator of a group or transactional id, requested once.

    Raises KafkaError, retriable while there is no coordinator.
    """
    connection = await cluster.any_connection()
    request = coordinator_request(key, key_type, connection.version_for(FindCoordinatorRequest))
    found = coordinator_in(await connection.request(request, FindCoordinatorResponse), key)
    if found.node_id not in cluster.view.nodes:
        await cluster.refresh()
    return found.node_id


def coordinator_request(key: str, key_type: int, version: int) -> FindCoordinatorRequest:
    """Return the request for the coordinator of one key, as that version has it."""
    if version >= _FIRST_BATCHED_VERSION:
        return FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    return FindCoordinatorRequest(key_type=key_type, key=key)


def coordinator_in(response: FindCoordinatorResponse, key: str) -> Node:
    """Return the coordinator of a key that a response names. Raises KafkaError, retriable while there is none."""
    found = next((each for each in response.coordinators if each.key == key), None)
    # Before version 4 it names the one that was asked for.
    found = found or (None if response.coordinators else response)
    if found is None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the broker left {key!r} out of its answer")
    if found.error_code:
        raise KafkaError(ErrorCode.of(found.error_code), found.error_message or f"no coordinator for {key!r}")
    return Node(found.node_id, found.host, found.port)


class Coordinator:
    """The connection to the coordinator of one group or transactional id."""

    def __init__(self, cluster: Cluster, key: str, key_type: int = GROUP) -> None:
        self.cluster = cluster
        # The group id or transactional id.
        self.key = key
        self._key_type = key_type
        # None while the coordinator is not known.
        self._node_id: int | None = None

    @property
    def node(self) -> Node | None:
        """The broker of the last request; None before, or if the cluster does not know it any more."""
        return None if self._node_id is None else self.cluster.view.nodes.get(self._node_id)

    async def connection(self, purpose: str = COORDINATION) -> Connection:
        """Return an open connection to the coordinator. Raises KafkaError, retriable while there is none."""
        if self._node_id is None:
            self._node_id = await find_coordinator(self.cluster, self.key, self._key_type)
        try:
            return await self.cluster.connection(self._node_id, purpose)
        except ConnectionLost:
            self._node_id = None
            raise

    async def request(
        self, request: Message, response: type[R], *, timeout_ms: float | None = None, purpose: str = COORDINATION
    ) -> R:
        """Send one request, once. After a connection breaks, the next request looks for the coordinator again."""
        connection = await self.connection(purpose)
        return await self.request_over(connection, request, response, timeout_ms=timeout_ms)

    async def leave(self, ask: Callable[[], Awaitable[None]]) -> None:
        """Have `ask` tell the coordinator that a member leaves, and again while there is none, as while it moves.

        After request_timeout_ms, and where no broker can be reached, it gives up, and the group waits for the session
        time-out. It does so after an error that stays, too.
        """
        with suppress(KafkaError, TimeoutError):
            async with asyncio.timeout(self.cluster.options.request_timeout_ms / 1000):
                await self._ask_again(ask)

    async def _ask_again(self, ask: Callable[[], Awaitable[None]]) -> None:
        failures = 0
        while True:
            try:
                return await ask()
            except KafkaError as error:
                if isinstance(error, NoBrokerReachable) or not error.retriable:
                    raise
            if failures:  # at first at once: a connection that was closed while nobody used it tells nothing
                await asyncio.sleep(self.cluster.backoff.pause_ms(failures) / 1000)
            failures += 1

    async def request_over(
        self,
        connection: Connection,
        request: Message,
        response: type[R],
        *,
        version: int | None = None,
        timeout_ms: float | None = None,
    ) -> R:
        """Send one request over a connection from `connection()`, for callers that choose the version."""
        try:
            return await connection.request(request, response, version=version, timeout_ms=timeout_ms)
        except (ConnectionLost, RequestTimedOut):
            self._node_id = None
            raise

    def raise_error(self, code: int, operation: str, why: str | None = None) -> None:
        """Raise KafkaError for an error code of the coordinator's, unless it is 0. `why` is what it says itself.

        The next request looks for the coordinator again if the code says that it has moved.
        """
        if (found := self.error_of(code, operation, why)) is not None:
            raise found

    def error_of(self, code: int, operation: str, why: str | None = None) -> KafkaError | None:
        """Return what `raise_error` raises, None for 0."""
        error = ErrorCode.of(code)
        if error is ErrorCode.NONE:
            return None
        if error in _MOVED:
            self._node_id = None
        if error is ErrorCode.UNKNOWN_TOPIC_ID:
            self.cluster.refresh_soon()
        kind = "group" if self._key_type == GROUP else "transactional id"
        if error in _MISSING and not why:
            return KafkaError(error, f"{kind} {self.key!r} does not exist")
        return KafkaError(error, f"{operation} of {kind} {self.key!r} failed: {why or error.text}")
