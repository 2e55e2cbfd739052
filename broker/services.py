"""Services: the parts of a running broker that its request handlers use. Complete when made, never replaced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..storage.files import Disk
from .background.tasks import BackgroundTasks
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
from .threads import DiskThreads
from .topics.conversion import Conversions
from .topics.fetch_sessions import FetchSessions
from .topics.flusher import Flusher
from .topics.internal_topics import InternalTopics
from .topics.metadata_journal import Metadata
from .topics.segment_leases import SegmentLeases
from .topics.single_replica import SingleReplica
from .topics.staging import Staging
from .topics.topic import Topic
from .topics.topics import Topics

if TYPE_CHECKING:
    # A broker that is alone imports nothing that only brokers of a cluster need.
    from .cluster.admin import ClusterAdmin
    from .cluster.member import Member
    from .replication.replicas import Replicas


@dataclass(frozen=True, slots=True)
class Services:
    """The services of one broker, from its start to its stop."""

    config: BrokerConfig
    clock: Clock
    disk: Disk
    threads: DiskThreads
    purgatory: Purgatory
    # -- Topics
    log_dirs: LogDirs
    metadata: Metadata
    topics: Topics
    internal_topics: InternalTopics
    flusher: Flusher
    conversions: Conversions
    staging: Staging
    fetch_sessions: FetchSessions
    segment_leases: SegmentLeases
    # -- Coordination
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    verification: Verification
    markers: MarkerWriter
    features: Features
    # -- The rest
    reconfiguration: Reconfiguration
    background: BackgroundTasks
    # None: a broker that is alone.
    replicas: Replicas | None = None
    # None: a broker that is alone, or whose controller a test plays.
    cluster: Member | None = None

    @property
    def replica_admin(self) -> ClusterAdmin | SingleReplica:
        """What elects leaders and moves replicas."""
        if self.cluster is not None:
            return self.cluster.admin
        return SingleReplica(self.topics, self.config.node_id)

    def delete_topic(self, topic: Topic) -> None:
        """Delete a topic: clients no longer see it when this returns. Its files are removed later."""
        self.topics.delete(topic, lambda logs: self.background.file_removal.remove_topic(topic, logs))
        self.groups.forget_topic(topic.name)
        self.background.cleaner.forget(topic)
