"""What a share group is configured to: its limits, what it reads, and where it begins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from ..clock import Clock
from ..configs.group_bounds import DELIVERY_COUNT_LIMIT, MAX_RECORD_LOCKS, RECORD_LOCK_DURATION, effective
from ..configs.group_config import BY_DURATION, duration_ms, effective_value
from ..threads import DiskThreads
from ..topics.disk_reads import read_from_disk
from ..topics.partition import Partition
from ..topics.partition_state import READ_COMMITTED, READ_UNCOMMITTED
from .machine import Limits

_LATEST: Final = -1
_EARLIEST: Final = -2
# The level of the feature `share.version`.
FIRST_WITH_DEAD_LETTERS: Final = 2
_NONE: Mapping[str, str] = MappingProxyType({})


class Settings(NamedTuple):
    """The effective configs of one group, the broker's where it has none of its own."""

    limits: Limits
    # share.isolation.level, as Fetch has it.
    isolation_level: int
    # _LATEST, _EARLIEST, or how long ago, in milliseconds.
    begins: int
    # The topic of its dead letters; empty: it has none.
    dead_letter_topic: str = ""
    # Whether a dead letter has key and value of its record.
    copies_records: bool = False


def finder(
    config: object, own_configs: Mapping[str, Mapping[str, str]], share_version: Callable[[], int]
) -> Callable[[str], Settings]:
    """Return what finds the settings of a group. `own_configs` has those of groups, by group id."""

    def find(group_id: str) -> Settings:
        own = own_configs.get(group_id, _NONE)
        topic = str(effective_value(config, own, "errors.deadletterqueue.topic.name"))
        limits = Limits(
            effective(config, own, RECORD_LOCK_DURATION),
            effective(config, own, DELIVERY_COUNT_LIMIT),
            effective(config, own, MAX_RECORD_LOCKS),
            bool(effective_value(config, own, "share.renew.acknowledge.enable")),
            has_dead_letters=bool(topic) and share_version() >= FIRST_WITH_DEAD_LETTERS,
        )
        isolation = effective_value(config, own, "share.isolation.level")
        reset = str(effective_value(config, own, "share.auto.offset.reset"))
        level = READ_COMMITTED if isolation == "read_committed" else READ_UNCOMMITTED
        copies = bool(effective_value(config, own, "errors.deadletterqueue.copy.record.enable"))
        return Settings(limits, level, _begins(reset), topic, copies)

    return find


def _begins(reset: str) -> int:
    if reset.startswith(BY_DURATION):
        # The check of the config has parsed it before.
        return duration_ms(reset.removeprefix(BY_DURATION)) or 0
    return _EARLIEST if reset == "earliest" else _LATEST


def beginning_finder(clock: Clock, threads: DiskThreads) -> Callable[[Partition, Settings], Awaitable[int]]:
    """Return what finds where a group begins that has not read a partition. It may wait for the disk: KafkaError."""

    async def find(partition: Partition, settings: Settings) -> int:
        end = partition.end_for(settings.isolation_level)
        if settings.begins == _LATEST:
            return end
        if settings.begins == _EARLIEST:
            return partition.log.log_start_offset
        timestamp_ms = max(clock.now_ms() - settings.begins, 0)
        found = await read_from_disk(partition, lambda view: view.find_time(timestamp_ms, end), threads)
        return end if found is None else found[1]

    return find
