"""OdradekDescribeBroker, API key 30013, ours: what a broker knows of itself and Kafka's protocol has no words for.

Version 0 is the only one.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int16, int32, int64, string

# The partitions with damage that a response names.
MAX_NAMED = 100


class OdradekDescribeBrokerRequest(Message, key=30013, versions="0", flexible="0+"):
    pass


class OdradekDescribeBrokerResponse(Message, request=OdradekDescribeBrokerRequest):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    # The wall clock of the broker, in milliseconds since 1970.
    time_ms: int = int64("0+")
    # The damaged places in the logs of this broker, of which `damaged` names the first partitions.
    damaged_places: int = int64("0+")
    damaged: list[DamagedPartition] = array("0+")


class DamagedPartition(Struct):
    topic: str = string("0+")
    partition: int = int32("0+")
    places: int = int32("0+")
