"""Transactions over the wire: whose they are, what each version may say, how they end, what outsiders see."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.broker import Broker
from odradek.broker.coordination.interfaces import Question
from odradek.broker.topics.topic_names import TRANSACTIONS_TOPIC
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.list_transactions import ListTransactionsRequest
from odradek.protocol.topic_partition import TopicPartition
from odradek.tests.support.clients.raw import Raw

Codes = dict[tuple[str, int], int]


async def init(raw: Raw, version: int = 5, name: str | None = "x", **fields: Any) -> Any:
    request = InitProducerIdRequest(name, **{"transaction_timeout_ms": 60_000, **fields})
    return await raw.ask(ApiKey.INIT_PRODUCER_ID, version, request)


async def add(raw: Raw, who: Any, *indexes: int, version: int = 3, topic: str = "t", epoch: int | None = None) -> Codes:
    epoch = who.producer_epoch if epoch is None else epoch
    topics = [AddPartitionsToTxnTopic(topic, list(indexes))]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=who.producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=topics,
    )
    return codes((await raw.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, request)).results_by_topic_v3_and_below)


async def add_batch(raw: Raw, *transactions: AddPartitionsToTxnTransaction, version: int = 5) -> list[Codes]:
    request = AddPartitionsToTxnRequest(transactions=list(transactions))
    response = await raw.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, request)
    return [codes(each.topic_results) for each in response.results_by_transaction]


def codes(topics: list[Any]) -> Codes:
    return {
        (topic.name, each.partition_index): each.partition_error_code
        for topic in topics
        for each in topic.results_by_partition
    }


async def end(raw: Raw, who: Any, commit: bool = True, version: int = 5, epoch: int | None = None) -> Any:
    epoch = who.producer_epoch if epoch is None else epoch
    return await raw.ask(ApiKey.END_TXN, version, EndTxnRequest("x", who.producer_id, epoch, commit))


async def describe(raw: Raw, name: str = "x") -> Any:
    request = DescribeTransactionsRequest([name])
    return (await raw.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, request)).transaction_states[0]


async def listed(raw: Raw, **filters: Any) -> list[str]:
    response = await raw.ask(ApiKey.LIST_TRANSACTIONS, 2, ListTransactionsRequest(**filters))
    assert response.error_code == 0
    return [each.transactional_id for each in response.transaction_states]


async def test_the_first_find_coordinator_creates_the_topic(broker: Broker, raw: Raw) -> None:
    found = await raw.ask(ApiKey.FIND_COORDINATOR, 6, FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]))
    assert [each.error_code for each in found.coordinators] == [0]
    topic = broker.topics.get(TRANSACTIONS_TOPIC)
    assert topic is not None
    assert topic.is_internal
    assert len(topic.partitions) == broker.config.transaction_state_log_num_partitions


async def test_each_producer_of_an_id_gets_the_next_epoch(raw: Raw) -> None:
    first, second = await init(raw), await init(raw)
    assert (first.error_code, first.producer_epoch) == (0, 0)
    assert (second.producer_id, second.producer_epoch) == (first.producer_id, 1)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
async def test_a_timeout_out_of_range_is_refused(raw: Raw, timeout_ms: int) -> None:
    assert (await init(raw, transaction_timeout_ms=timeout_ms)).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


@pytest.mark.parametrize(("version", "error"), [(3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)])
async def test_init_producer_id_words_fencing_by_its_version(raw: Raw, version: int, error: ErrorCode) -> None:
    first = await init(raw)
    await init(raw)
    again = await init(raw, version, producer_id=first.producer_id, producer_epoch=0)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (error, -1, -1)


@pytest.mark.parametrize(("version", "error"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)])
async def test_other_requests_word_fencing_by_their_version(raw: Raw, version: int, error: ErrorCode) -> None:
    await raw.create_topic("t")
    who = await init(raw)
    assert await add(raw, who, 0, version=version, epoch=7) == {("t", 0): error}
    assert (await end(raw, who, version=version, epoch=7)).error_code == error
    request = AddOffsetsToTxnRequest("x", who.producer_id, 7, "g")
    assert (await raw.ask(ApiKey.ADD_OFFSETS_TO_TXN, version, request)).error_code == error


async def test_internal_topics_cannot_be_added_to_a_transaction(raw: Raw) -> None:
    await raw.create_topic("t")
    who = await init(raw)
    refused = {("__transaction_state", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert await add(raw, who, 0, topic="__transaction_state") == refused
    topics = [AddPartitionsToTxnTopic("t", [0]), AddPartitionsToTxnTopic("__transaction_state", [0])]
    request = AddPartitionsToTxnRequest([], "x", who.producer_id, who.producer_epoch, topics)
    response = await raw.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, request)
    not_tried = {("t", 0): ErrorCode.OPERATION_NOT_ATTEMPTED}
    assert codes(response.results_by_topic_v3_and_below) == not_tried | refused
    # Brokers may: a group's partition is brought in so.
    among_brokers = AddPartitionsToTxnTransaction("x", who.producer_id, who.producer_epoch, False, topics[1:])
    assert await add_batch(raw, among_brokers) == [{("__transaction_state", 0): 0}]


async def test_an_unknown_transactional_id(raw: Raw) -> None:
    await raw.create_topic("t")
    who = await init(raw, name="another")
    unknown = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await add(raw, who, 0) == {("t", 0): unknown}
    assert (await end(raw, who)).error_code == unknown
    assert (await describe(raw)).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


async def test_an_unknown_partition_means_that_none_is_added(raw: Raw) -> None:
    await raw.create_topic("t", 2)
    who = await init(raw)
    refused = {("t", 0): ErrorCode.OPERATION_NOT_ATTEMPTED, ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert await add(raw, who, 0, 9) == refused
    assert (await describe(raw)).transaction_state == "Empty"


async def test_a_transaction_from_its_beginning_to_its_end(raw: Raw) -> None:
    await raw.create_topic("t", 3)
    who = await init(raw)
    assert set((await add(raw, who, 0, 2)).values()) == {0}
    request = AddOffsetsToTxnRequest("x", who.producer_id, 0, "g")
    assert (await raw.ask(ApiKey.ADD_OFFSETS_TO_TXN, 4, request)).error_code == 0
    seen = await describe(raw)
    assert seen.transaction_state == "Ongoing"
    assert seen.transaction_start_time_ms > 0
    assert [(each.topic, each.partitions) for each in seen.topics][1:] == [("t", [0, 2])]
    ended = await end(raw, who)
    assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (0, who.producer_id, 1)
    seen = await describe(raw)
    assert (seen.transaction_state, seen.producer_epoch, seen.topics) == ("CompleteCommit", 1, [])


async def test_brokers_add_and_verify_several_transactions_at_once(raw: Raw) -> None:
    await raw.create_topic("t", 2)
    who, other = await init(raw), await init(raw, name="y")
    topics = [AddPartitionsToTxnTopic("t", [0, 1])]
    assert await add_batch(
        raw,
        AddPartitionsToTxnTransaction("x", who.producer_id, 0, False, [AddPartitionsToTxnTopic("t", [0])]),
        AddPartitionsToTxnTransaction("y", other.producer_id, 5, False, topics),
    ) == [{("t", 0): 0}, {("t", 0): ErrorCode.PRODUCER_FENCED, ("t", 1): ErrorCode.PRODUCER_FENCED}]
    assert await add_batch(raw, AddPartitionsToTxnTransaction("x", who.producer_id, 0, True, topics)) == [
        {("t", 0): 0, ("t", 1): ErrorCode.TRANSACTION_ABORTABLE}
    ]


async def test_lists_by_state_producer_duration_and_pattern(raw: Raw) -> None:
    await raw.create_topic("t")
    who = await init(raw)
    await init(raw, name="app-1")
    await add(raw, who, 0)
    assert await listed(raw) == ["x", "app-1"]
    assert await listed(raw, state_filters=["Ongoing"]) == ["x"]
    assert await listed(raw, producer_id_filters=[who.producer_id]) == ["x"]
    assert await listed(raw, state_filters=["Ongoing"], duration_filter=10**9) == []
    assert await listed(raw, transactional_id_pattern="app-[0-9]") == ["app-1"]
    response = await raw.ask(ApiKey.LIST_TRANSACTIONS, 0, ListTransactionsRequest(["Wrong", "Wrong"]))
    assert (response.unknown_state_filters, response.transaction_states) == (["Wrong"], [])
    for pattern in ("(", r"app-\C"):
        request = ListTransactionsRequest(transactional_id_pattern=pattern)
        response = await raw.ask(ApiKey.LIST_TRANSACTIONS, 2, request)
        assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


async def test_a_batch_is_verified_if_its_partition_was_added_or_is_added_with_it(broker: Broker, raw: Raw) -> None:
    await raw.create_topic("t", 2)
    who = await init(raw)
    await add(raw, who, 0)

    def verified(transactional_id: str, epoch: int, partition: int, implicit: bool) -> object:
        asked = Question(transactional_id, who.producer_id, epoch, TopicPartition("t", partition), implicit)
        return broker.services.transactions.verify(asked)

    assert verified("x", 0, 0, implicit=False) is ErrorCode.NONE
    assert verified("x", 0, 1, implicit=False) is ErrorCode.TRANSACTION_ABORTABLE
    assert verified("x", 0, 1, implicit=True) is ErrorCode.NONE
    assert verified("x", 0, 1, implicit=False) is ErrorCode.NONE
    assert verified("x", 1, 0, implicit=True) is ErrorCode.PRODUCER_FENCED
    assert verified("y", 0, 0, implicit=True) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


async def test_transactions_of_version_2_are_offered(raw: Raw) -> None:
    response = await raw.ask(ApiKey.API_VERSIONS, 4, ApiVersionsRequest("tests", "1"))
    assert [(each.name, each.min_version, each.max_version) for each in response.supported_features] == [
        ("transaction.version", 1, 2),
        ("group.version", 0, 1),
        ("share.version", 0, 2),
    ]
    assert [each.max_version_level for each in response.finalized_features] == [2, 1, 2]
