"""OdradekEndQueryBatch, API key 30001: all transactions of a query's batch end together. Version 0, flexible. Odradek
alone.

With `committed` all of them commit or none does. `was_done` says that the batch was committed before: then the
participants of this request are aborted, because their records are in the log already.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, boolean, int16, int32, int64, string

# The most participants of a request. They are one record batch, of some 200 bytes each and more for many partitions.
MAX_PARTICIPANTS = 2_000


class OdradekEndQueryBatchRequest(Message, key=30001, versions="0", flexible="0+"):
    query_id: str = string("0+")
    run_id: str = string("0+")
    batch_id: int = int64("0+")
    committed: bool = boolean("0+")
    participants: list[Participant] = array("0+")


class OdradekEndQueryBatchResponse(Message, request=OdradekEndQueryBatchRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    was_done: bool = boolean("0+")


class Participant(Struct):
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
