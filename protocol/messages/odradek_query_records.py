"""The records of queries in `__transaction_state`: the run that may write, and the last batch that was committed.

A key begins with its type as int16, a value with its version, as Kafka's records there do. Kafka does not know the type
and steps over such records (KIP-915).
"""

from __future__ import annotations

from ..schema import Message, array, int64, string


class QueryLogKey(Message, key=30000, versions="0"):
    query_id: str = string("0")


class QueryLogValue(Message, key=30000, versions="0", flexible="0+"):
    run_id: str = string("0+")
    former_runs: list[str] = array("0+", of="string")
    batch_id: int = int64("0+")
    last_update_ms: int = int64("0+")
