"""The replicas of this broker: LeaderAndIsr, StopReplica and UpdateMetadata of the controller enter here.

The requests are carried out one after the other, in turns of the loop where they name many partitions. Those of an
older controller, or that are meant for an earlier registration of this broker, are rejected.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
)
from ...protocol.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from ...protocol.messages.update_metadata import FULL as FULL_METADATA
from ...protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from ...storage.errors import StorageError
from ..background.tasks import BackgroundTasks
from ..clock import Clock
from ..configs.broker_config import BrokerConfig
from ..configs.topic_config import TopicConfig
from ..threads import DiskThreads, Work
from ..timers import TimerHandle, Timers
from ..topics.cluster_topics import ClusterTopics
from ..topics.flusher import Flusher
from ..topics.partition import Partition
from ..topics.staging import Staging
from ..topics.topic import Topic
from ..turns import keeper
from .alter_partition import IsrChanges
from .controller_door import ControllerDoor, OwnBroker
from .coordinator_moves import CoordinatorMoves
from .fetcher import Fetcher, Fetchers, Following
from .follower_log import FollowerLog
from .full_disks import FullDisks
from .inter_broker import InterBroker
from .leadership import Role
from .metadata_cache import MetadataCache
from .named_partitions import ANY_EPOCH, FullNames, may_exist, partitions_to_stop, why_impossible
from .replica import Replica
from .throttle import Rate, Throttle

# LeaderAndIsr's type that names every partition of the broker.
FULL = 1
# StopReplica's epoch for a topic that is deleted (Kafka's EpochDuringDelete), and for controllers without epochs.
_EPOCH_DURING_DELETE = -2

_log = logging.getLogger(__name__)


class Replicas:
    """The replicas of one broker. `start` it once the topics are open; `stop` it before the logs are closed."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: ClusterTopics,
        flusher: Flusher,
        background: BackgroundTasks,
        staging: Staging,
        clock: Clock,
        timers: Timers,
        threads: DiskThreads,
        leads: CoordinatorMoves,
        view: MetadataCache,
        inter_broker: InterBroker,
        own: OwnBroker | None,
        full_disks: FullDisks,
        at_stop: Callable[[], None],
    ) -> None:
        """`own` is this broker as a place to send requests to; None where a test plays the controller.

        `at_stop` closes what else speaks to other brokers.
        """
        self.view = view
        self.inter_broker = inter_broker
        self.own = own
        self.full_disks = full_disks
        topics.disk_failures.on_full = full_disks.note
        # The czxid of this broker's registration; -1 before there is one.
        self.broker_epoch = ANY_EPOCH
        self.controller_epoch = -1
        # Set once a controller has told this broker of the cluster, and of its partitions if it has any.
        self.is_ready = asyncio.Event()
        # Returns the configs of topics that this broker learns of; a topic without an entry has none.
        self.configs_of: Callable[[Iterable[str]], Awaitable[dict[str, dict[str, str]]]] = _no_configs
        self._config = config
        self._topics = topics
        self._background = background
        self._clock = clock
        self._timers = timers
        self._threads = threads
        self._leads = leads
        self._replicas: dict[tuple[str, int], Replica] = {}
        self._turn = asyncio.Lock()
        self._timer: TimerHandle | None = None
        self._mark_timer: TimerHandle | None = None
        self._saving: dict[Path, asyncio.Future[None]] = {}
        door = ControllerDoor(config, view, inter_broker, own)
        self._isr_changes = IsrChanges(config.node_id, lambda: self.broker_epoch, door)
        self._leader_throttle = self._throttle(
            lambda: config.leader_replication_throttled_rate, lambda each: each.leader_replication_throttled_replicas
        )
        follower_throttle = self._throttle(
            lambda: config.follower_replication_throttled_rate,
            lambda each: each.follower_replication_throttled_replicas,
        )
        removed, delete = background.file_removal.remove_segments, background.delete_lastingly
        logs = self._logs = FollowerLog(flusher, staging, threads, clock, background.checkpoints.write, removed)
        self._fetchers = Fetchers(
            config,
            inter_broker,
            lambda peer: Fetcher(peer, config, clock, logs, lambda: self.broker_epoch, delete, follower_throttle),
        )
        self._has_roles = False
        self._named_topics: FullNames[str] = FullNames(FULL_METADATA)
        # The id of its topic and the index of each partition.
        self._named_roles: FullNames[tuple[bytes, int]] = FullNames(FULL)
        self._at_stop = at_stop

    def _throttle(self, limit: Callable[[], int], listed: Callable[[TopicConfig], tuple[str, ...]]) -> Throttle:
        config = self._config
        rate = Rate(config.replication_quota_window_num, config.replication_quota_window_size_seconds * 1000)

        def replicas_of(topic: str) -> tuple[str, ...]:
            found = self._topics.get(topic)
            return listed(found.config) if found is not None else ()

        return Throttle(rate, self._clock, limit, replicas_of, config.node_id)

    # -- Start and stop --------------------------------------------------------------------------------

    def start(self) -> None:
        """Look for followers that lag, and write the high watermarks from time to time."""
        self._schedule_tick()
        self._schedule_save()

    async def stop(self) -> None:
        """Follow and lead no longer, and begin to write the high watermarks, as background work."""
        for timer in (self._timer, self._mark_timer):
            if timer is not None:
                timer.cancel()
        self.full_disks.close()
        self._at_stop()
        await self._isr_changes.close()
        await self._fetchers.close()
        for path, write in self._topics.take_high_watermarks().items():
            self._background.work.run(write, path, "high watermarks could not be written", Work.CHECKPOINT)

    # -- Look-ups --------------------------------------------------------------------------------------

    def get(self, topic: str, index: int) -> Replica | None:
        """Return the replica of a partition that this broker holds, or None."""
        return self._replicas.get((topic, index))

    def all(self) -> list[Replica]:
        """Return every replica that has a role."""
        return list(self._replicas.values())

    # -- Lost records ----------------------------------------------------------------------------------

    def with_losses(self) -> list[tuple[str, int]]:
        """Return topic and index of the partitions that may have lost records, as the start has found."""
        return [each.place for each in self._topics.partitions() if each.log.recovery.has_lost]

    # -- LeaderAndIsr ----------------------------------------------------------------------------------

    async def leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        """Lead and follow what the request says. An error concerns one partition.

        STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH for the whole request.
        """
        async with self._turn:
            code = self._check(request.controller_epoch, request.broker_epoch, request.is_kraft_controller)
            if code:
                return LeaderAndIsrResponse(int(code))
            with self._named_roles.losing():
                return await self._take_roles(request)

    async def _take_roles(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        topics = request.topic_states
        # A name that no topic may have has no znode either.
        ids = {each.topic_name: each.topic_id for each in topics if why_impossible(each.topic_name, ()) is None}
        listed = {(topic.topic_id, each.partition_index) for topic in topics for each in topic.partition_states}
        named = self._named_roles.take(request.type, listed)
        configs = await self._new_configs(ids if named is None else self._ids_in_view() | ids)
        if named is not None:
            self._release_others(named, configs)
        response = await self._change_roles(request, configs)
        self._has_roles |= not self._named_roles.is_partial
        self._note_ready()
        return response

    def _ids_in_view(self) -> dict[str, bytes]:
        """Return the current ids of this broker's topics, of those that the cluster still has."""
        seen = (self.view.topics.get(each.name) for each in self._topics.all())
        return {each.name: each.id for each in seen if each is not None}

    async def _new_configs(self, ids: dict[str, bytes]) -> dict[str, dict[str, str]]:
        """Return the configs of those topics that this broker does not know yet, by name and id."""
        known = {name: self._topics.get(name) for name in ids}
        new = [name for name, topic in known.items() if topic is None or topic.id != ids[name]]
        return await self.configs_of(new) if new else {}

    async def _change_roles(
        self, request: LeaderAndIsrRequest, configs: dict[str, dict[str, str]]
    ) -> LeaderAndIsrResponse:
        live = {each.broker_id: (each.host_name, each.port) for each in request.live_leaders}
        response = LeaderAndIsrResponse()
        hosted: list[tuple[Topic, LeaderAndIsrPartitionState, LeaderAndIsrPartitionError]] = []
        turns = keeper()
        for states in request.topic_states:
            result = LeaderAndIsrTopicError(states.topic_id)
            response.topics.append(result)
            for state in states.partition_states:
                error = LeaderAndIsrPartitionError("", state.partition_index)
                result.partition_errors.append(error)
                await turns.pause()
                topic = self._host(states, state, error, configs.get(states.topic_name, {}))
                if topic is not None:
                    hosted.append((topic, state, error))
        failure = self._topics.try_commit()
        for topic, state, error in hosted:
            await turns.pause()
            if failure is None or self._topics.is_noted(topic.name, state.partition_index, topic.id):
                self._assume(topic, state, live, error)
            else:
                # It must be durable before the first batch is appended. Those that were here before are not concerned.
                error.error_code = int(failure.code)
        return response

    def _host(
        self,
        states: LeaderAndIsrTopicState,
        state: LeaderAndIsrPartitionState,
        error: LeaderAndIsrPartitionError,
        configs: dict[str, str],
    ) -> Topic | None:
        """Return the topic, with a log for the partition; None where the role cannot be assumed."""
        name, topic_id, index = states.topic_name, states.topic_id, state.partition_index
        current = self._replicas.get((name, index))
        try:
            if (impossible := why_impossible(name, (index,))) is not None:
                raise impossible
            if self._config.node_id not in state.replicas:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "this broker is not among the replicas")
            if current is not None and current.topic_id == topic_id and state.leader_epoch < current.role.leader_epoch:
                raise KafkaError(ErrorCode.STALE_CONTROLLER_EPOCH, "the partition has a newer leader epoch")
            topic = self._topics.know(name, topic_id, index + 1, configs)
            self._topics.host(topic, index).check_online()
        except KafkaError as failure:
            _log.warning("%s-%d: this broker could not become leader or follower: %s", name, index, failure.message)
            error.error_code = int(failure.code)
            return None
        return topic

    def _assume(
        self,
        topic: Topic,
        state: LeaderAndIsrPartitionState,
        live: dict[int, tuple[str, int]],
        error: LeaderAndIsrPartitionError,
    ) -> None:
        partition = topic.partitions[state.partition_index]
        role = Role.of(state)
        replica = self._replica(partition, topic.id)
        if role.leader_epoch == replica.role.leader_epoch and role.partition_epoch < replica.role.partition_epoch:
            return
        try:
            if role.leader == self._config.node_id:
                self._lead(replica, role)
            else:
                self._follow(replica, role, live.get(role.leader))
        except KafkaError as failure:
            _log.error("%s: this broker could not become leader or follower: %s", replica, failure.message)
            error.error_code = int(failure.code)
        else:
            if not self._topics.has_room(partition):
                # It has the role, and others should lead until there is room.
                error.error_code = int(ErrorCode.INELIGIBLE_REPLICA)

    def _replica(self, partition: Partition, topic_id: bytes) -> Replica:
        found = self._replicas.get(partition.place)
        if found is None or found.partition is not partition:
            found = self._replicas[partition.place] = Replica(
                partition,
                topic_id,
                self._config.node_id,
                self._clock,
                lambda: self._config.replica_lag_time_max_ms,
                self._isr_changes.ask,
                self._rack_of,
                self._leader_throttle,
            )
        return found

    def _lead(self, replica: Replica, role: Role) -> None:
        self._fetchers.stop(replica.key)
        if replica.lead(role):
            self._leads.begun(replica.partition)

    def _follow(self, replica: Replica, role: Role, told: tuple[str, int] | None) -> None:
        is_same = replica.role.leader_epoch == role.leader_epoch and replica.role.leader == role.leader
        if replica.follow(role):
            self._leads.ended(replica.partition)
        self._fetch(replica, told, is_same)

    def _fetch(self, replica: Replica, told: tuple[str, int] | None, is_same: bool) -> None:
        """Fetch from the leader. The controller has `told` where it is for brokers that reach others as it does."""
        role = replica.role
        address = self._address_of(role.leader)
        if address is None and role.leader not in self.view.brokers:
            address = told if self.inter_broker.is_plain else None
        if address is None:
            # The partition has no leader, or the controller has not told where it is; then `_follow_moved` does it.
            self._fetchers.stop(replica.key)
        elif not is_same or not self._fetchers.has(replica.key, address):
            following = Following(replica.partition, replica.topic_id, role.leader_epoch)
            self._fetchers.follow(following, role.leader, address)

    def _release_others(self, named: set[tuple[bytes, int]], configs: dict[str, dict[str, str]]) -> None:
        """Hold nothing but what a full request names: the rest was deleted or moved while this broker was away.

        A topic that was created again meanwhile has another id. The log of the deleted one is set aside when the new
        one needs its place, and otherwise by the next start.
        """
        for topic in self._topics.all():
            strays = [index for index in sorted(topic.record.held) if (topic.id, index) not in named]
            seen = self.view.topics.get(topic.name)
            if seen is not None and seen.id == topic.id:
                # The controller may want those on a failed disk to be deleted, after the next start.
                strays = [index for index in strays if topic.partitions[index].is_online]
            for index in strays:
                _log.warning("%s-%d belongs to other brokers; the next start sets it aside", topic.name, index)
                self._drop(topic, index, delete=False)
            if strays and topic.name in self.view.topics:
                self._know(topic.name, configs.get(topic.name, {}))

    # -- StopReplica -----------------------------------------------------------------------------------

    async def stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Stop partitions, and delete those of which the request says so. An error concerns one partition."""
        async with self._turn:
            code = self._check(request.controller_epoch, request.broker_epoch, request.is_kraft_controller)
            if code:
                return StopReplicaResponse(int(code))
            response = StopReplicaResponse()
            deleted: list[StopReplicaPartitionError] = []
            for name, index, epoch, delete in partitions_to_stop(request):
                await keeper().pause()
                code = self._stop(name, index, epoch, delete)
                response.partition_errors.append(StopReplicaPartitionError(name, index, int(code)))
                if delete and not code:
                    deleted.append(response.partition_errors[-1])
            failure = self._topics.try_commit()
            for each in deleted if failure is not None else ():
                if self._topics.is_noted(each.topic_name, each.partition_index):
                    each.error_code = int(ErrorCode.KAFKA_STORAGE_ERROR)
            return response

    def _stop(self, name: str, index: int, leader_epoch: int, delete: bool) -> ErrorCode:
        topic = self._topics.get(name)
        partition = topic.partition(index) if topic is not None else None
        if topic is None or partition is None:
            return ErrorCode.NONE
        replica = self._replicas.get((name, index))
        present = replica.role.leader_epoch if replica is not None else ANY_EPOCH
        if leader_epoch not in (ANY_EPOCH, _EPOCH_DURING_DELETE) and leader_epoch < present:
            return ErrorCode.FENCED_LEADER_EPOCH
        if not partition.is_online and index in topic.record.held:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if delete:
            return self._drop(topic, index, delete=True)
        if replica is not None:
            self._fetchers.stop(replica.key)
            if replica.stop():
                self._leads.ended(partition)
        return ErrorCode.NONE

    def _drop(self, topic: Topic, index: int, *, delete: bool) -> ErrorCode:
        """Hold a partition no longer."""
        partition = topic.partitions[index]
        replica = self._replicas.pop((topic.name, index), None)
        if replica is not None:
            self._fetchers.stop(replica.key)
            if replica.stop():
                self._leads.ended(replica.partition)
        try:
            self._topics.release(topic, index, self._background.file_removal.remove_topic if delete else None)
        except StorageError as error:
            _log.error("%s-%d: its files stay in place: %s", topic.name, index, error.message)
            return ErrorCode.KAFKA_STORAGE_ERROR
        self._background.cleaner.forget([partition])
        if delete and not topic.record.held and topic.name not in self.view.topics:
            # UpdateMetadata came first.
            self._forget(topic)
        return ErrorCode.NONE

    # -- UpdateMetadata --------------------------------------------------------------------------------

    async def update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        """Know the cluster as the request says. STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH."""
        async with self._turn:
            code = self._check(request.controller_epoch, request.broker_epoch, request.is_kraft_controller)
            if code:
                return UpdateMetadataResponse(int(code))
            with self._named_topics.losing():
                await self._take_metadata(request)
            return UpdateMetadataResponse()

    async def _take_metadata(self, request: UpdateMetadataRequest) -> None:
        request.topic_states = [each for each in request.topic_states if may_exist(each)]
        ids = {each.topic_name: each.topic_id for each in request.topic_states}
        named = self._named_topics.take(request.type, set(ids))
        configs = await self._new_configs(ids)
        before, gone = self.view.brokers, [] if named is None else sorted(self.view.topics.keys() - named)
        turns = keeper()
        await turns.finish(self.view.update(request, gone))
        for name in gone:
            await turns.pause()
            self._know(name, {})
        if before.keys() - self.view.brokers.keys():
            await self._note_dead()
        if moved := {node for node, each in self.view.brokers.items() if before.get(node) != each}:
            await self._follow_moved(moved)
        for states in request.topic_states:
            await turns.pause()
            self._know(states.topic_name, configs.get(states.topic_name, {}))
            for state in states.partition_states:
                if turns.is_over:
                    await turns.next()
                replica = self._replicas.get((states.topic_name, state.partition_index))
                if replica is not None and replica.is_leader and state.leader == self._config.node_id:
                    # The answer to a change of the ISR may have been lost.
                    replica.altered(state.leader_epoch, tuple(state.isr), state.zk_version)
        self._topics.try_commit()
        self._note_ready()

    async def _follow_moved(self, brokers: set[int]) -> None:
        """Fetch from leaders that are elsewhere by now, or of which nothing was known."""
        for replica in self.all():
            await keeper().pause()
            if not replica.is_leader and replica.role.leader in brokers:
                self._fetch(replica, None, is_same=True)

    async def _note_dead(self) -> None:
        """Wake requests that wait for a follower whose broker is dead by now (DeleteRecords)."""
        for replica in self.all():
            await keeper().pause()
            if replica.is_leader:
                replica.partition.note_log_start()

    def _know(self, name: str, configs: dict[str, str]) -> None:
        """Let clients find a topic of the view here, or find it gone."""
        seen = self.view.topics.get(name)
        try:
            if seen is not None:
                self._topics.know(name, seen.id, max(seen.partitions, default=-1) + 1, configs)
            elif (topic := self._topics.get(name)) is not None and not topic.record.held:
                self._forget(topic)
        except KafkaError as error:
            _log.warning("topic %s: %s", name, error.message)

    def _forget(self, topic: Topic) -> None:
        """Know a topic no longer, because it was deleted and nothing of it is here."""
        self._topics.forget(topic)
        self._leads.deleted(topic)

    # -- Parts -----------------------------------------------------------------------------------------

    def _check(self, controller_epoch: int, broker_epoch: int, is_kraft: bool) -> ErrorCode:
        """Return why a request of a controller is not carried out; note its epoch where it is."""
        if is_kraft:
            return ErrorCode.INVALID_REQUEST
        if controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if broker_epoch != ANY_EPOCH and broker_epoch < self.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        self.controller_epoch = controller_epoch
        return ErrorCode.NONE

    def _note_ready(self) -> None:
        """Kafka's own controller sends no LeaderAndIsr to a broker that has no partitions."""
        if self.is_ready.is_set() or self._named_topics.is_partial:
            return
        if self._config.node_id in self.view.brokers and (self._has_roles or not self._has_partitions()):
            self.is_ready.set()

    def _has_partitions(self) -> bool:
        own, topics = self._config.node_id, self.view.topics.values()
        return any(own in each.replicas for topic in topics for each in topic.partitions.values())

    def _address_of(self, broker: int) -> tuple[str, int] | None:
        found = self.view.brokers.get(broker)
        return self.inter_broker.address_of(found.endpoints) if found is not None else None

    def _rack_of(self, broker: int) -> str | None:
        found = self.view.brokers.get(broker)
        return found.rack if found is not None else None

    # -- From time to time -----------------------------------------------------------------------------

    def _schedule_tick(self) -> None:
        # As in Kafka: a follower leaves the ISR after at most one and a half times the limit.
        delay_ms = max(self._config.replica_lag_time_max_ms // 2, 1)
        self._timer = self._timers.after(delay_ms, self._tick)

    def _tick(self) -> None:
        for replica in self._replicas.values():
            replica.look_for_lag()
        self._schedule_tick()

    def _schedule_save(self) -> None:
        delay_ms = self._config.replica_high_watermark_checkpoint_interval_ms
        self._mark_timer = self._timers.after(delay_ms, self._save_now)

    def _save_now(self) -> None:
        for path, write in self._topics.take_high_watermarks().items():
            # A disk that hangs holds up no other's.
            if path not in self._saving:
                saving = self._saving[path] = asyncio.ensure_future(self._save(path, write))
                saving.add_done_callback(lambda _, path=path: self._saving.pop(path))
        self._schedule_save()

    async def _save(self, path: Path, write: Callable[[], None]) -> None:
        try:
            await self._threads.run(Work.CHECKPOINT, path, write)
        except StorageError as error:
            _log.error("high watermarks could not be written: %s", error.message)


async def _no_configs(_: Iterable[str]) -> dict[str, dict[str, str]]:
    return {}
