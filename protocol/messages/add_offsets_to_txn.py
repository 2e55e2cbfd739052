"""AddOffsetsToTxn, API key 25: a transaction is about to commit offsets of this group.

Versions: 2 may say PRODUCER_FENCED; 3 flexible; 4 may say TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from ..schema import Message, int16, int32, int64, string


class AddOffsetsToTxnRequest(Message, key=25, versions="0-4", flexible="3+"):
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    group_id: str = string("0+")


class AddOffsetsToTxnResponse(Message, request=AddOffsetsToTxnRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
