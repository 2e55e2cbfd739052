"""The share leader: what a broker has for the share groups of the partitions that it leads.

It is made, and imported, when the first share consumer comes: most brokers never meet one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...storage.files import Disk
from ..clock import Clock
from ..configs.broker_config import BrokerConfig
from ..coordination.share_states.routed_persister import RoutedPersister
from ..purgatory import Purgatory
from ..threads import DiskThreads
from ..timers import Timers
from ..topics.topics import Topics
from .actor import ShareSurroundings
from .dead_letter_topics import DeadLetterWire
from .dead_letters import DeadLetterWriter
from .led_partitions import SharePartitions
from .sessions import ShareSessions
from .settings import beginning_finder, finder


class ShareLeader:
    """The share partitions and share sessions of one broker."""

    def __init__(
        self,
        config: BrokerConfig,
        own_configs: Mapping[str, Mapping[str, str]],
        persister: RoutedPersister,
        topics: Topics,
        clock: Clock,
        timers: Timers,
        purgatory: Purgatory,
        threads: DiskThreads,
        disk: Disk,
        share_version: Callable[[], int],
        wire: DeadLetterWire,
    ) -> None:
        """`own_configs` has the configs of groups, by group id."""
        # Returns the configs of a group as they are now.
        self.settings_of = finder(config, own_configs, share_version)
        self.dead_letters = DeadLetterWriter(config, topics, clock, threads, disk, wire)
        surroundings = ShareSurroundings(
            *(persister, clock, timers, purgatory),
            self.settings_of,
            beginning_finder(clock, threads),
            self.dead_letters,
        )
        # Those that this broker leads.
        self.partitions = SharePartitions(topics, surroundings)
        self.sessions = ShareSessions(self.partitions, config.group_share_max_share_sessions)

    async def close(self, deadline_s: float) -> None:
        """End every session, and wait at most `deadline_s` until what the members held is given back."""
        await self.sessions.close(deadline_s)
        self.dead_letters.close()
