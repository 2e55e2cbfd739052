"""How far replicas are behind their leaders, in records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from ..client import Admin, TopicPartition
    from ..client.core.metadata import PartitionInfo

# Broker and partition -> records.
Lags: TypeAlias = "dict[tuple[int, TopicPartition], int]"


async def replica_lags(admin: Admin, placed: Mapping[TopicPartition, PartitionInfo]) -> Lags:
    """Ask the brokers where their logs of these partitions end; return the differences to the leaders'.

    A replica is left out where its broker or the leader does not answer for it.
    """
    ends = await _ends(admin, placed)
    return {
        (broker, partition): max(0, ends[each.leader, partition] - ends[broker, partition])
        for partition, each in placed.items()
        for broker in each.replicas
        if (broker, partition) in ends and (each.leader, partition) in ends
    }


async def _ends(admin: Admin, placed: Mapping[TopicPartition, PartitionInfo]) -> Lags:
    """Return the end of each replica's log."""
    from ..client import LATEST
    from ..client.errors import ItemsFailed, KafkaError

    held: dict[int, dict[TopicPartition, int]] = {}
    for partition, each in placed.items():
        for broker in set(each.replicas) - set(each.offline):
            held.setdefault(broker, {})[partition] = LATEST
    ends: Lags = {}
    for broker, partitions in held.items():
        try:
            found = await admin.list_offsets(partitions, node_id=broker)
        except ItemsFailed as error:
            found = {each: result for each, result in error.results.items() if not isinstance(result, KafkaError)}
        except KafkaError:
            continue  # a broker that is not there any more
        ends |= {(broker, partition): offset.offset for partition, offset in found.items()}
    return ends
