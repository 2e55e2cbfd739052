"""Looking after transactions: ListTransactions (key 66), DescribeTransactions (65), DescribeProducers (61), and the end
of one that hangs by WriteTxnMarkers (27), which is what a coordinator sends (KIP-664).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages import describe_producers as producers
from ...protocol.messages import describe_transactions as transactions
from ...protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ...protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ..descriptions import ActiveProducer, TransactionDescription, TransactionListing
from ..errors import refuse
from ..network.cluster import Cluster
from ..network.log_offsets import by_leader, know_leaders
from ..record import TopicPartition

TRANSACTION = 1  # FindCoordinator's key type
_FIRST_DURATION_FILTER = 1


async def list_all(
    cluster: Cluster, states: Collection[str], producer_ids: Collection[int], longer_than_ms: int
) -> list[TransactionListing]:
    """Once. UNSUPPORTED_VERSION where a broker is too old to filter by duration, INVALID_REQUEST for no state."""
    await cluster.refresh()
    found: dict[str, TransactionListing] = {}
    question = ListTransactionsRequest(sorted(states), sorted(producer_ids), longer_than_ms)
    for node_id in cluster.view.nodes:
        connection = await cluster.connection(node_id)
        if longer_than_ms >= 0 and connection.version_for(ListTransactionsRequest) < _FIRST_DURATION_FILTER:
            why = f"{connection.address} cannot filter transactions by their duration"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, why)
        answer = await connection.request(question, ListTransactionsResponse)
        refuse(answer.error_code, None, f"{connection.address} cannot list its transactions")
        if answer.unknown_state_filters:
            unknown = ", ".join(answer.unknown_state_filters)
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"transactions have no state {unknown}")
        for each in answer.transaction_states:
            found[each.transactional_id] = TransactionListing(
                each.transactional_id, each.producer_id, each.transaction_state
            )
    return [found[transactional_id] for transactional_id in sorted(found)]


async def describe(cluster: Cluster, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
    described: dict[str, TransactionDescription] = {}
    for transactional_id in transactional_ids:

        async def ask(transactional_id: str = transactional_id) -> TransactionDescription:
            node_id = await cluster.coordinator(transactional_id, TRANSACTION)
            question = transactions.DescribeTransactionsRequest([transactional_id])
            answer = await cluster.ask(node_id, question, transactions.DescribeTransactionsResponse)
            (state,) = answer.transaction_states
            refuse(state.error_code, None, f"transactional id {transactional_id!r} cannot be described")
            return _description(state)

        described[transactional_id] = await cluster.until_done(ask)
    return described


async def describe_producers(
    cluster: Cluster, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, list[ActiveProducer]]:
    """Leaders are asked, again where they have moved."""
    found: dict[TopicPartition, list[ActiveProducer]] = {}

    async def ask_for_the_rest() -> None:
        rest = dict.fromkeys((partition for partition in partitions if partition not in found), 0)
        await know_leaders(cluster, rest)
        for leader, led in by_leader(cluster, rest).items():
            topics: dict[str, producers.TopicRequest] = {}
            for name, number in led:
                topics.setdefault(name, producers.TopicRequest(name)).partition_indexes.append(number)
            question = producers.DescribeProducersRequest(list(topics.values()))
            answer = await cluster.ask(leader, question, producers.DescribeProducersResponse)
            for topic in answer.topics:
                for each in topic.partitions:
                    where = TopicPartition(topic.name, each.partition_index)
                    refuse(each.error_code, each.error_message, f"the producers of {where} cannot be described")
                    found[where] = [_producer(state) for state in each.active_producers]
        if any(partition not in found for partition in partitions):
            cluster.refresh_soon()
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "some of the partitions have no leader now")

    await cluster.until_done(ask_for_the_rest)
    return found


async def abort(cluster: Cluster, partition: TopicPartition, producer: ActiveProducer) -> None:
    """Asks the partition's leader for the marker that ends the producer's transaction there as aborted."""
    topic = WritableTxnMarkerTopic(partition.topic, [partition.partition])
    # A transaction that no coordinator has ended yet has coordinator epoch -1; markers count from 0.
    epoch = max(producer.coordinator_epoch, 0)
    marker = WritableTxnMarker(producer.producer_id, producer.producer_epoch, False, [topic], epoch)

    async def ask() -> None:
        await know_leaders(cluster, {partition: 0})
        for leader in by_leader(cluster, {partition: 0}):
            answer = await cluster.ask(leader, WriteTxnMarkersRequest([marker]), WriteTxnMarkersResponse)
            for answered in (topic for result in answer.markers for topic in result.topics):
                for each in answered.partitions:
                    refuse(each.error_code, None, f"the transaction in {partition} was not aborted")
            return
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader now")

    await cluster.until_done(ask)


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


def _producer(state: producers.ProducerState) -> ActiveProducer:
    return ActiveProducer(
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_timestamp,
        state.coordinator_epoch,
        state.current_txn_start_offset if state.current_txn_start_offset >= 0 else None,
    )
