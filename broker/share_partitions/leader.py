"""The share leader: what a broker has for the share groups of the partitions that it leads.

Its parts are made, and imported, when the first share consumer comes: most brokers never meet one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from ...storage.files import Disk
from ..clock import Clock
from ..configs.broker_config import BrokerConfig
from ..coordination.share_states.routed_persister import RoutedPersister
from ..purgatory import Purgatory
from ..threads import DiskThreads
from ..timers import Timers
from ..topics.topics import Topics

if TYPE_CHECKING:
    from .dead_letter_topics import DeadLetterWire
    from .dead_letters import DeadLetterWriter
    from .led_partitions import SharePartitions
    from .sessions import ShareSessions
    from .settings import Settings


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
        self._config = config
        self._own_configs = own_configs
        self._topics = topics
        self._threads = threads
        self._disk = disk
        self._surroundings = persister, clock, timers, purgatory
        self._share_version = share_version
        self._wire = wire

    @cached_property
    def settings_of(self) -> Callable[[str], Settings]:
        """What returns the configs of a group as they are now."""
        from .settings import finder

        return finder(self._config, self._own_configs, self._share_version)

    @cached_property
    def dead_letters(self) -> DeadLetterWriter:
        """What writes the dead letters of share groups."""
        from .dead_letters import DeadLetterWriter

        _, clock, _, _ = self._surroundings
        return DeadLetterWriter(self._config, self._topics, clock, self._threads, self._disk, self._wire)

    @cached_property
    def partitions(self) -> SharePartitions:
        """The share partitions that this broker leads."""
        from .actor import ShareSurroundings
        from .led_partitions import SharePartitions
        from .settings import beginning_finder

        _, clock, _, _ = self._surroundings
        find = beginning_finder(clock, self._threads)
        surroundings = ShareSurroundings(*self._surroundings, self.settings_of, find, self.dead_letters)
        return SharePartitions(self._topics, surroundings)

    @cached_property
    def sessions(self) -> ShareSessions:
        """The share sessions of consumers."""
        from .sessions import ShareSessions

        return ShareSessions(self.partitions, self._config.group_share_max_share_sessions)

    async def close(self, deadline_s: float) -> None:
        """End every session, and wait at most `deadline_s` until what the members held is given back."""
        if "sessions" in self.__dict__:
            await self.sessions.close(deadline_s)
        if "dead_letters" in self.__dict__:
            self.dead_letters.close()
