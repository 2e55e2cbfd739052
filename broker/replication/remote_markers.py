"""Transaction markers for partitions that other brokers lead: WriteTxnMarkers to the leader."""

from __future__ import annotations

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ..configs.broker_config import BrokerConfig
from ..coordination.transactions.markers import TransactionEnd
from .peers import Peers
from .view import ClusterView

VERSION = 2
# A marker that fails is tried again by the transaction, to the leader of that time.
TIMEOUT_S = 30.0


class RemoteMarkers:
    """Has the leaders of partitions write markers."""

    def __init__(self, config: BrokerConfig, view: ClusterView) -> None:
        self._view = view
        self._peers = Peers(config, view, "markers")

    async def write(self, topic: str, index: int, end: TransactionEnd) -> None:
        """Return when the marker is in the ISR. Raises KafkaError, LEADER_NOT_AVAILABLE where there is no leader."""
        leader = self._view.leader(topic, index)
        if leader is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{index} has no leader")
        peer = self._peers.to(leader)
        marker = WritableTxnMarker(
            end.producer_id,
            end.producer_epoch,
            end.commit,
            [WritableTxnMarkerTopic(topic, [index])],
            end.coordinator_epoch,
            end.transaction_version,
        )
        response = await peer.request(WriteTxnMarkersRequest([marker]), VERSION, WriteTxnMarkersResponse, TIMEOUT_S)
        code = ErrorCode.of(response.markers[0].topics[0].partitions[0].error_code)
        if code:
            raise KafkaError(code, f"the leader of {topic}-{index} does not write the marker: {code.name}")

    def close(self) -> None:
        """Close the connections; waiting markers fail."""
        self._peers.close()
