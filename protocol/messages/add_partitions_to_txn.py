"""AddPartitionsToTxn, API key 24: a transaction is about to write to these partitions.

Versions: 2 may say PRODUCER_FENCED; 3 flexible, and the last that clients send; 4 several transactions at once, and
only to ask whether partitions were added (both among brokers); 5 may say TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, boolean, int16, int32, int64, string


class AddPartitionsToTxnRequest(Message, key=24, versions="0-5", flexible="3+"):
    transactions: list[AddPartitionsToTxnTransaction] = array("4+")
    v3_and_below_transactional_id: str = string("0-3")
    v3_and_below_producer_id: int = int64("0-3")
    v3_and_below_producer_epoch: int = int16("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array("0-3")


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = string("4+")
    producer_id: int = int64("4+")
    producer_epoch: int = int16("4+")
    verify_only: bool = boolean("4+")
    topics: list[AddPartitionsToTxnTopic] = array("4+")


class AddPartitionsToTxnTopic(Struct):
    name: str = string("0+")
    partitions: list[int] = array("0+", of="int32")


class AddPartitionsToTxnResponse(Message, request=AddPartitionsToTxnRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = array("4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array("0-3")


class AddPartitionsToTxnResult(Struct):
    transactional_id: str = string("4+")
    topic_results: list[AddPartitionsToTxnTopicResult] = array("4+")


class AddPartitionsToTxnTopicResult(Struct):
    name: str = string("0+")
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array("0+")


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = int32("0+")
    partition_error_code: int = int16("0+")
