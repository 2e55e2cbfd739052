"""OdradekJoinQuery, API key 30000: a task takes part in a batch of a query. Version 0, flexible. Odradek alone.

The coordinator of the query id answers. A run is one start of the query: the first request of a new run fences the run
before, and aborts the transactions that it left open. The response names the transactional id that the task has to use,
which belongs to the partition of `__transaction_state` that the query id belongs to. `is_done` says that the batch was
committed before: there is nothing to write.
"""

from __future__ import annotations

from ..schema import Message, boolean, int16, int32, int64, string


class OdradekJoinQueryRequest(Message, key=30000, versions="0", flexible="0+"):
    query_id: str = string("0+")
    run_id: str = string("0+")
    batch_id: int = int64("0+")
    task: str = string("0+")


class OdradekJoinQueryResponse(Message, request=OdradekJoinQueryRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    transactional_id: str = string("0+")
    is_done: bool = boolean("0+")
