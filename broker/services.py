"""Services: the parts of a running broker that its request handlers use, and how they are made.

They are complete when made, and never replaced. `Assembly` makes each part after those that it needs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ..protocol.schema import Message
from ..storage.files import Disk
from .background.tasks import BackgroundTasks
from .clock import Clock
from .configs.broker_config import BrokerConfig
from .configs.reconfiguration import Reconfiguration
from .coordination.coordinator_log import CoordinatorLog
from .coordination.features import GROUP_VERSION, SHARE_VERSION, TRANSACTION_VERSION, Features
from .coordination.groups.coordinator import GroupCoordinator
from .coordination.partition_hash import partition_for
from .coordination.share_states.coordinator import ShareCoordinator
from .coordination.share_states.persister import Persister
from .coordination.share_states.routed_persister import RoutedPersister
from .coordination.transactions.coordinator import TransactionCoordinator
from .coordination.transactions.markers import MarkerWriter
from .coordination.transactions.verification import Verification
from .log_dirs.log_dirs import LogDirs
from .metrics.request_counts import ApiCounts
from .purgatory import Purgatory
from .quotas.client_quotas import ClientQuotas
from .security.authorizer import Authorizer
from .share_partitions.leader import ShareLeader
from .threads import DiskThreads
from .timers import Timers
from .topics.conversion import Conversions
from .topics.fetch_sessions import FetchSessions
from .topics.flusher import Flusher
from .topics.internal_topics import InternalTopics
from .topics.metadata_journal import Metadata
from .topics.partition_state import PartitionState
from .topics.security_store import OwnSecurity, SecurityStore
from .topics.segment_leases import SegmentLeases
from .topics.single_replica import SingleReplica
from .topics.staging import Staging
from .topics.topic import Topic
from .topics.topic_names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from .topics.topics import Topics

if TYPE_CHECKING:
    # A broker that is alone imports nothing that only brokers of a cluster need.
    from .cluster.admin import ClusterAdmin
    from .cluster.member import Member
    from .replication.coordinator_moves import CoordinatorMoves
    from .replication.inter_broker import InterBroker
    from .replication.metadata_cache import MetadataCache
    from .replication.remote_end_offsets import RemoteEndOffsets
    from .replication.remote_markers import RemoteMarkers
    from .replication.remote_share_states import RemoteShareStates
    from .replication.remote_verification import RemoteVerification
    from .replication.replicas import Replicas

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Services:
    """The services of one broker, from its start to its stop."""

    config: BrokerConfig
    clock: Clock
    disk: Disk
    threads: DiskThreads
    purgatory: Purgatory
    requests: ApiCounts
    # -- Topics
    log_dirs: LogDirs
    metadata: Metadata
    topics: Topics
    internal_topics: InternalTopics
    flusher: Flusher
    conversions: Conversions
    staging: Staging
    fetch_sessions: FetchSessions
    # None: everyone may do everything.
    authorizer: Authorizer | None
    # ACLs, passwords and quotas.
    security: SecurityStore
    quotas: ClientQuotas
    segment_leases: SegmentLeases
    share_leader: ShareLeader
    # -- Coordination
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    verification: Verification
    markers: MarkerWriter
    features: Features
    share_states: ShareCoordinator
    # The share coordinator of each key, wherever it is.
    persister: Persister
    # -- The rest
    reconfiguration: Reconfiguration
    background: BackgroundTasks
    # None: a broker that is alone.
    replicas: Replicas | None = None
    # None: a broker that is alone, or whose controller a test plays.
    cluster: Member | None = None
    # Finds the end of a partition that another broker leads; None: a broker that is alone.
    remote_end_offset: Callable[[str, int], Awaitable[int]] | None = None

    @property
    def replica_admin(self) -> ClusterAdmin | SingleReplica:
        """What elects leaders and moves replicas."""
        if self.cluster is not None:
            return self.cluster.admin
        return SingleReplica(self.topics, self.config.node_id)

    def known(self, topic: Topic | None) -> Topic | None:
        """Return the topic if clients may know it: in a cluster, once the controller has told of its leaders."""
        if topic is None or self.replicas is None:
            return topic
        return topic if topic.name in self.replicas.view.topics else None

    def delete_topic(self, topic: Topic) -> None:
        """Delete a topic: clients no longer see it when this returns. Its files are removed later."""
        self.topics.delete(topic, lambda logs: self.background.file_removal.remove_topic(topic, logs))
        self.groups.forget_topic(topic.name, topic.id)
        self.share_states.forget_topic(topic.id)
        self.background.cleaner.forget(topic)


class _Remote(NamedTuple):
    """What asks other brokers of a cluster on behalf of the coordinators."""

    view: MetadataCache
    inter_broker: InterBroker
    markers: RemoteMarkers
    verification: RemoteVerification
    share_states: RemoteShareStates
    end_offsets: RemoteEndOffsets


class Assembly:
    """Makes the services of one broker. Open `topics`, then take the `services`."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        timers: Timers,
        threads: DiskThreads,
        disk: Disk,
        log_dirs: LogDirs,
        metadata: Metadata,
        member: Member | None,
        is_clustered: bool,
        ask_self: Callable[[Message, int], Awaitable[Message]],
        write_checkpoint: Callable[[], None],
        went_offline: Callable[[PartitionState], None],
    ) -> None:
        """`is_clustered`: a controller says what this broker leads, also where it is no `member` of a cluster.

        `ask_self` carries out a request of this broker to itself. `write_checkpoint` is called when much was flushed,
        `went_offline` for each partition that goes offline.
        """
        self._config = config
        self._clock = clock
        self._timers = timers
        self._threads = threads
        self._disk = disk
        self._log_dirs = log_dirs
        self._metadata = metadata
        self._member = member
        self._ask_self = ask_self
        self._purgatory = Purgatory(timers)
        self._flusher = Flusher(timers, threads, write_checkpoint)
        # What the controller tells of the cluster; None: a broker that is alone.
        self._view = _metadata_cache() if is_clustered or member is not None else None
        self.topics = self._topics(went_offline)

    def _topics(self, went_offline: Callable[[PartitionState], None]) -> Topics:
        parts = self._config, self._log_dirs, self._metadata, self._clock, self._purgatory, self._flusher
        if self._view is None:
            return Topics(*parts, went_offline, self._disk)
        from .topics.cluster_topics import ClusterTopics

        return ClusterTopics(*parts, went_offline, self._disk, self._view.leader_id)

    def services(self) -> Services:
        """Return the services; `topics` must be open."""
        config, clock, topics, threads = self._config, self._clock, self.topics, self._threads
        internal_topics = InternalTopics(config, topics)

        def log_of(topic: str) -> CoordinatorLog:
            count = internal_topics.partition_count(topic)
            delete_records = background.record_deletion.delete_records
            return CoordinatorLog(topic, topics, self._flusher, clock, count, internal_topics.create, delete_records)

        background = self._background()
        offsets_log, transactions_log = log_of(OFFSETS_TOPIC), log_of(TRANSACTIONS_TOPIC)
        share_states = ShareCoordinator(config, log_of(SHARE_STATE_TOPIC), self._timers, clock, topics)
        remote = None if self._view is None else self._remote(self._view, transactions_log, share_states)
        persister = RoutedPersister(share_states, *(() if remote is None else (remote.share_states.ask,)))
        groups = GroupCoordinator(
            *(config, offsets_log, self._timers, clock, topics, persister),
            aside=partial(_aside, threads),
            own_configs=self._metadata.group_configs,
        )
        markers = MarkerWriter(
            *(topics, self._flusher, threads, groups.end_transaction, groups.shards.loading.__contains__),
            None if remote is None else remote.markers.write,
        )
        transactions = TransactionCoordinator(
            *(config, transactions_log, self._timers, clock, topics, groups.shards.partition_of),
            self._metadata.new_producer_id if self._member is None else self._member.producer_ids.new_id,
            *(markers.write, topics.requires_fsync),
        )
        staging = Staging(threads, background.work)
        authorizer, quotas = self._guards()
        moves = remote and self._moves(groups, transactions, share_states)
        ask_remotely = None if remote is None else remote.verification.ask
        return Services(
            config=config,
            clock=clock,
            disk=self._disk,
            threads=threads,
            purgatory=self._purgatory,
            requests=ApiCounts(),
            log_dirs=self._log_dirs,
            metadata=self._metadata,
            topics=topics,
            internal_topics=internal_topics,
            flusher=self._flusher,
            conversions=Conversions(threads),
            staging=staging,
            fetch_sessions=FetchSessions(config.max_incremental_fetch_session_cache_slots, clock),
            authorizer=authorizer,
            security=self._security(authorizer, quotas),
            quotas=quotas,
            segment_leases=self._segment_leases(background),
            share_leader=self._share_leader(persister),
            groups=groups,
            transactions=transactions,
            verification=Verification(config, transactions, offsets_log, ask_remotely),
            markers=markers,
            features=self._features(groups, transactions),
            share_states=share_states,
            persister=persister,
            reconfiguration=self._reconfiguration(background),
            background=background,
            replicas=None if moves is None or remote is None else self._replicas(background, staging, moves, remote),
            cluster=self._member,
            remote_end_offset=None if remote is None else remote.end_offsets.find,
        )

    def _reconfiguration(self, background: BackgroundTasks) -> Reconfiguration:
        parts = self._config, self._metadata, self.topics.reconfiguration
        return Reconfiguration(*parts, background.cleaner.reconfigure)

    def _guards(self) -> tuple[Authorizer | None, ClientQuotas]:
        """Return what is asked of each request. In a cluster ZooKeeper is read before the broker listens."""
        own = self._metadata if self._member is None else None
        quotas = ClientQuotas({} if own is None else own.quotas, self._config, self._clock)
        return _authorizer(self._config, own), quotas

    def _share_leader(self, persister: Persister) -> ShareLeader:
        parts = self._config, self._metadata.group_configs, persister, self.topics, self._clock
        return ShareLeader(*parts, self._timers, self._purgatory, self._threads)

    def _features(self, groups: GroupCoordinator, transactions: TransactionCoordinator) -> Features:
        on_change = {
            TRANSACTION_VERSION: transactions.set_version,
            GROUP_VERSION: groups.set_version,
            SHARE_VERSION: groups.set_share_version,
        }
        return Features(self._metadata, on_change)

    def _background(self) -> BackgroundTasks:
        parts = self._config, self._log_dirs, self.topics, self._timers, self._clock
        return BackgroundTasks(*parts, self._disk, self._flusher, self._threads)

    def _remote(self, view: MetadataCache, transactions_log: CoordinatorLog, share_states: ShareCoordinator) -> _Remote:
        from .replication.inter_broker import InterBroker
        from .replication.remote_end_offsets import RemoteEndOffsets
        from .replication.remote_markers import RemoteMarkers
        from .replication.remote_share_states import RemoteShareStates
        from .replication.remote_verification import RemoteVerification

        def partition_of(transactional_id: str) -> int:
            return partition_for(transactional_id, transactions_log.partition_count())

        def create(topic: str) -> None:
            if self._member is not None:
                self._member.auto_creation.begin(topic)

        inter_broker = InterBroker(self._config)
        parts = self._config, view, inter_broker
        return _Remote(
            view,
            inter_broker,
            RemoteMarkers(*parts),
            RemoteVerification(*parts, partition_of),
            RemoteShareStates(*parts, share_states.shards.partition_of, create),
            RemoteEndOffsets(*parts),
        )

    def _moves(
        self, groups: GroupCoordinator, transactions: TransactionCoordinator, share_states: ShareCoordinator
    ) -> CoordinatorMoves:
        from .replication.coordinator_moves import CoordinatorMoves

        return CoordinatorMoves(groups, transactions, share_states)

    def _replicas(
        self, background: BackgroundTasks, staging: Staging, moves: CoordinatorMoves, remote: _Remote
    ) -> Replicas:
        from .replication.controller_door import OwnBroker
        from .replication.full_disks import FullDisks
        from .replication.replicas import Replicas
        from .topics.cluster_topics import ClusterTopics

        assert isinstance(self.topics, ClusterTopics)
        return Replicas(
            *(self._config, self.topics, self._flusher, background, staging, self._clock, self._timers, self._threads),
            moves,
            remote.view,
            remote.inter_broker,
            OwnBroker(self._ask_self) if self._member is not None else None,
            FullDisks(self._disk, self._clock, self._timers, self._threads),
            (remote.markers.close, remote.verification.close, remote.share_states.close, remote.end_offsets.close),
        )

    def _security(self, authorizer: Authorizer | None, quotas: ClientQuotas) -> SecurityStore:
        if self._member is None:
            return OwnSecurity(self._metadata, authorizer, quotas)
        from .cluster.security import ClusterSecurity

        return ClusterSecurity(self._member.zookeeper, authorizer, quotas, self._member.stranger_secret)

    def _segment_leases(self, background: BackgroundTasks) -> SegmentLeases:
        config = self._config
        return SegmentLeases(
            *(config.direct_read_max_leases, config.direct_read_lease_ms, config.direct_read_lease_max_ms),
            *(self._clock, self._timers, self._threads, self._disk, background.file_removal.remove_leftovers),
        )


def _authorizer(config: BrokerConfig, metadata: Metadata | None) -> Authorizer | None:
    """Return the authorizer, if there is one. Without the `metadata` of a broker that is alone it has no ACLs yet."""
    if not config.authorizer_class_name:
        return None
    acls = metadata.acls if metadata is not None else ()
    return Authorizer(acls, config.super_user_names, config.allow_everyone_if_no_acl_found)


def _metadata_cache() -> MetadataCache:
    from .replication.metadata_cache import MetadataCache

    return MetadataCache()


def _aside(threads: DiskThreads, work: Callable[[], None], done: Callable[[], None]) -> None:
    """Run work that takes its time in a thread of its own, then `done` on the event loop."""

    def finished(future: asyncio.Future[None]) -> None:
        error = future.exception()
        if error is not None:
            _log.error("regular expressions or the target of a consumer group could not be worked out: %s", error)
        done()

    threads.alone(work, "odradek-matching").add_done_callback(finished)
