"""Single requests to the brokers of a simulated cluster, by connections that are kept: for odd and old clients."""

from __future__ import annotations

import asyncio
from random import Random

from odradek.client.core.connection import Connection
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

from .history import Place
from .load import ATTEMPT_MS

_GROUP, _TRANSACTION = 0, 1
# For how long it does not ask again which broker is the right one.
_KNOWN_S = 1.0


class Requests:
    """The connections of one client. `chance` draws the broker that is asked first."""

    def __init__(self, addresses: str, name: str, chance: Random, patience_ms: int = ATTEMPT_MS) -> None:
        self._addresses, self._name, self._chance, self._patience_ms = addresses, name, chance, patience_ms
        self._connections: dict[tuple[str, int], Connection] = {}
        self._found: dict[tuple[object, ...], tuple[float, str, int]] = {}

    def close(self) -> None:
        """Leave."""
        for each in self._connections.values():
            each.abort(KafkaError(ErrorCode.NETWORK_EXCEPTION, "over"))
        self._connections.clear()

    async def _connection(self, host: str, port: int) -> Connection:
        found = self._connections.get((host, port))
        if found is None or found.closed:
            found = await Connection.open(host, port, client_id=self._name, request_timeout_ms=self._patience_ms)
            self._connections[host, port] = found
        return found

    async def any(self) -> Connection:
        """Return a connection to some broker."""
        host, port = self._chance.choice(self._addresses.split(",")).rsplit(":", 1)
        return await self._connection(host, int(port))

    def _known(self, what: tuple[object, ...]) -> tuple[str, int] | None:
        """Return the address of what was found lately."""
        found_s, host, port = self._found.get(what, (-_KNOWN_S, "", 0))
        return (host, port) if asyncio.get_running_loop().time() < found_s + _KNOWN_S else None

    async def _note(self, what: tuple[object, ...], host: str, port: int) -> Connection:
        """Take down where something is, and return a connection to it."""
        self._found[what] = asyncio.get_running_loop().time(), host, port
        return await self._connection(host, port)

    async def transaction_coordinator(self, transactional_id: str) -> Connection:
        """Return a connection to the coordinator of a transactional id."""
        return await self._coordinator(transactional_id, _TRANSACTION)

    async def group_coordinator(self, group: str) -> Connection:
        """Return a connection to the coordinator of a group."""
        return await self._coordinator(group, _GROUP)

    async def _coordinator(self, key: str, kind: int) -> Connection:
        if known := self._known((kind, key)):
            return await self._connection(*known)
        any_broker = await self.any()
        found = await any_broker.request(FindCoordinatorRequest(key, kind), FindCoordinatorResponse, version=2)
        check(found.error_code)
        return await self._note((kind, key), found.host, found.port)

    async def topic_id(self, topic: str) -> bytes:
        """Return the id of a topic."""
        any_broker = await self.any()
        found = await any_broker.request(
            MetadataRequest([MetadataRequestTopic(name=topic)]), MetadataResponse, version=10
        )
        check(found.topics[0].error_code)
        return found.topics[0].topic_id

    async def leader(self, place: Place) -> Connection:
        """Return a connection to the leader of a partition."""
        if known := self._known(place):
            return await self._connection(*known)
        any_broker = await self.any()
        request = MetadataRequest([MetadataRequestTopic(name=place[0])])
        found = await any_broker.request(request, MetadataResponse, version=7)
        partition = next(each for each in found.topics[0].partitions if each.partition_index == place[1])
        check(partition.error_code)
        broker = next((each for each in found.brokers if each.node_id == partition.leader_id), None)
        if broker is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "no leader")
        return await self._note(place, broker.host, broker.port)


def check(code: int) -> None:
    """Raise the error of a response."""
    if code:
        raise KafkaError(ErrorCode.of(code), "answered")
