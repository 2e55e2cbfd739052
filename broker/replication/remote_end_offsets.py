"""The ends of partitions that other brokers lead: ListOffsets to them."""

from __future__ import annotations

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ..configs.broker_config import BrokerConfig
from .inter_broker import InterBroker, Peers
from .metadata_cache import MetadataCache

VERSION = 7
TIMEOUT_S = 10.0
_CONSUMER = -1
_LATEST = -1


class RemoteEndOffsets:
    """Asks the leaders of partitions."""

    def __init__(self, config: BrokerConfig, view: MetadataCache, inter_broker: InterBroker) -> None:
        self._view = view
        self._peers = Peers(config, view, inter_broker, "end-offsets")

    async def find(self, topic: str, index: int) -> int:
        """Return the high watermark of a partition. Raises KafkaError."""
        leader = self._view.leader(topic, index)
        if leader is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{index} has no leader now")
        asked = ListOffsetsTopic(topic, [ListOffsetsPartition(index, timestamp=_LATEST)])
        request = ListOffsetsRequest(_CONSUMER, topics=[asked])
        response = await self._peers.to(leader).request(request, VERSION, ListOffsetsResponse, TIMEOUT_S)
        found = response.topics[0].partitions[0]
        if found.error_code:
            raise KafkaError(ErrorCode.of(found.error_code))
        return found.offset

    def close(self) -> None:
        """Close the connections."""
        self._peers.close()
