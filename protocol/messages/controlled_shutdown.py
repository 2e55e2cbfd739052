"""ControlledShutdown, API key 7: a broker that is about to stop asks the controller to move its leaders away.

Versions: 0 has a header without a client id; 2 the broker epoch; 3 flexible. Kafka 4 has no such request: these are
the files of 3.9.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int16, int32, int64, string


class ControlledShutdownRequest(Message, key=7, versions="0-3", flexible="3+"):
    broker_id: int = int32("0+")
    broker_epoch: int = int64("2+", default=-1, ignorable=True)


class ControlledShutdownResponse(Message, request=ControlledShutdownRequest):
    error_code: int = int16("0+")
    remaining_partitions: list[RemainingPartition] = array("0+")


class RemainingPartition(Struct):
    topic_name: str = string("0+")
    partition_index: int = int32("0+")
