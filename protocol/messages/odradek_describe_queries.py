"""OdradekDescribeQueries, API key 30002: the queries that a broker coordinates. Version 0, flexible. Odradek alone.

Without a list of ids, all of them.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int16, int32, int64, string


class OdradekDescribeQueriesRequest(Message, key=30002, versions="0", flexible="0+"):
    query_ids: list[str] | None = array("0+", of="string", nullable="0+", default=None)


class OdradekDescribeQueriesResponse(Message, request=OdradekDescribeQueriesRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    queries: list[DescribedQuery] = array("0+")


class DescribedQuery(Struct):
    query_id: str = string("0+")
    run_id: str = string("0+")
    committed_batch_id: int = int64("0+")
    """-1 before the first commit."""
    current_batch_id: int = int64("0+")
    """The batch that tasks have joined since the coordinator has started, -1 if none."""
    last_update_ms: int = int64("0+")
    transactional_ids: list[str] = array("0+", of="string")
    """Those whose transaction is open."""
