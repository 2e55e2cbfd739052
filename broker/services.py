"""Services: the parts of a running broker that its request handlers use. Complete when it is made, unchanged after."""

from __future__ import annotations

from dataclasses import dataclass

from ..storage.files import Disk
from .background.cleaner import Cleaner
from .background.retention import Housekeeping
from .clock import Clock
from .configs.broker_config import BrokerConfig
from .configs.reconfiguration import Reconfiguration
from .coordination.features import Features
from .coordination.groups.coordinator import GroupCoordinator
from .coordination.transactions.coordinator import TransactionCoordinator
from .coordination.transactions.markers import MarkerWriter
from .coordination.transactions.verification import Verification
from .log_dirs.log_dirs import LogDirs
from .purgatory import Purgatory
from .topics.conversion import Conversions
from .topics.fetch_sessions import FetchSessions
from .topics.flusher import Flusher
from .topics.internal_topics import InternalTopics
from .topics.metadata_journal import Metadata
from .topics.topic import Topic
from .topics.topics import Topics


@dataclass(frozen=True, slots=True)
class Services:
    """One broker's services, from its start to its stop."""

    config: BrokerConfig
    reconfiguration: Reconfiguration
    clock: Clock
    disk: Disk
    purgatory: Purgatory
    log_dirs: LogDirs
    metadata: Metadata
    topics: Topics
    internal_topics: InternalTopics
    flusher: Flusher
    conversions: Conversions
    fetch_sessions: FetchSessions
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    verification: Verification
    markers: MarkerWriter
    features: Features
    housekeeping: Housekeeping
    cleaner: Cleaner

    def delete_topic(self, topic: Topic) -> None:
        """Delete a topic: clients no longer see it when this returns. A thread removes its files after their delay."""
        self.topics.delete(topic, lambda logs: self.housekeeping.remove_topic(topic, logs))
        self.groups.forget_topic(topic.name)
        self.cleaner.forget(topic)
