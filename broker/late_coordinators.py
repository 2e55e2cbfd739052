"""The coordinators of a running broker. Each is imported and made when it is first needed.

That is at the start where its topic has a partition here, otherwise with its first request: most brokers of a test
never meet a group or a transaction. In a cluster they are made at the start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

from .background.retention import RecordDeletion
from .clock import Clock
from .configs.broker_config import BrokerConfig
from .coordination.features import GROUP_VERSION, SHARE_VERSION, TRANSACTION_VERSION, Features
from .purgatory import Purgatory
from .threads import DiskThreads
from .timers import Timers
from .topics.flusher import Flusher
from .topics.internal_topics import InternalTopics
from .topics.metadata_journal import Metadata
from .topics.topic import Topic
from .topics.topic_names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from .topics.topics import Topics

if TYPE_CHECKING:
    from .cluster.member import Member
    from .coordination.coordinator_log import CoordinatorLog
    from .coordination.groups.coordinator import GroupCoordinator
    from .coordination.share_states.coordinator import ShareCoordinator
    from .coordination.share_states.persister import Persister
    from .coordination.transactions.coordinator import TransactionCoordinator
    from .coordination.transactions.markers import MarkerWriter
    from .coordination.transactions.verification import Verification
    from .replication.inter_broker import InterBroker
    from .replication.metadata_cache import MetadataCache
    from .replication.remote_end_offsets import RemoteEndOffsets
    from .replication.remote_markers import RemoteMarkers
    from .replication.remote_share_states import RemoteShareStates
    from .replication.remote_verification import RemoteVerification
    from .share_partitions.leader import ShareLeader

_log = logging.getLogger(__name__)

# What a process imports in turns after its start, so that no first request waits for all of it. Each brings what the
# next ones need.
MODULES = (
    "groups.records",
    "groups.events",
    "groups.history",
    "groups.group",
    "consumer.migration",
    "consumer.classic_members",
    "classic.machine",
    "modern.responses",
    "groups.coordinator",
    "transactions.events",
    "transactions.machine",
    "transactions.markers",
    "transactions.coordinator",
    "transactions.verification",
    "share_states.coordinator",
)


class PartsOfCoordinators(NamedTuple):
    """What coordinators are made of."""

    config: BrokerConfig
    clock: Clock
    timers: Timers
    threads: DiskThreads
    purgatory: Purgatory
    metadata: Metadata
    topics: Topics
    internal_topics: InternalTopics
    flusher: Flusher
    record_deletion: RecordDeletion
    # None: a broker that is alone, or whose controller a test plays.
    member: Member | None
    # What the controller tells of the cluster; None: a broker that is alone.
    view: MetadataCache | None


class Remote(NamedTuple):
    """What asks other brokers of a cluster on behalf of the coordinators."""

    view: MetadataCache
    inter_broker: InterBroker
    markers: RemoteMarkers
    verification: RemoteVerification
    share_states: RemoteShareStates
    end_offsets: RemoteEndOffsets


class Coordinators:
    """The coordinators of one broker, from `start` to `stop`."""

    def __init__(self, parts: PartsOfCoordinators) -> None:
        self._parts = parts
        # Whether a coordinator that is made now begins at once.
        self._is_running = False
        # The finalized levels, and who is told of a change.
        self.features = Features(
            parts.metadata,
            {
                TRANSACTION_VERSION: self._set_transaction_version,
                GROUP_VERSION: self._set_group_version,
                SHARE_VERSION: self._set_share_version,
            },
        )

    # -- The coordinators

    @cached_property
    def groups(self) -> GroupCoordinator:
        """The coordinator of groups."""
        from .coordination.groups.coordinator import GroupCoordinator

        parts = self._parts
        groups = GroupCoordinator(
            *(parts.config, self.offsets_log, parts.timers, parts.clock, parts.topics, self.persister),
            aside=partial(_aside, parts.threads),
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
        log = self._log(SHARE_STATE_TOPIC)
        share_states = ShareCoordinator(parts.config, log, parts.timers, parts.clock, parts.topics)
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
    def persister(self) -> Persister:
        """The share coordinator of each key, wherever it is."""
        from .coordination.share_states.routed_persister import RoutedPersister

        return RoutedPersister(self.share_states, *(() if self.remote is None else (self.remote.share_states.ask,)))

    @cached_property
    def share_leader(self) -> ShareLeader:
        """The share partitions that this broker leads."""
        from .share_partitions.leader import ShareLeader

        parts = self._parts
        return ShareLeader(
            *(parts.config, parts.metadata.group_configs, self.persister, parts.topics, parts.clock),
            *(parts.timers, parts.purgatory, parts.threads),
        )

    @cached_property
    def remote(self) -> Remote | None:
        """What asks other brokers; None: a broker that is alone."""
        if self._parts.view is None:
            return None
        from .coordination.partition_hash import partition_for
        from .replication.inter_broker import InterBroker
        from .replication.remote_end_offsets import RemoteEndOffsets
        from .replication.remote_markers import RemoteMarkers
        from .replication.remote_share_states import RemoteShareStates
        from .replication.remote_verification import RemoteVerification

        def partition_of(transactional_id: str) -> int:
            return partition_for(transactional_id, self._transactions_log.partition_count())

        def create(topic: str) -> None:
            if self._parts.member is not None:
                self._parts.member.auto_creation.begin(topic)

        inter_broker = InterBroker(self._parts.config)
        parts = self._parts.config, self._parts.view, inter_broker
        return Remote(
            self._parts.view,
            inter_broker,
            RemoteMarkers(*parts),
            RemoteVerification(*parts, partition_of),
            RemoteShareStates(*parts, self.share_states.shards.partition_of, create),
            RemoteEndOffsets(*parts),
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
        count, delete_records = parts.internal_topics.partition_count(topic), parts.record_deletion.delete_records
        create = parts.internal_topics.create
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

    def _start_share_states(self, share_states: ShareCoordinator) -> None:
        share_states.start(load=self._is_alone)
        if self._is_alone:
            share_states.drop_lost_topics()

    def _has(self, topic: str, name: str) -> bool:
        return self._is_made(name) or self._parts.topics.get(topic) is not None

    def _is_made(self, name: str) -> bool:
        return name in self.__dict__

    # -- Levels of features

    def _set_transaction_version(self, level: int) -> None:
        if self._is_made("transactions"):
            self.transactions.set_version(level)

    def _set_group_version(self, level: int) -> None:
        if self._is_made("groups"):
            self.groups.set_version(level)

    def _set_share_version(self, level: int) -> None:
        if self._is_made("groups"):
            self.groups.set_share_version(level)


def _aside(threads: DiskThreads, work: Callable[[], None], done: Callable[[], None]) -> None:
    """Run work that takes its time in a thread of its own, then `done` on the event loop."""

    def finished(future: asyncio.Future[None]) -> None:
        error = future.exception()
        if error is not None:
            _log.error("regular expressions or the target of a consumer group could not be worked out: %s", error)
        done()

    threads.alone(work, "odradek-matching").add_done_callback(finished)
