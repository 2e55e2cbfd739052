"""What asks other brokers of a cluster, on behalf of the coordinators and of share partitions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.create_topics import CreatableTopic
from ...protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ...protocol.schema import Message
from ..configs.broker_config import BrokerConfig
from .inter_broker import InterBroker, NewPeers, Peers
from .metadata_cache import MetadataCache
from .remote_dead_letters import RemoteDeadLetters
from .remote_markers import RemoteMarkers
from .remote_share_states import RemoteShareStates
from .remote_verification import RemoteVerification

_END_VERSION = 7
_END_TIMEOUT_S = 10.0
_CONSUMER = -1
_LATEST = -1


class Creation(Protocol):
    """What has the controller create topics."""

    def begin(self, name: str) -> bool: ...

    async def create(self, topic: CreatableTopic) -> None: ...


class RemoteEndOffsets:
    """Asks the leaders of partitions for their ends: ListOffsets."""

    def __init__(self, view: MetadataCache, peers: NewPeers) -> None:
        self._view = view
        self._peers = peers("end-offsets")

    async def find(self, topic: str, index: int) -> int:
        """Return the high watermark of a partition. Raises KafkaError."""
        leader = self._view.leader(topic, index)
        if leader is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{index} has no leader now")
        asked = ListOffsetsTopic(topic, [ListOffsetsPartition(index, timestamp=_LATEST)])
        request = ListOffsetsRequest(_CONSUMER, topics=[asked])
        response = await self._peers.to(leader).request(request, _END_VERSION, ListOffsetsResponse, _END_TIMEOUT_S)
        found = response.topics[0].partitions[0]
        if found.error_code:
            raise KafkaError(ErrorCode.of(found.error_code))
        return found.offset


class Remote(NamedTuple):
    """What this broker asks of others, by subject. End it with `close`."""

    view: MetadataCache
    inter_broker: InterBroker
    markers: RemoteMarkers
    verification: RemoteVerification
    share_states: RemoteShareStates
    end_offsets: RemoteEndOffsets
    dead_letters: RemoteDeadLetters
    # The connections of all of them.
    peers: list[Peers]

    @classmethod
    def make(
        cls,
        config: BrokerConfig,
        view: MetadataCache,
        transactions_of: Callable[[str], int],
        share_states_of: Callable[[str], int],
        creation: Callable[[], Creation] | None,
        ask_self: Callable[[Message, int], Awaitable[Message]],
    ) -> Remote:
        """`transactions_of` and `share_states_of` return the partition of a key in the topics of coordinators.

        `creation`: None where a test plays the controller.
        """
        inter_broker, made = InterBroker(config), list[Peers]()

        def peers(purpose: str) -> Peers:
            made.append(Peers(config, view, inter_broker, purpose))
            return made[-1]

        def create(topic: str) -> None:
            if creation is not None:
                creation().begin(topic)

        return cls(
            view,
            inter_broker,
            RemoteMarkers(config.node_id, view, peers),
            RemoteVerification(view, peers, transactions_of),
            RemoteShareStates(config.node_id, view, peers, share_states_of, create),
            RemoteEndOffsets(view, peers),
            RemoteDeadLetters(
                *(config.node_id, view, peers, ask_self),
                None if creation is None else lambda topic: creation().create(topic),
            ),
            made,
        )

    def close(self) -> None:
        """Close the connections."""
        self.markers.close()
        for each in self.peers:
            each.close()
