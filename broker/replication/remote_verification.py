"""Transaction verification where another broker coordinates the transaction: AddPartitionsToTxn to it (KIP-890)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...protocol.errors import ErrorCode
from ...protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ...protocol.topic_partition import TopicPartition
from ..coordination.interfaces import Question
from ..topics.topic_names import TRANSACTIONS_TOPIC
from .inter_broker import NewPeers
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

    def __init__(self, view: MetadataCache, peers: NewPeers, partition_of: Callable[[str], int]) -> None:
        """`partition_of` returns the partition of `__transaction_state` of a transactional id."""
        self._view = view
        self._partition_of = partition_of
        self._ways = [peers("verification") for _ in range(WAYS)]

    async def ask(self, asked: Question) -> ErrorCode:
        """Return the coordinator's error; COORDINATOR_NOT_AVAILABLE if it is gone."""
        coordinator = self._view.leader(TRANSACTIONS_TOPIC, self._partition_of(asked.transactional_id))
        if coordinator is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        topics = [AddPartitionsToTxnTopic(*each) for each in _by_name({asked.place} | asked.also).items()]
        producer = asked.producer_id, asked.producer_epoch
        transaction = AddPartitionsToTxnTransaction(asked.transactional_id, *producer, not asked.implicit, topics)
        request = AddPartitionsToTxnRequest(transactions=[transaction])
        try:
            peer = min((way.to(coordinator) for way in self._ways), key=lambda peer: peer.waiting)
            response = await peer.request(request, VERSION, AddPartitionsToTxnResponse, TIMEOUT_S)
        except PeerLost:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if response.error_code:
            return ErrorCode.of(response.error_code)
        error = _error_of(response, asked.place)
        if error is ErrorCode.OPERATION_NOT_ATTEMPTED and asked.also:
            # The coordinator does not know one of the others.
            return await self.ask(asked._replace(also=frozenset()))
        return error


def _by_name(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partitions of each topic."""
    topics: dict[str, list[int]] = {}
    for name, index in sorted(places):
        topics.setdefault(name, []).append(index)
    return topics


def _error_of(response: AddPartitionsToTxnResponse, place: TopicPartition) -> ErrorCode:
    for topic in response.results_by_transaction[0].topic_results:
        for each in topic.results_by_partition:
            if (topic.name, each.partition_index) == place:
                return ErrorCode.of(each.partition_error_code)
    return ErrorCode.COORDINATOR_NOT_AVAILABLE
