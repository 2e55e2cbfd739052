"""How far groups are behind the ends of logs, in records and in time, and replicas behind their leaders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from .session import chosen_address, client_options

if TYPE_CHECKING:
    from ..client import Admin, TopicPartition
    from ..client.core.metadata import PartitionInfo

# Reading the records at the committed offsets ends after this, whatever has come.
_READ_WITHIN_S = 10.0


async def lags(admin: Admin, committed: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int]]:
    """Return (end offset, lag in records) of each partition that has a leader now."""
    from ..client import LATEST

    existing = await admin.describe_topics()
    # A deleted topic may have left committed offsets behind; it has no end offset.
    ends = await admin.list_offsets({each: LATEST for each in committed if each.topic in existing}, partial=True)
    return {each: (end.offset, max(end.offset - committed[each], 0)) for each, end in ends.items()}


async def lag_times_ms(offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the age in ms of the first committed record at or after each offset, by its timestamp.

    Partitions without such a record within ten seconds are missing.
    """
    from ..client import Consumer
    from ..client.unread_ages import READER_OPTIONS, ages_ms

    if not offsets:
        return {}
    options = {**client_options("admin", allow_auto_create_topics=False), **READER_OPTIONS}
    async with Consumer(bootstrap_servers=chosen_address(), **options) as consumer:
        return await ages_ms(consumer, offsets, _READ_WITHIN_S)


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
