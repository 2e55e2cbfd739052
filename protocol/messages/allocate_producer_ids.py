"""AllocateProducerIds, API key 67: Kafka's broker asks the controller for producer ids (KIP-730)."""

from __future__ import annotations

from ..schema import Message, int16, int32, int64


class AllocateProducerIdsRequest(Message, key=67, versions="0", flexible="0+"):
    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)


class AllocateProducerIdsResponse(Message, request=AllocateProducerIdsRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id_start: int = int64("0+")
    producer_id_len: int = int32("0+")
