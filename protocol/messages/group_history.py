"""A group's rebalances as our brokers tell them: what the tagged field `history` of DescribeGroups holds.

Not of Kafka's protocol. It begins with its version as int16 (encode_versioned, decode_versioned); a newer version is a
new number, so that a reader that does not know it says so. Times are the broker's wall clock in ms, -1 for not yet.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, boolean, int32, int64, string


class GroupHistory(Message, versions="0", flexible="0+"):
    rebalances: list[HistoricRebalance] = array("0+")


class HistoricRebalance(Struct):
    began_ms: int = int64("0+")
    joined_ms: int = int64("0+", default=-1)
    ended_ms: int = int64("0+", default=-1)
    ending: str = string("0+")
    first_round: bool = boolean("0+")
    old_generation: int = int32("0+")
    generation: int = int32("0+", default=-1)
    members: int = int32("0+")
    protocol: str = string("0+")
    leader: str = string("0+")
    causes: list[HistoricCause] = array("0+")
    more_causes: int = int32("0+")
    waited: list[HistoricWait] = array("0+")


class HistoricCause(Struct):
    kind: str = string("0+")
    member_id: str = string("0+")
    instance_id: str | None = string("0+", nullable="0+", default=None)
    client_id: str = string("0+")
    client_host: str = string("0+")
    silent_ms: int = int64("0+", default=-1)
    detail: str = string("0+")
    text: str = string("0+")


class HistoricWait(Struct):
    member_id: str = string("0+")
    waited_ms: int = int64("0+")
    fate: str = string("0+")
