"""WriteTxnMarkers, API key 27: a transaction coordinator ends transactions in partitions that others lead.

Versions: 1 flexible; 2 says which version of transactions a marker is of (KIP-1228). 0 is no longer in Kafka 4's files.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, boolean, int8, int16, int32, int64, string


class WriteTxnMarkersRequest(Message, key=27, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarker] = array("0+")


class WritableTxnMarker(Struct):
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    transaction_result: bool = boolean("0+")
    topics: list[WritableTxnMarkerTopic] = array("0+")
    coordinator_epoch: int = int32("0+")
    transaction_version: int = int8("2+", default=0, ignorable=True)


class WritableTxnMarkerTopic(Struct):
    name: str = string("0+")
    partition_indexes: list[int] = array("0+", of="int32")


class WriteTxnMarkersResponse(Message, request=WriteTxnMarkersRequest):
    markers: list[WritableTxnMarkerResult] = array("0+")


class WritableTxnMarkerResult(Struct):
    producer_id: int = int64("0+")
    topics: list[WritableTxnMarkerTopicResult] = array("0+")


class WritableTxnMarkerTopicResult(Struct):
    name: str = string("0+")
    partitions: list[WritableTxnMarkerPartitionResult] = array("0+")


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
