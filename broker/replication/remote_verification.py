"""Transaction verification where another broker coordinates the transaction: AddPartitionsToTxn to it (KIP-890)."""

from __future__ import annotations

from collections.abc import Callable

from ...protocol.errors import ErrorCode
from ...protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ...protocol.topic_partition import TopicPartition
from ..configs.broker_config import BrokerConfig
from ..topics.topic_names import TRANSACTIONS_TOPIC
from .inter_broker import InterBroker, Peers
from .metadata_cache import MetadataCache
from .peer import PeerLost

# The first that may say TRANSACTION_ABORTABLE.
VERSION = 5
# Connections to each coordinator, opened as they are needed: who waits for the markers of its last transaction is
# answered late, and a connection has one request under way.
WAYS = 10
# A producer's request waits for it.
TIMEOUT_S = 10.0


class RemoteVerification:
    """Asks the coordinator of a transactional id whether a partition belongs to its open transaction."""

    def __init__(
        self, config: BrokerConfig, view: MetadataCache, inter_broker: InterBroker, partition_of: Callable[[str], int]
    ) -> None:
        """`partition_of` returns the partition of `__transaction_state` of a transactional id."""
        self._view = view
        self._partition_of = partition_of
        self._ways = [Peers(config, view, inter_broker, "verification") for _ in range(WAYS)]

    async def ask(
        self, transactional_id: str, producer_id: int, producer_epoch: int, place: TopicPartition, implicit: bool
    ) -> ErrorCode:
        """Return the coordinator's error. `implicit` adds the partition; COORDINATOR_NOT_AVAILABLE if it is gone."""
        partition = self._partition_of(transactional_id)
        coordinator = self._view.leader(TRANSACTIONS_TOPIC, partition)
        if coordinator is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        topic, index = place
        transaction = AddPartitionsToTxnTransaction(
            transactional_id, producer_id, producer_epoch, not implicit, [AddPartitionsToTxnTopic(topic, [index])]
        )
        request = AddPartitionsToTxnRequest(transactions=[transaction])
        try:
            peer = min((way.to(coordinator) for way in self._ways), key=lambda peer: peer.waiting)
            response = await peer.request(request, VERSION, AddPartitionsToTxnResponse, TIMEOUT_S)
        except PeerLost:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if response.error_code:
            return ErrorCode.of(response.error_code)
        result = response.results_by_transaction[0].topic_results[0].results_by_partition[0]
        return ErrorCode.of(result.partition_error_code)

    def close(self) -> None:
        """Close the connections."""
        for way in self._ways:
            way.close()
