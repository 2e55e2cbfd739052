"""Dead letters for partitions that other brokers lead: Produce to the leaders, on the listener between brokers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.create_topics import CreatableTopic
from ...protocol.messages.produce import ProduceRequest, ProduceResponse
from ...protocol.schema import Message
from ..share_partitions.dead_letter_topics import PRODUCE_VERSION, TIMEOUT_MS, OwnWire
from .inter_broker import NewPeers, Peers
from .metadata_cache import MetadataCache

# A little longer than the leader takes to say that the ISR was too late.
TIMEOUT_S = TIMEOUT_MS / 1000 + 5


class RemoteDeadLetters:
    """A DeadLetterWire: to the leaders of partitions, and to the controller."""

    def __init__(
        self,
        own_id: int,
        view: MetadataCache,
        peers: NewPeers,
        ask_self: Callable[[Message, int], Awaitable[Message]],
        create: Callable[[CreatableTopic], Awaitable[None]] | None,
    ) -> None:
        """`create` has the controller create a topic; None where a test plays it."""
        self._own_id = own_id
        self._view = view
        self._idle: list[Peers] = []
        self._new_peers = peers
        self._own = OwnWire(ask_self)
        self._create = create

    async def produce(self, topic: str, index: int, request: ProduceRequest) -> ProduceResponse:
        leader = self._view.leader(topic, index)
        if leader is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{index} has no leader now")
        if leader.id == self._own_id:
            return await self._own.produce(topic, index, request)
        # A connection has one request at a time: one that waits for replicas must not hold up other topics. There are
        # as many as the writer sends batches at a time.
        peers = self._idle.pop() if self._idle else self._new_peers("dead-letters")
        try:
            return await peers.to(leader).request(request, PRODUCE_VERSION, ProduceResponse, TIMEOUT_S)
        finally:
            self._idle.append(peers)

    async def create(self, topic: CreatableTopic) -> None:
        if self._create is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "there is no controller")
        await self._create(topic)
