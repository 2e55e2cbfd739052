"""ListTransactions, API key 66: the transactional ids that a broker coordinates.

Versions: 1 those that have run for longer than so long (KIP-994); 2 those whose id matches a pattern (KIP-1152).
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int16, int32, int64, string


class ListTransactionsRequest(Message, key=66, versions="0-2", flexible="0+"):
    state_filters: list[str] = array("0+", of="string")
    producer_id_filters: list[int] = array("0+", of="int64")
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable="2+", default=None)


class ListTransactionsResponse(Message, request=ListTransactionsRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    unknown_state_filters: list[str] = array("0+", of="string")
    transaction_states: list[TransactionState] = array("0+")


class TransactionState(Struct):
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    transaction_state: str = string("0+")
