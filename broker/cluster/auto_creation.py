"""Topics that are created at first need: the broker that needs one asks the controller for it (CreateTopics).

The client that needs it is told to try again meanwhile, as in Kafka.
"""

from __future__ import annotations

import asyncio
import logging

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ..configs.broker_config import BrokerConfig
from ..replication.controller_door import ControllerDoor
from ..replication.metadata_cache import MetadataCache
from ..replication.peer import PeerLost
from ..topics.internal_topics import internal_topic
from ..topics.topic_names import INTERNAL_TOPICS

VERSION = 7
# Topics that one broker asks for at a time.
MAX_UNDER_WAY = 100

_log = logging.getLogger(__name__)


class AutoCreation:
    """Asks the controller for topics. End it with `close`."""

    def __init__(self, config: BrokerConfig, view: MetadataCache, door: ControllerDoor) -> None:
        self._config = config
        self._view = view
        self._door = door
        self._under_way: dict[str, asyncio.Future[None]] = {}

    def begin(self, name: str) -> bool:
        """Ask for a topic, unless that is under way. Return whether this call asks.

        Raises INVALID_REPLICATION_FACTOR where too few brokers are alive for its replicas.
        """
        if name in self._under_way:
            return False
        topic = self._topic(name)
        alive = len(self._view.brokers)
        if topic.replication_factor > alive:
            why = f"topic {name} needs {topic.replication_factor} brokers, and {alive} are alive"
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, why)
        if len(self._under_way) >= MAX_UNDER_WAY:
            return False
        asking = self._under_way[name] = asyncio.ensure_future(self._ask(topic))
        asking.add_done_callback(lambda _: self._under_way.pop(name, None))
        return True

    def close(self) -> None:
        """Ask no more."""
        for each in self._under_way.values():
            each.cancel()

    async def _ask(self, topic: CreatableTopic) -> None:
        try:
            await self.create(topic)
        except PeerLost as error:
            _log.warning("topic %s is not created yet: %s", topic.name, error.message)
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                _log.warning("topic %s is not created: %s", topic.name, error.message)

    async def create(self, topic: CreatableTopic) -> None:
        """Have the controller create a topic. Raises KafkaError."""
        request = CreateTopicsRequest([topic], self._config.controller_socket_timeout_ms)
        result = (await self._door.request(request, VERSION, CreateTopicsResponse)).topics[0]
        if result.error_code:
            code = ErrorCode.of(result.error_code)
            raise KafkaError(code, result.error_message or code.name)

    def _topic(self, name: str) -> CreatableTopic:
        config = self._config
        if name not in INTERNAL_TOPICS:
            return CreatableTopic(name, config.num_partitions, config.default_replication_factor)
        wanted = internal_topic(config, name)
        configs = [CreatableTopicConfig(*each) for each in wanted.configs.items()]
        if wanted.min_isr is not None:
            configs.append(CreatableTopicConfig("min.insync.replicas", str(wanted.min_isr)))
        return CreatableTopic(name, wanted.partitions, wanted.replication_factor, configs=configs)
