"""Transactions as an administrator sees them (KIP-664): ListTransactions (key 66), DescribeTransactions (65),
DescribeProducers (61), WriteTxnMarkers (27), by which a coordinator ends a transaction, and InitProducerId (22), which
fences the producer of a transactional id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages import describe_producers as producers
from ...protocol.messages import describe_transactions as transactions
from ...protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ...protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ...protocol.messages.odradek_describe_queries import (
    DescribedQuery,
    OdradekDescribeQueriesRequest,
    OdradekDescribeQueriesResponse,
)
from ...protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ..core.cluster import Cluster
from ..core.coordinator import TRANSACTION, Coordinator, find_coordinator
from ..core.descriptions import ActiveProducer, QueryDescription, TransactionDescription, TransactionListing
from ..core.leaders import group_by_leader, know_leaders, one_by_one, request_from_leaders, retried, rows_in, timeout_of
from ..core.options import items_of
from ..errors import error_of, only, raise_error, results_of
from ..record import TopicPartition, by_topic

_FIRST_DURATION_FILTER = 1  # ListTransactions 1 filters by duration


# -- Transactional ids


@retried
async def list_transactions(
    cluster: Cluster, *, states: Collection[str] = (), producer_ids: Collection[int] = (), longer_than_ms: int = -1
) -> list[TransactionListing]:
    """Return the transactional ids of all brokers, in order.

    Only those in `states` (Ongoing, ...), of `producer_ids`, and whose transaction has been open for longer.
    Raises UNSUPPORTED_VERSION if a broker is too old to filter by duration, INVALID_REQUEST for an unknown state.
    """
    request = ListTransactionsRequest(sorted(states), sorted(producer_ids), longer_than_ms)
    await cluster.refresh()
    found: dict[str, TransactionListing] = {}
    for node_id in cluster.view.nodes:
        connection = await cluster.connection(node_id)
        if request.duration_filter >= 0 and connection.version_for(ListTransactionsRequest) < _FIRST_DURATION_FILTER:
            why = f"{connection.address} cannot filter transactions by their duration"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, why)
        response = await connection.request(request, ListTransactionsResponse)
        raise_error(response.error_code, None, f"{connection.address} cannot list its transactions")
        if response.unknown_state_filters:
            unknown = ", ".join(response.unknown_state_filters)
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"transactions have no state {unknown}")
        for each in response.transaction_states:
            listing = TransactionListing(each.transactional_id, each.producer_id, each.transaction_state)
            found[each.transactional_id] = listing
    return [found[transactional_id] for transactional_id in sorted(found)]


@retried
async def list_queries(cluster: Cluster) -> list[QueryDescription]:
    """Return the queries whose tasks commit together, in order: those of Spark's sink.

    Raises UnsupportedVersion for brokers that are not Odradek.
    """
    await cluster.refresh()
    found: dict[str, QueryDescription] = {}
    for node_id in cluster.view.nodes:
        response = await cluster.request(node_id, OdradekDescribeQueriesRequest(), OdradekDescribeQueriesResponse)
        raise_error(response.error_code, None, f"broker {node_id} cannot list its queries")
        found.update({each.query_id: _query(each) for each in response.queries})
    return [found[query_id] for query_id in sorted(found)]


def _query(each: DescribedQuery) -> QueryDescription:
    committed, current = (None if batch < 0 else batch for batch in (each.committed_batch_id, each.current_batch_id))
    return QueryDescription(
        each.query_id, each.run_id, committed, current, each.last_update_ms, tuple(each.transactional_ids)
    )


async def describe_transactions(
    cluster: Cluster, *transactional_ids: str | Iterable[str]
) -> dict[str, TransactionDescription]:
    """Return state, producer and partitions of transactional ids. Raises TRANSACTIONAL_ID_NOT_FOUND."""
    wanted = items_of("describe_transactions", str, transactional_ids)
    return await one_by_one(cluster, wanted, lambda each: describe_transaction(cluster, each))


async def describe_transaction(cluster: Cluster, transactional_id: str) -> TransactionDescription:
    """Return state, producer and partitions of one. Raises as `describe_transactions`."""
    request = transactions.DescribeTransactionsRequest([transactional_id])
    node_id = await find_coordinator(cluster, transactional_id, TRANSACTION)
    response = await cluster.request(node_id, request, transactions.DescribeTransactionsResponse)
    state = only(response.transaction_states, transactional_id)
    if ErrorCode.of(state.error_code) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise KafkaError(ErrorCode.of(state.error_code), f"transactional id {transactional_id!r} does not exist")
    raise_error(state.error_code, None, f"transactional id {transactional_id!r} cannot be described")
    return _description(state)


def _description(state: transactions.TransactionState) -> TransactionDescription:
    began_ms = state.transaction_start_time_ms if state.transaction_start_time_ms >= 0 else None
    partitions = tuple(TopicPartition(topic.topic, number) for topic in state.topics for number in topic.partitions)
    return TransactionDescription(
        state.transactional_id,
        state.transaction_state,
        state.producer_id,
        state.producer_epoch,
        state.transaction_timeout_ms,
        began_ms,
        partitions,
    )


async def fence_producers(cluster: Cluster, *transactional_ids: str | Iterable[str]) -> None:
    """Fence the producers of transactional ids: open transactions are aborted, and their next call fails.

    Each id gets a newer epoch. Raises KafkaError, TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
    """
    wanted = items_of("fence_producers", str, transactional_ids)
    coordinators = {each: Coordinator(cluster, each, TRANSACTION) for each in wanted}
    await one_by_one(cluster, coordinators, lambda each: _fence_one(coordinators[each], timeout_of(cluster)))


async def _fence_one(coordinator: Coordinator, timeout_ms: int) -> None:
    response = await coordinator.request(InitProducerIdRequest(coordinator.key, timeout_ms), InitProducerIdResponse)
    coordinator.raise_error(response.error_code, "the fencing")


# -- Producers of partitions


async def describe_producers(
    cluster: Cluster, *partitions: TopicPartition | Iterable[TopicPartition]
) -> dict[TopicPartition, list[ActiveProducer]]:
    """Return the producers that partitions remember, with the start of their open transactions."""
    wanted = dict.fromkeys(items_of("describe_producers", TopicPartition, partitions))

    async def request(
        leader: int, led: Collection[TopicPartition]
    ) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
        request = producers.DescribeProducersRequest([producers.TopicRequest(*each) for each in by_topic(led).items()])
        response = await cluster.request(leader, request, producers.DescribeProducersResponse)
        return {
            each: error_of(row.error_code, row.error_message, f"the producers of {each} cannot be described")
            or [_producer(state) for state in row.active_producers]
            for each, row in rows_in(response).items()
        }

    text = "some of the partitions have no leader now"
    return results_of(await request_from_leaders(cluster, wanted, request, lambda _: text))


def _producer(state: producers.ProducerState) -> ActiveProducer:
    return ActiveProducer(
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_timestamp,
        state.coordinator_epoch,
        state.current_txn_start_offset if state.current_txn_start_offset >= 0 else None,
    )


@retried
async def abort_transaction(cluster: Cluster, partition: TopicPartition, producer: ActiveProducer) -> None:
    """Abort a transaction that hangs in a partition, without its coordinator: its leader writes the marker."""
    topic = WritableTxnMarkerTopic(partition.topic, [partition.partition])
    # A transaction that no coordinator has ended yet has coordinator epoch -1; epochs of markers count from 0.
    epoch = max(producer.coordinator_epoch, 0)
    marker = WritableTxnMarker(producer.producer_id, producer.producer_epoch, False, [topic], epoch)
    await know_leaders(cluster, [partition])
    for leader in group_by_leader(cluster, [partition]):
        response = await cluster.request(leader, WriteTxnMarkersRequest([marker]), WriteTxnMarkersResponse)
        result = only(only(only(response.markers, producer).topics, partition).partitions, partition)
        raise_error(result.error_code, None, f"the transaction in {partition} was not aborted")
        return
    raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader now")
