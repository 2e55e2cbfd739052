"""OdradekLeaseSegments, API key 30010, ours: the files of a range, kept on disk for a reader on this machine.

The range begins at `start_offset`. The response names whole batches in files of `directory`, which hold the range up to
`next_offset`. `cluster_id` and `directory_id` stand in `meta.properties`
beside `directory`: a reader that finds others there is on another machine. Version 0 is the only one.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int8, int16, int32, int64, string, uuid


class OdradekLeaseSegmentsRequest(Message, key=30010, versions="0", flexible="0+"):
    topic: str = string("0+")
    # All zeros: the topic that has the name now.
    topic_id: bytes = uuid("0+")
    partition: int = int32("0+")
    current_leader_epoch: int = int32("0+", default=-1)
    start_offset: int = int64("0+")
    # The first offset that the reader does not want.
    end_offset: int = int64("0+")
    isolation_level: int = int8("0+")
    max_files: int = int32("0+", default=64)


class OdradekLeaseSegmentsResponse(Message, request=OdradekLeaseSegmentsRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    high_watermark: int = int64("0+", default=-1)
    last_stable_offset: int = int64("0+", default=-1)
    log_start_offset: int = int64("0+", default=-1)
    # From here the reader asks again. Below it the files hold everything, unless the last one ends at damage.
    next_offset: int = int64("0+", default=-1)
    # -1: there are no batches below `next_offset`, and nothing is leased.
    lease_id: int = int64("0+", default=-1)
    # The lease ends when it is not renewed for so long, and at the latest after `max_life_ms`.
    lease_ms: int = int64("0+")
    max_life_ms: int = int64("0+")
    cluster_id: str = string("0+")
    directory_id: str = string("0+")
    directory: str = string("0+")
    files: list[LeasedFile] = array("0+")
    # Those that reach into the files, by first offset; none for read_uncommitted.
    aborted_transactions: list[AbortedTransaction] = array("0+")


class LeasedFile(Struct):
    name: str = string("0+")
    # Batches begin at `position` and end at `end`, in bytes.
    position: int = int64("0+")
    end: int = int64("0+")
    # No batch in the file begins before it.
    base_offset: int = int64("0+")
    # Where the range goes on behind `end`: the file holds everything that exists below it.
    next_offset: int = int64("0+")


class AbortedTransaction(Struct):
    producer_id: int = int64("0+")
    first_offset: int = int64("0+")
    # The offset of the marker.
    last_offset: int = int64("0+")
