"""The configs of topics and brokers in ZooKeeper: how they are written and announced, read and acted on.

Each change is announced under `/config/changes`. A notification names the topic or broker whose configs have changed. A
broker reads the notifications that it has not seen, then the configs themselves. At its start, and after its session
has expired, it reads all configs again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from ...protocol.errors import ErrorCode, KafkaError
from ...zookeeper.operations import (
    Create,
    Put,
    SessionExpired,
    Steps,
    create,
    write,
)
from ...zookeeper.session import Session
from ..configs.definition import ConfigError
from ..configs.reconfiguration import Reconfiguration
from ..topics.cluster_topics import ClusterTopics
from .adoption import EVERY_BROKER
from .security import ClusterSecurity
from .security_steps import forget_old_notices, read_entities, read_notices
from .security_znodes import CLIENTS, IPS, USERS
from .znodes import (
    CONFIG_CHANGE_PREFIX,
    CONFIG_CHANGES,
    config_path,
    decode_config,
    decode_config_change,
    encode_config,
    encode_config_change,
)

_log = logging.getLogger(__name__)


class ConfigWatch:
    """Applies the configs of ZooKeeper to this broker and its topics."""

    def __init__(
        self,
        zookeeper: Session,
        broker_id: int,
        topics: ClusterTopics,
        reconfiguration: Reconfiguration,
        security: ClusterSecurity,
        unclean_allowed: Callable[[], None],
    ) -> None:
        """`unclean_allowed` is called where changed configs let replicas lead that are not in sync."""
        self._unclean_allowed = unclean_allowed
        self._zookeeper = zookeeper
        self._topics = topics
        self._reconfiguration = reconfiguration
        self._security = security
        # The znodes of the configs that this broker has.
        self._own = (broker_znode(str(broker_id)), broker_znode(""))
        # The last notification that was acted on.
        self._seen = ""
        # The topics that somebody has asked for last, and their configs: what changes before they are known comes here.
        self._asked: frozenset[str] = frozenset()
        self._given: dict[str, dict[str, str]] = {}
        self._turn = asyncio.Lock()

    async def read_all(self) -> None:
        """Apply the configs of this broker and of every topic that it knows, and watch for changes."""
        async with self._turn:
            changes = await self._zookeeper.run(read_notices(CONFIG_CHANGE_PREFIX, "", decode_config_change))
            await self._apply_brokers(self._own)
            await self._apply_topics([each.name for each in self._topics.all()])
            if changes:
                self._seen = changes[-1][0]

    async def read_changes(self) -> None:
        """Act on the notifications since the last call, and watch for the next."""
        async with self._turn:
            changes = await self._zookeeper.run(read_notices(CONFIG_CHANGE_PREFIX, self._seen, decode_config_change))
            await self._apply_topics({name for _, (entity, name) in changes if entity == TOPICS})
            await self._apply_brokers({name for _, (entity, name) in changes if entity == BROKERS})
            entities = {f"{entity}/{name}" for _, (entity, name) in changes if entity in (USERS, CLIENTS, IPS)}
            await self._security.read_entities(entities)
            if changes:
                self._seen = changes[-1][0]

    async def topic_configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return the configs of topics that this broker has just learned of, and keep them current until the next call.

        Thousands of topics become known in many turns, in which others may change their configs. Raises
        STALE_BROKER_EPOCH where the session has expired: the controller tells of them again in the next one.
        """
        self._asked = frozenset(names)
        given = self._given = {}
        for name, configs in (await self._read(self._asked)).items():
            given.setdefault(name, configs)
        return given

    async def _read(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        try:
            return await self._zookeeper.run(read_configs(TOPICS, list(names)))
        except SessionExpired:
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, "the session with ZooKeeper has expired") from None

    async def _apply_topics(self, names: Iterable[str]) -> None:
        wanted = [name for name in names if name in self._asked or self._topics.get(name) is not None]
        for name, configs in (await self._read(wanted)).items():
            if name in self._asked:
                self._given[name] = configs
            topic = self._topics.get(name)
            if topic is None or topic.record.configs == configs:
                continue
            try:
                self._topics.alter(topic, configs)
            except KafkaError as error:
                _log.error("the configs of topic %s stay as they are: %s", name, error.message)
            else:
                self._note_unclean(topic.config.unclean_leader_election_enable)

    async def _apply_brokers(self, znodes: Iterable[str]) -> None:
        wanted = [each for each in znodes if each in self._own]
        for znode, configs in (await self._zookeeper.run(read_configs(BROKERS, wanted))).items():
            node = node_of(znode)
            if self._reconfiguration.overrides(node) == configs:
                continue
            try:
                changing = self._reconfiguration.in_turn(partial(self._reconfiguration.alter, node, configs))
                if changing is not None:
                    await changing
            except (KafkaError, ConfigError) as error:
                _log.error("the dynamic configs of %s stay as they are: %s", znode, error)
            else:
                self._note_unclean(self._reconfiguration.config.unclean_leader_election_enable)

    def _note_unclean(self, is_allowed: bool) -> None:
        if is_allowed:
            self._unclean_allowed()


TOPICS, BROKERS = "topics", "brokers"


def read_configs(entity: str, names: list[str]) -> Steps[dict[str, dict[str, str]]]:
    """Return the configs of topics or brokers, {} for each without any. Those that make no sense are left out."""
    found = yield from read_entities((f"{entity}/{name}" for name in names), decode_config)
    return {place.partition("/")[2]: configs for place, configs in found.items()}


def write_config(entity: str, name: str, configs: Mapping[str, str]) -> Steps[None]:
    """Replace the configs of a topic or broker, and announce the change: both or neither, also where this is cut short.

    Otherwise brokers would have different configs until their next start. Raises UNKNOWN_SERVER_ERROR where neither can
    be written, TooLarge.
    """
    path = config_path(entity, name)
    put = Put(path, encode_config(dict(configs)))
    notice = Create(CONFIG_CHANGE_PREFIX, encode_config_change(entity, name), is_sequential=True)
    failure = yield from write(put, notice)
    if failure is not None and failure.missing:
        for each in (path, CONFIG_CHANGES):
            yield from create(Create(each))
        failure = yield from write(put, notice)
    if failure is not None:
        why = f"the znode {failure.path} is removed by others all the time: try again"
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, why)
    yield from forget_old_notices(CONFIG_CHANGES)


def broker_znode(node: str) -> str:
    """Return the znode's name of the dynamic configs of a broker, or of every broker ("")."""
    return node or EVERY_BROKER


def node_of(znode: str) -> str:
    """Return the broker whose configs a znode holds; "" for every broker."""
    return "" if znode == EVERY_BROKER else znode
