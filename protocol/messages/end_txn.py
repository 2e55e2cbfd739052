"""EndTxn, API key 26: a transaction is to be committed or aborted.

Versions: 2 may say PRODUCER_FENCED; 3 flexible; 4 may say TRANSACTION_ABORTABLE; 5 tells the producer id and epoch of
the next transaction (KIP-890: the epoch grows with each).
"""

from __future__ import annotations

from ..schema import Message, boolean, int16, int32, int64, string


class EndTxnRequest(Message, key=26, versions="0-5", flexible="3+"):
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    committed: bool = boolean("0+")


class EndTxnResponse(Message, request=EndTxnRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id: int = int64("5+", default=-1, ignorable=True)
    producer_epoch: int = int16("5+", default=-1, ignorable=True)
