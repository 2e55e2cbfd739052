"""A broker as a member of a cluster: it joins, registers, stands for controller, and leaves.

Start: `join` opens the session with ZooKeeper and finds the cluster's id and the broker's number, before the data
directories are opened. `leave_isrs` follows their opening. `register` makes the broker known. It comes before the
broker listens, because it may have to wait for an earlier session of the same broker to end. `serve` stands for
controller, and returns when the present controller has told the broker everything.

When the session expires, this broker is no controller any more; it registers again as soon as there is a new session.
Stop: the controller moves leaders away (controlled shutdown), then the session ends, and with it the registration.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...protocol.errors import KafkaError
from ...storage import checkpoints
from ...storage.checkpoints import MetaProperties
from ...storage.errors import StorageError
from ...storage.files import DISK, Disk
from ...zookeeper.operations import Create, SessionExpired, create, read, write
from ...zookeeper.session import Contact, OpenSession, ZooKeeperUnreachable
from ..clock import Clock
from ..configs.broker_config import BrokerConfig
from ..configs.endpoint import ANY_HOST
from ..configs.reconfiguration import Reconfiguration
from ..log_dirs.data_dir import StartError, new_id_text
from ..replication.controller_door import ControllerDoor
from ..replication.replicas import Replicas
from ..security.pem import StoreError
from ..topics.cluster_topics import ClusterTopics
from ..topics.metadata_journal import Metadata, new_secret
from .admin import ClusterAdmin
from .adoption import adopt_broker_configs, adopt_topic
from .auto_creation import AutoCreation
from .config_watch import ConfigWatch
from .controller.controller import Controller
from .leaving import move_leaders_away
from .lost_records import lacking, leave_isrs
from .old_offsets import OldOffsets
from .producer_ids import ProducerIdBlocks, take_block
from .registration import holder_of, join_cluster, register, share_secret, take_broker_id
from .security import ClusterSecurity
from .security_znodes import ACL_PARENTS
from .znodes import (
    CLUSTER_ID,
    CONFIG_CHANGES,
    FEATURE,
    LOG_DIR_EVENT_PREFIX,
    PERSISTENT,
    BadZnode,
    Registration,
    TopicPartition,
    broker_path,
    encode_feature,
    encode_log_dir_event,
)
from .zookeeper_login import session_of

# How long a broker waits for its own earlier run to be declared dead, in session time-outs.
_PATIENCE_SESSIONS = 2
# What ZooKeeper has refused is tried again after this.
FAILURE_PAUSE_S = 1.0
# How often a start says that it still waits for the controller.
_REPORT_S = 30

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BrokerParts:
    """The parts of a broker that its membership uses."""

    # The broker's own, which dynamic configs change.
    config: BrokerConfig
    replicas: Replicas
    metadata: Metadata
    topics: ClusterTopics
    reconfiguration: Reconfiguration
    security: ClusterSecurity


class Member:
    """The membership of one broker. `join`, `register`, and at the end `leave` and `stop`."""

    def __init__(self, config: BrokerConfig, clock: Clock, open_session: OpenSession | None = None) -> None:
        self.broker_id = config.node_id
        self.cluster_id = ""
        self.stranger_secret = b""
        self._config = config
        self._clock = clock
        self.zookeeper = session_of(config, self._note_change, self._note_contact, open_session)
        self.producer_ids = ProducerIdBlocks(lambda: self.zookeeper.run(take_block(self.broker_id)))
        # Complete from `register` on.
        self.controller: Controller
        self.admin: ClusterAdmin
        self.auto_creation: AutoCreation
        self.old_offsets: OldOffsets
        self._door: ControllerDoor
        self._configs: ConfigWatch
        self._parts: BrokerParts
        self._registration: Registration | None = None
        # Fails with StartError when another broker has taken this one's number: it must stop, with that message.
        self.expelled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Set when the broker's own znode has changed: another run of it has gone.
        self._own_znode_changed = asyncio.Event()
        self._tasks: set[asyncio.Future[None]] = set()
        # Whether the znode was made, and nobody has changed it since.
        self._is_registered = False
        self._is_leaving = False
        # Whether the controller is about to be told that replicas are offline: a directory takes many along.
        self._tells_of_failure = False

    @property
    def unready_reason(self) -> str | None:
        """Why clients of the cluster are not to be sent to this broker; None: it is one of the cluster's."""
        if self._is_leaving:
            return "the broker leaves the cluster"
        return None if self._is_registered else "the broker is not registered in ZooKeeper"

    # -- Join

    @classmethod
    async def join(
        cls, config: BrokerConfig, clock: Clock, disk: Disk = DISK, open_session: OpenSession | None = None
    ) -> Member:
        """Open the session, and find the cluster's id and the broker's number. Raises StartError."""
        try:
            meta = checkpoints.read_meta_properties(config.data_dir, disk)
        except (OSError, StorageError) as error:
            raise StartError(f"data directory {config.data_dir} cannot be read: {error}") from error
        try:
            member = cls(config, clock, open_session)
        except ZooKeeperUnreachable as error:
            raise StartError(error.message) from error
        except StoreError as error:
            raise StartError(f"ZooKeeper cannot be reached: {error}") from error
        try:
            await member.zookeeper.start((*PERSISTENT, *(ACL_PARENTS if config.authorizer_class_name else ())))
            await member._find_ids(meta)
        except BaseException as error:
            await member.zookeeper.stop()
            raise _start_error(config, error) from error
        return member

    async def _find_ids(self, meta: MetaProperties | None) -> None:
        config, run = self._config, self.zookeeper.run
        if meta is not None and meta.is_clustered and await run(read(CLUSTER_ID)) is None:
            why = f"ZooKeeper at {config.zookeeper_connect} holds no cluster, and data directory {config.data_dir}"
            raise StartError(f"{why} belongs to cluster {meta.cluster_id}: correct zookeeper.connect")
        self.cluster_id = await run(join_cluster(new_id_text() if meta is None else meta.cluster_id))
        if meta is not None and meta.cluster_id != self.cluster_id:
            why = f"data directory {config.data_dir} belongs to cluster {meta.cluster_id}, and ZooKeeper at"
            raise StartError(
                f"{why} {config.zookeeper_connect} holds cluster {self.cluster_id}: choose another --data-dir, or "
                "correct zookeeper.connect"
            )
        self.stranger_secret = await run(share_secret(new_secret()))
        if not config.has_generated_id:
            return
        if meta is not None and meta.node_id != checkpoints.NO_NODE:
            self.broker_id = meta.node_id
        elif config.broker_id_generation_enable:
            self.broker_id = await run(take_broker_id(config.reserved_broker_max_id))
        else:
            raise StartError("broker.id is not set, and broker.id.generation.enable is false: set broker.id")

    # -- Register

    async def leave_isrs(self, replicas: Replicas) -> None:
        """Be in sync no more, before anybody may elect this broker, where its start has found records lost.

        Its logs keep what they have until it follows a leader: it may be the last that has it. Raises StartError.
        """
        lost = [TopicPartition(*each) for each in replicas.with_losses()]
        try:
            await self.zookeeper.run(leave_isrs(self.broker_id, lost))
        except (SessionExpired, BadZnode) as error:
            raise _start_error(self._config, error) from error

    async def register(self, parts: BrokerParts, addresses: list[str]) -> None:
        """Make the broker known. It is to listen at `addresses`, HOST:PORT each, and then to `serve`.

        Until then it does not listen: clients would ask it of a cluster that it does not know. Raises StartError where
        another broker has the number.
        """
        config = self._config = parts.config
        registration = _registration(self.broker_id, config, addresses, self._clock.now_ms())
        self._parts, self._registration = parts, registration
        own = parts.replicas.own
        assert own is not None, "a member's requests to itself need no connection"
        self._configs = ConfigWatch(
            self.zookeeper,
            self.broker_id,
            parts.topics,
            parts.reconfiguration,
            parts.security,
            lambda: self.controller.elect_again(),
        )
        view = parts.replicas.view
        self._door = ControllerDoor(config, view, parts.replicas.inter_broker, own)
        self.auto_creation = AutoCreation(config, view, self._door)
        self.old_offsets = OldOffsets(self.zookeeper, parts.topics, config)
        self.controller = Controller(config, self.zookeeper, self._clock, own, parts.replicas.inter_broker)
        self.admin = ClusterAdmin(self.zookeeper, self.controller, self._configs, view)
        parts.replicas.configs_of = self._configs.topic_configs
        parts.replicas.full_disks.tell = self.note_offline
        try:
            await self._adopt()
            await self._configs.read_all()
            await parts.security.read_all()
            await parts.security.adopt(parts.metadata)
            await self.producer_ids.fetch()
            patience_s = _PATIENCE_SESSIONS * config.zookeeper_session_timeout_ms / 1000
            await self._take_number(registration, patience_s, is_start=True)
        except (SessionExpired, BadZnode) as error:
            raise _start_error(config, error) from error
        except KafkaError as error:
            raise StartError(f"the cluster cannot be joined: {error.message}") from error

    async def serve(self) -> None:
        """Stand for controller. Returns when the present controller has told this broker what it leads."""
        self.controller.start()
        await self._wait_until_told()

    async def _adopt(self) -> None:
        """Bring what the broker had while it was alone into the cluster."""
        metadata = self._parts.metadata
        alone = [each for each in metadata.topics.values() if each.hosted is None]
        run = self.zookeeper.run
        if alone:
            for node, configs in metadata.broker_configs.items():
                await run(adopt_broker_configs(node, configs))
            await run(take_block(self.broker_id, at_least=metadata.producer_id_limit))
        for topic in alone:
            epoch = metadata.leader_epoch
            if await run(adopt_topic(topic.name, topic.id, topic.partitions, topic.configs, self.broker_id, epoch)):
                _log.info("topic %s of this data directory is now the cluster's", topic.name)

    async def _take_number(
        self, registration: Registration, patience_s: float = math.inf, *, is_start: bool = False
    ) -> None:
        """Register. An earlier session of this broker is waited for until it has expired.

        Raises StartError where another broker has the number, or that session outlives `patience_s`.
        """
        run, path = self.zookeeper.run, broker_path(self.broker_id)
        deadline = asyncio.get_running_loop().time() + patience_s
        while True:
            self._own_znode_changed.clear()
            if is_start:
                is_start = not await self._leave_what_it_lacks(registration)
            found = await run(register(registration, self.zookeeper.session_id))
            if isinstance(found, int):
                break
            host, port = found.address
            remaining_s = deadline - asyncio.get_running_loop().time()
            if not found.shares_address(registration) or remaining_s <= 0:
                why = f"broker.id {self.broker_id} is taken by the broker at {host}:{port}"
                raise StartError(f"{why}: choose another broker.id, or stop that broker")
            _log.info("broker %d is still registered by its last run: waiting for that session to end", self.broker_id)
            if await run(read(path, watch=True)) is None:
                continue
            try:
                await asyncio.wait_for(self._own_znode_changed.wait(), min(remaining_s, _REPORT_S))
            except TimeoutError:
                continue
        self._parts.replicas.broker_epoch = found
        self._is_registered = True
        await run(write(Create(FEATURE, encode_feature())))
        _log.info("broker %d is registered, epoch %d", self.broker_id, found)

    async def _leave_what_it_lacks(self, registration: Registration) -> bool:
        """Leave the ISRs of partitions that may lack records. Return whether nobody has this broker's number now.

        An earlier run of this broker may: for the controller it is alive, and all others may leave the ISRs as they
        stop. While another broker has the number the replicas are its own.
        """
        run, topics = self.zookeeper.run, self._parts.topics
        holder = await run(holder_of(self.broker_id))
        if holder is None or holder.shares_address(registration):
            await run(leave_isrs(self.broker_id, await run(lacking(self.broker_id, topics.may_lack_records))))
        if holder is None:
            topics.note_boot()
        return holder is None

    async def _wait_until_told(self) -> None:
        """Wait until the controller has told this broker of its partitions and of the cluster."""
        is_ready = self._parts.replicas.is_ready
        while True:
            try:
                await asyncio.wait_for(is_ready.wait(), _REPORT_S)
            except TimeoutError:
                _log.warning("broker %d waits for the controller to tell it what it leads", self.broker_id)
            else:
                return

    # -- Changes

    def note_offline(self) -> None:
        """Tell the controller that replicas here have lost their disk, or room on it. It asks which; others lead then.

        Without a session nothing need be said: the controller asks every broker that registers.
        """
        if not self._tells_of_failure:
            self._tells_of_failure = True
            self._spawn(self._tell_of_failure())

    async def _tell_of_failure(self) -> None:
        self._tells_of_failure = False
        notice = Create(LOG_DIR_EVENT_PREFIX, encode_log_dir_event(self.broker_id), is_sequential=True)
        await self.zookeeper.run(create(notice))

    def _note_change(self, path: str) -> None:
        if self._registration is None:
            return
        if path == CONFIG_CHANGES:
            self._spawn(self._configs.read_changes())
            return
        if self._parts.security.is_told_by(path):
            self._spawn(self._parts.security.read_changes())
            return
        if path == broker_path(self.broker_id):
            self._own_znode_changed.set()
            if self._is_registered and not self._is_leaving:
                # Somebody has removed the znode, and the session lives: for the others this broker is dead.
                self._is_registered = False
                self._spawn(self._persist(partial(self._register_again, self._registration)))
        self.controller.note_change(path)

    def _note_contact(self, contact: Contact) -> None:
        registration = self._registration
        if registration is None or self._is_leaving:
            return
        if contact is Contact.RENEWED:
            self.zookeeper.renew()
            self._spawn(self._persist(partial(self._return, registration)))
        elif contact is Contact.EXPIRED:
            self._is_registered = False
            self.controller.resign()

    async def _persist(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do work again while ZooKeeper refuses it. Until it is done, the broker is dead for the others."""
        session_id = self.zookeeper.session_id
        while not self._is_leaving and self.zookeeper.session_id == session_id:
            try:
                return await work()
            except SessionExpired:
                # The next session has work of its own.
                return
            except Exception as error:  # noqa: BLE001 - logged, and tried again
                _log.error("broker %d cannot return to the cluster yet", self.broker_id, exc_info=error)
            await asyncio.sleep(FAILURE_PAUSE_S)

    async def _return(self, registration: Registration) -> None:
        """Register in a new session, and be a candidate again. Watches of the old session are gone."""
        await self._register_again(registration)
        if self.expelled.done():
            return
        await self._configs.read_all()
        await self._parts.security.read_all(is_start=False)
        self.controller.stand()

    async def _register_again(self, registration: Registration) -> None:
        try:
            await self._take_number(registration)
        except StartError as error:
            # Two brokers of one number would write into the same partitions' state: this one must go.
            _log.error("this broker has lost its place in the cluster: %s", error)
            if not self.expelled.done():
                self.expelled.set_exception(error)
                # Marks it as retrieved: a program that runs the broker may never await it.
                self.expelled.exception()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_report)

    # -- Leave

    async def leave(self) -> None:
        """Have the controller move this broker's leaders away, as far as controlled.shutdown.* asks for it."""
        self._is_leaving = True
        if self.expelled.done():
            return
        if self._registration is not None and self._config.controlled_shutdown_enable:
            await move_leaders_away(self._config, self._door, self._parts.replicas)

    async def stop(self) -> None:
        """End the session, and with it the registration. Idempotent."""
        self._is_leaving = True
        for task in self._tasks:
            task.cancel()
        if self._registration is not None:
            self.controller.stop()
            self.auto_creation.close()
            self._door.close()
        self.producer_ids.close()
        await self.zookeeper.stop()


def _registration(broker_id: int, config: BrokerConfig, addresses: list[str], now_ms: int) -> Registration:
    """Return what others are told of this broker. A listener on every interface is told by the machine's name."""
    endpoints: list[str] = []
    for listener, address in zip(config.endpoints, addresses, strict=True):
        told = config.advertised.get(listener.name)
        if told is not None:
            address = told.address
        elif listener.host in ANY_HOST:
            name = socket.getfqdn()
            address = f"{name}:{address.rpartition(':')[2]}"
            _log.info("other brokers and clients are told %s: set advertised.listeners for another name", address)
        else:
            # As it was given: a name stays a name.
            address = listener._replace(port=int(address.rpartition(":")[2])).address
        endpoints.append(f"{listener.name}://{address}")
    protocols = {each.name: str(config.of_listener(each.name).protocol) for each in config.endpoints}
    return Registration(broker_id, tuple(endpoints), protocols, config.broker_rack, now_ms)


def _start_error(config: BrokerConfig, error: BaseException) -> BaseException:
    """Return what a start raises for an error of ZooKeeper."""
    if isinstance(error, SessionExpired):
        return StartError(f"the session with ZooKeeper at {config.zookeeper_connect} ended while the broker started")
    if isinstance(error, ZooKeeperUnreachable):
        return StartError(error.message)
    if isinstance(error, BadZnode):
        return StartError(f"the cluster cannot be joined: {error}")
    return error


def _report(task: asyncio.Future[None]) -> None:
    if task.cancelled() or (error := task.exception()) is None:
        return
    if isinstance(error, SessionExpired):
        # What follows is done again in the next session.
        return
    _log.error("%s", error, exc_info=None if isinstance(error, (StartError, BadZnode)) else error)
