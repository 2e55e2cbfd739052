"""OdradekDescribeBroker, API key 30013, ours: what a broker knows of itself and Kafka's protocol has no words for.

Version 1 adds what the broker knows of one share group: its records in flight, and its dead letters since the start.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int16, int32, int64, string

# The partitions with damage that a response names.
MAX_NAMED = 100


class OdradekDescribeBrokerRequest(Message, key=30013, versions="0-1", flexible="0+"):
    # Null: no share group.
    share_group: str | None = string("1+", nullable="1+", default=None, ignorable=True)


class OdradekDescribeBrokerResponse(Message, request=OdradekDescribeBrokerRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    # The wall clock of the broker, in milliseconds since 1970.
    time_ms: int = int64("0+")
    # The damaged places in the logs of this broker, of which `damaged` names the first partitions.
    damaged_places: int = int64("0+")
    damaged: list[DamagedPartition] = array("0+")
    # Records of the share group that members hold, and that are being written as dead letters.
    held: int = int64("1+", ignorable=True)
    archiving: int = int64("1+", ignorable=True)
    # Those that are dead, by cause, and how many of them have no dead letter.
    rejected: int = int64("1+", ignorable=True)
    delivered_too_often: int = int64("1+", ignorable=True)
    lost: int = int64("1+", ignorable=True)


class DamagedPartition(Struct):
    topic: str = string("0+")
    partition: int = int32("0+")
    places: int = int32("0+")
