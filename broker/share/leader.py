"""The share leader: what a broker has for the share groups of the partitions that it leads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..clock import Clock
from ..configs.broker_config import BrokerConfig
from ..coordination.share.persister import Persister
from ..purgatory import Purgatory
from ..threads import DiskThreads
from ..timers import Timers
from ..topics.topics import Topics
from . import first_offset, settings
from .actor import Surroundings
from .sessions import ShareSessions
from .settings import Settings
from .share_partitions import SharePartitions


class ShareLeader(NamedTuple):
    """Its parts."""

    # Returns the configs of a group as they are now.
    settings_of: Callable[[str], Settings]
    partitions: SharePartitions
    sessions: ShareSessions

    @classmethod
    def make(
        cls,
        config: BrokerConfig,
        own_configs: Mapping[str, Mapping[str, str]],
        persister: Persister,
        topics: Topics,
        clock: Clock,
        timers: Timers,
        purgatory: Purgatory,
        threads: DiskThreads,
    ) -> ShareLeader:
        """`own_configs` has the configs of groups, by group id."""
        settings_of = settings.finder(config, own_configs)
        find = first_offset.finder(clock, threads)
        partitions = SharePartitions(topics, Surroundings(persister, clock, timers, purgatory, settings_of, find))
        return cls(settings_of, partitions, ShareSessions(partitions, config.group_share_max_share_sessions))
