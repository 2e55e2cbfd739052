"""Services: the parts of a running broker that its request handlers use, and how they are made.

They are complete when made, and never replaced. `Assembly` makes each part after those that it needs. Only coordinators
are imported and made later: at the start where their topic is here, and in a cluster; otherwise with the first request,
because most brokers of a test never meet a group or a transaction.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..protocol.schema import Message
from ..storage.files import Disk
from .background.tasks import BackgroundTasks
from .clock import Clock
from .configs.broker_config import BrokerConfig
from .configs.reconfiguration import Reconfiguration
from .coordination.features import GROUP_VERSION, SHARE_VERSION, TRANSACTION_VERSION, Features
from .log_dirs.log_dirs import LogDirs
from .metrics.request_counts import ApiCounts
from .purgatory import Purgatory
from .quotas.client_quotas import ClientQuotas
from .threads import DiskThreads, Work
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
    # A broker that is alone imports nothing that only brokers of a cluster need, and coordinators when it needs them.
    from .cluster.admin import ClusterAdmin
    from .cluster.member import Member
    from .coordination.coordinator_log import CoordinatorLog
    from .coordination.groups.coordinator import GroupCoordinator
    from .coordination.share_states.coordinator import ShareCoordinator
    from .coordination.share_states.routed_persister import RoutedPersister
    from .coordination.transactions.coordinator import TransactionCoordinator
    from .coordination.transactions.markers import MarkerWriter
    from .coordination.transactions.verification import Verification
    from .replication.metadata_cache import MetadataCache
    from .replication.remote import Remote
    from .replication.replicas import Replicas
    from .security.authorizer import Authorizer
    from .share_partitions.dead_letters import Counts
    from .share_partitions.leader import ShareLeader
    from .share_partitions.led_partitions import InFlight

_log = logging.getLogger(__name__)


class Coordinators:
    """The coordinators of one broker, from `start` to `stop`."""

    def __init__(self, parts: Assembly) -> None:
        self._parts = parts
        self._steps_aside = partial(_aside, lambda work: parts.threads.run(Work.LARGE_MESSAGE, Path(), work))
        # Whether a coordinator that is made now begins at once.
        self._is_running = False
        # The finalized levels. Coordinators that are made later ask for them.
        self.features = Features(parts.metadata, self._take_levels)

    # -- The coordinators

    @cached_property
    def groups(self) -> GroupCoordinator:
        """The coordinator of groups."""
        from .coordination.groups.coordinator import GroupCoordinator

        parts = self._parts
        groups = GroupCoordinator(
            *(parts.config, self.offsets_log, parts.timers, parts.clock, parts.topics, self.persister),
            aside=partial(_aside, lambda work: parts.threads.alone(work, "odradek-matching")),
            steps_aside=self._steps_aside,
            own_configs=parts.metadata.group_configs,
        )
        groups.set_version(self.features.levels[GROUP_VERSION])
        groups.set_share_version(self.features.levels[SHARE_VERSION])
        if self._is_running:
            self._start_groups(groups)
        return groups

    @cached_property
    def transactions(self) -> TransactionCoordinator:
        """The coordinator of transactions."""
        from .coordination.transactions.coordinator import TransactionCoordinator

        parts = self._parts
        transactions = TransactionCoordinator(
            *(parts.config, self._transactions_log, parts.timers, parts.clock, parts.topics),
            lambda group_id: self.groups.shards.partition_of(group_id),
            parts.metadata.new_producer_id if parts.member is None else parts.member.producer_ids.new_id,
            *(self.markers.write, parts.topics.requires_fsync),
        )
        transactions.set_version(self.features.levels[TRANSACTION_VERSION])
        if self._is_running:
            transactions.start(load=self._is_alone)
        return transactions

    @cached_property
    def share_states(self) -> ShareCoordinator:
        """The coordinator of the states of share groups."""
        from .coordination.share_states.coordinator import ShareCoordinator

        parts = self._parts
        surroundings = parts.config, self._log(SHARE_STATE_TOPIC), parts.timers, parts.clock, parts.topics
        share_states = ShareCoordinator(*surroundings, aside=self._steps_aside)
        if self._is_running:
            self._start_share_states(share_states)
        return share_states

    # -- What serves them, and is served by them

    @cached_property
    def markers(self) -> MarkerWriter:
        """What writes the markers of transactions."""
        from .coordination.transactions.markers import MarkerWriter

        parts = self._parts
        return MarkerWriter(
            *(parts.topics, parts.flusher, parts.threads),
            lambda partition, producer_id, commit: self.groups.end_transaction(partition, producer_id, commit),
            lambda partition: partition in self.groups.shards.loading,
            None if self.remote is None else self.remote.markers.write,
        )

    @cached_property
    def verification(self) -> Verification:
        """What asks the coordinator of a transaction before something is written in it."""
        from .coordination.transactions.verification import Verification

        ask = None if self.remote is None else self.remote.verification.ask
        return Verification(self._parts.config, self.transactions, self.offsets_log, ask)

    @cached_property
    def persister(self) -> RoutedPersister:
        """The share coordinator of each key, wherever it is."""
        from .coordination.share_states.routed_persister import RoutedPersister

        return RoutedPersister(self.share_states, *(() if self.remote is None else (self.remote.share_states.ask,)))

    @cached_property
    def share_leader(self) -> ShareLeader:
        """The share partitions that this broker leads."""
        from .share_partitions.dead_letter_topics import OwnWire
        from .share_partitions.leader import ShareLeader

        parts = self._parts
        wire = OwnWire(parts.ask_self) if self.remote is None else self.remote.dead_letters
        return ShareLeader(
            *(parts.config, parts.metadata.group_configs, self.persister, parts.topics, parts.clock),
            *(parts.timers, parts.purgatory, parts.threads, parts.disk),
            lambda: self.features.levels[SHARE_VERSION],
            wire,
        )

    @cached_property
    def remote(self) -> Remote | None:
        """What asks other brokers; None: a broker that is alone."""
        if self._parts.view is None:
            return None
        from .coordination.partition_hash import partition_for
        from .replication.remote import Remote

        parts, member = self._parts, self._parts.member

        def partition_of(transactional_id: str) -> int:
            return partition_for(transactional_id, self._transactions_log.partition_count())

        return Remote.make(
            *(parts.config, self._parts.view, partition_of, self.share_states.shards.partition_of),
            # A member has it once it knows its addresses.
            None if member is None else lambda: member.auto_creation,
            parts.ask_self,
        )

    @cached_property
    def offsets_log(self) -> CoordinatorLog:
        """The log of groups and their offsets."""
        return self._log(OFFSETS_TOPIC)

    @cached_property
    def _transactions_log(self) -> CoordinatorLog:
        return self._log(TRANSACTIONS_TOPIC)

    def _log(self, topic: str) -> CoordinatorLog:
        from .coordination.coordinator_log import CoordinatorLog

        parts = self._parts
        count, create = parts.internal_topics.partition_count(topic), parts.internal_topics.create
        delete_records = parts.background.record_deletion.delete_records
        return CoordinatorLog(topic, parts.topics, parts.flusher, parts.clock, count, create, delete_records)

    # -- From start to stop

    def start(self) -> None:
        """Start those whose topic has something to load, and those that are made already."""
        if self._has(OFFSETS_TOPIC, "groups"):
            self._start_groups(self.groups)
        if self._has(SHARE_STATE_TOPIC, "share_states"):
            self._start_share_states(self.share_states)
        if self._has(TRANSACTIONS_TOPIC, "transactions"):
            self.transactions.start(load=self._is_alone)
            if self._is_alone and not self._parts.topics.was_clean:
                self.transactions.note_written(self._parts.topics.producer_epochs())
                self._abort_lost_transactions()
        self._is_running = True

    def stop(self) -> None:
        """Send clients that wait for groups and transactions to another coordinator."""
        self._is_running = False
        if self._is_made("transactions"):
            self.transactions.stop()
        if self._is_made("groups"):
            self.groups.stop()

    async def close_shares(self, deadline_s: float) -> None:
        """End the share sessions, which give back what members hold, and then stop the share coordinator."""
        if self._is_made("share_leader"):
            await self.share_leader.close(deadline_s)
        if self._is_made("share_states"):
            self.share_states.stop()

    def dead_letter_counts(self) -> Mapping[str, Counts]:
        """Return what became of dead letters, by share group."""
        return self.share_leader.dead_letters.counts if self._is_made("share_leader") else {}

    def share_groups(self) -> list[str]:
        """Return the share groups that have records in flight here, or had."""
        return self.share_leader.partitions.groups() if self._is_made("share_leader") else []

    def share_records(self, group_id: str) -> Iterable[InFlight]:
        """Yield how many records of a share group are in flight here, for each partition."""
        return self.share_leader.partitions.in_flight(group_id) if self._is_made("share_leader") else ()

    def unload(self, topic: str, partition: int) -> None:
        """Give up a partition of a coordinator's topic."""
        if topic == OFFSETS_TOPIC and self._is_made("groups"):
            self.groups.unload(partition)
        elif topic == TRANSACTIONS_TOPIC and self._is_made("transactions"):
            self.transactions.shards.unload(partition)
        elif topic == SHARE_STATE_TOPIC and self._is_made("share_states"):
            self.share_states.shards.unload(partition)

    def forget_topic(self, topic: Topic) -> None:
        """Delete what the coordinators keep of a topic that was deleted."""
        if self._is_made("groups"):
            self.groups.forget_topic(topic.name, topic.id)
        if self._is_made("share_states"):
            self.share_states.forget_topic(topic.id)

    @property
    def _is_alone(self) -> bool:
        """Whether this broker coordinates everything. In a cluster it loads what it leads, once it leads it."""
        return self._parts.view is None

    def _start_groups(self, groups: GroupCoordinator) -> None:
        groups.start(load=self._is_alone)
        if self._is_alone:
            groups.drop_lost_topics()

    def _abort_lost_transactions(self) -> None:
        from .coordination.transactions.lost import RETRY_MS, abort_lost

        parts = self._parts

        def ended(done: asyncio.Future[bool]) -> None:
            if not done.cancelled() and not done.result():
                parts.timers.after(RETRY_MS, self._abort_lost_transactions)

        aborting = asyncio.ensure_future(abort_lost(self.transactions, parts.topics, self.markers.write))
        aborting.add_done_callback(ended)

    def _start_share_states(self, share_states: ShareCoordinator) -> None:
        share_states.start(load=self._is_alone)
        if self._is_alone:
            share_states.drop_lost_topics()

    def _has(self, topic: str, name: str) -> bool:
        return self._is_made(name) or self._parts.topics.get(topic) is not None

    def _is_made(self, name: str) -> bool:
        return name in self.__dict__

    # -- Levels of features

    def _take_levels(self) -> None:
        levels = self.features.levels
        if self._is_made("transactions"):
            self.transactions.set_version(levels[TRANSACTION_VERSION])
        if self._is_made("groups"):
            self.groups.set_version(levels[GROUP_VERSION])
            self.groups.set_share_version(levels[SHARE_VERSION])


