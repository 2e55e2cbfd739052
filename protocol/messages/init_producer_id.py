"""InitProducerId, API key 22: an id for an idempotent producer, or for the next epoch of a transactional one.

Versions: 2 flexible; 3 the producer's present id and epoch, to go on from; 4 may say PRODUCER_FENCED; 5 may say
TRANSACTION_ABORTABLE; 6 two-phase commit (KIP-939), which Kafka 4.4.0 specifies and does not offer.
"""

from __future__ import annotations

from ..schema import Message, boolean, int16, int32, int64, string


class InitProducerIdRequest(Message, key=22, versions="0-6", flexible="2+"):
    transactional_id: str | None = string("0+", nullable="0+")
    transaction_timeout_ms: int = int32("0+")
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable2_pc: bool = boolean("6+")
    keep_prepared_txn: bool = boolean("6+")


class InitProducerIdResponse(Message, request=InitProducerIdRequest):
    throttle_time_ms: int = int32("0+", ignorable=True)
    error_code: int = int16("0+")
    producer_id: int = int64("0+", default=-1)
    producer_epoch: int = int16("0+")
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)