@dataclass(slots=True, eq=False, repr=False)  # to look into a tuple takes twice as long, eight times a Fetch
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
    # -- Coordination
    coordinators: Coordinators
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
    def features(self) -> Features:
        """What the brokers of a cluster agree on."""
        return self.coordinators.features

    @property
    def groups(self) -> GroupCoordinator:
        """The coordinator of groups."""
        return self.coordinators.groups

    @property
    def transactions(self) -> TransactionCoordinator:
        """The coordinator of transactions."""
        return self.coordinators.transactions

    @property
    def share_states(self) -> ShareCoordinator:
        """The coordinator of the states of share groups."""
        return self.coordinators.share_states

    @property
    def share_leader(self) -> ShareLeader:
        """The share partitions that this broker leads."""
        return self.coordinators.share_leader

    @property
    def markers(self) -> MarkerWriter:
        """What writes the markers of transactions."""
        return self.coordinators.markers

    @property
    def verification(self) -> Verification:
        """What asks the coordinator of a transaction before something is written in it."""
        return self.coordinators.verification

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
        self.coordinators.forget_topic(topic)
        self.background.cleaner.forget(topic.partitions)


@dataclass(eq=False, repr=False)
class Assembly:
    """What the services of one broker are made of. Open `topics`, then take the `services`."""

    config: BrokerConfig
    clock: Clock
    timers: Timers
    threads: DiskThreads
    disk: Disk
    log_dirs: LogDirs
    metadata: Metadata
    # None: a broker that is alone, or whose controller a test plays.
    member: Member | None
    # Whether a controller says what this broker leads, also where it is no `member` of a cluster.
    is_clustered: bool
    # Carries out a request of this broker to itself.
    ask_self: Callable[[Message, int], Awaitable[Message]]
    # Called when much was flushed, and for each partition that goes offline.
    write_checkpoint: Callable[[], None]
    went_offline: Callable[[PartitionState], None]

    def __post_init__(self) -> None:
        self.purgatory = Purgatory(self.timers)
        self.flusher = Flusher(self.timers, self.threads, self.write_checkpoint)
        # What the controller tells of the cluster; None: a broker that is alone.
        self.view: MetadataCache | None = None
        if self.is_clustered or self.member is not None:
            from .replication.metadata_cache import MetadataCache

            self.view = MetadataCache()
        self.topics = self._topics()
        self.internal_topics = InternalTopics(self.config, self.topics)

    def _topics(self) -> Topics:
        parts = self.config, self.log_dirs, self.metadata, self.clock, self.purgatory, self.flusher
        if self.view is None:
            return Topics(*parts, self.went_offline, self.disk)
        from .topics.cluster_topics import ClusterTopics

        return ClusterTopics(*parts, self.went_offline, self.disk, self.view.leader_id)

    def services(self) -> Services:
        """Return the services; `topics` must be open."""
        config, clock, topics, threads = self.config, self.clock, self.topics, self.threads
        parts = config, self.log_dirs, topics, self.timers, clock, self.disk, self.flusher, threads
        background = self.background = BackgroundTasks(*parts)
        coordinators = Coordinators(self)
        staging = Staging(threads, background.work)
        authorizer, quotas = self._guards()
        remote = coordinators.remote
        return Services(
            config=config,
            clock=clock,
            disk=self.disk,
            threads=threads,
            purgatory=self.purgatory,
            requests=ApiCounts(),
            log_dirs=self.log_dirs,
            metadata=self.metadata,
            topics=topics,
            internal_topics=self.internal_topics,
            flusher=self.flusher,
            conversions=Conversions(threads),
            staging=staging,
            fetch_sessions=FetchSessions(config.max_incremental_fetch_session_cache_slots, clock),
            authorizer=authorizer,
            security=self._security(authorizer, quotas),
            quotas=quotas,
            segment_leases=self._segment_leases(),
            coordinators=coordinators,
            reconfiguration=Reconfiguration(
                *(config, self.metadata, topics.reconfiguration, background.cleaner.reconfigure)
            ),
            background=background,
            replicas=None if remote is None else self._replicas(staging, coordinators, remote),
            cluster=self.member,
            remote_end_offset=None if remote is None else remote.end_offsets.find,
        )

    def _guards(self) -> tuple[Authorizer | None, ClientQuotas]:
        """Return what is asked of each request. In a cluster ZooKeeper is read before the broker listens."""
        own = self.metadata if self.member is None else None
        quotas = ClientQuotas({} if own is None else own.quotas, self.config, self.clock)
        return _authorizer(self.config, own), quotas

    def _replicas(self, staging: Staging, coordinators: Coordinators, remote: Remote) -> Replicas:
        from .replication.controller_door import OwnBroker
        from .replication.coordinator_moves import CoordinatorMoves
        from .replication.full_disks import FullDisks
        from .replication.replicas import Replicas
        from .topics.cluster_topics import ClusterTopics

        assert isinstance(self.topics, ClusterTopics)
        return Replicas(
            *(self.config, self.topics, self.flusher, self.background, staging),
            *(self.clock, self.timers, self.threads),
            CoordinatorMoves(coordinators.groups, coordinators.transactions, coordinators.share_states),
            remote.view,
            remote.inter_broker,
            OwnBroker(self.ask_self) if self.member is not None else None,
            FullDisks(self.disk, self.clock, self.timers, self.threads),
            remote.close,
        )

    def _security(self, authorizer: Authorizer | None, quotas: ClientQuotas) -> SecurityStore:
        if self.member is None:
            return OwnSecurity(self.metadata, authorizer, quotas)
        from .cluster.security import ClusterSecurity

        return ClusterSecurity(self.member.zookeeper, authorizer, quotas, self.member.stranger_secret)

    def _segment_leases(self) -> SegmentLeases:
        config = self.config
        return SegmentLeases(
            *(config.direct_read_max_leases, config.direct_read_lease_ms, config.direct_read_lease_max_ms),
            *(self.clock, self.timers, self.threads, self.disk, self.background.file_removal.remove_leftovers),
        )


def _authorizer(config: BrokerConfig, metadata: Metadata | None) -> Authorizer | None:
    """Return the authorizer, if there is one. Without the `metadata` of a broker that is alone it has no ACLs yet."""
    if not config.authorizer_class_name:
        return None
    from .security.authorizer import Authorizer

    acls = metadata.acls if metadata is not None else ()
    return Authorizer(acls, config.super_user_names, config.allow_everyone_if_no_acl_found)


def _aside(
    run: Callable[[Callable[[], None]], asyncio.Future[None]], work: Callable[[], None], done: Callable[[], None]
) -> None:
    """Run work that takes its time in a thread, then `done` on the event loop."""

    def finished(future: asyncio.Future[None]) -> None:
        error = future.exception()
        if error is not None:
            _log.error("the step of a coordinator has failed", exc_info=error)
        done()

    run(work).add_done_callback(finished)
