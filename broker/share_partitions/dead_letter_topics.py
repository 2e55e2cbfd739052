"""The topics of dead letters (KIP-1191): which may be written to, how they are created, and how leaders are reached."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar, cast

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ...protocol.messages.produce import ProduceRequest, ProduceResponse
from ...protocol.schema import Message
from ..clock import jitter
from ..configs.broker_config import BrokerConfig
from ..topics.topic import Topic
from ..topics.topic_names import check_name
from ..topics.topics import Topics

TIMEOUT_MS = 30_000
# The first with topic ids.
PRODUCE_VERSION = 13
CREATE_VERSION = 7
# The pauses between the tries, as Kafka's; a fifth more or less.
PAUSES_S = (1.0, 2.0, 4.0, 8.0)
_DEFAULT = -1
_PASSING = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        # A replica restarts, or another one takes the place of a full disk.
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        # The leader of a new topic may not know it yet.
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)

Done = TypeVar("Done")


async def tried_again(step: Callable[[], Awaitable[Done]]) -> Done:
    """Return the result of a step that is tried again after errors that pass. Raises KafkaError."""
    for pause_s in PAUSES_S:
        try:
            return await step()
        except KafkaError as error:
            if error.code not in _PASSING:
                raise
        await asyncio.sleep(pause_s * jitter().uniform(0.8, 1.2))
    return await step()


class DeadLetterWire(Protocol):
    """The way to the brokers that lead partitions, and to the one that creates topics. Both raise KafkaError."""

    async def produce(self, topic: str, index: int, request: ProduceRequest) -> ProduceResponse: ...

    async def create(self, topic: CreatableTopic) -> None: ...


class OwnWire:
    """The way of a broker that leads everything itself."""

    def __init__(self, ask_self: Callable[[Message, int], Awaitable[Message]]) -> None:
        """`ask_self` carries out a request of this broker to itself."""
        self._ask_self = ask_self

    async def produce(self, topic: str, index: int, request: ProduceRequest) -> ProduceResponse:
        return cast(ProduceResponse, await self._ask_self(request, PRODUCE_VERSION))

    async def create(self, topic: CreatableTopic) -> None:
        request = CreateTopicsRequest([topic], TIMEOUT_MS)
        check_created(cast(CreateTopicsResponse, await self._ask_self(request, CREATE_VERSION)))


def check_created(response: CreateTopicsResponse) -> None:
    """Raise KafkaError where the one topic of a request was not created."""
    result = response.topics[0]
    if result.error_code:
        raise KafkaError(ErrorCode.of(result.error_code), result.error_message or "")


class DeadLetterTopics:
    """Finds the topics that groups name, and has missing ones created."""

    def __init__(self, config: BrokerConfig, topics: Topics, wire: DeadLetterWire) -> None:
        self._config = config
        self._topics = topics
        self._wire = wire
        self._creations: dict[str, asyncio.Future[None]] = {}

    async def find(self, name: str) -> Topic:
        """Return the topic of dead letters, which is created where that is allowed. Raises KafkaError."""
        prefix = self._config.errors_deadletterqueue_topic_name_prefix
        if not name.startswith(prefix) or name.startswith("__"):
            why = f"its name must begin with errors.deadletterqueue.topic.name.prefix, {prefix!r}, and not with __"
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
        if self._topics.get(name) is None:
            check_name(name)
            if not self._config.errors_deadletterqueue_auto_create_topics_enable:
                why = "it does not exist, and errors.deadletterqueue.auto.create.topics.enable is false"
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)
            await self._create(name)
        topic = self._topics.get(name)
        if topic is None or not topic.partitions:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "it is created, and not known here yet")
        if not topic.config.errors_deadletterqueue_group_enable:
            why = "its errors.deadletterqueue.group.enable is false"
            raise KafkaError(ErrorCode.INVALID_CONFIG, why)
        return topic

    async def _create(self, name: str) -> None:
        creation = self._creations.get(name)
        if creation is None:
            configs = {"errors.deadletterqueue.group.enable": "true", "message.timestamp.type": "CreateTime"}
            topic = CreatableTopic(name, _DEFAULT, _DEFAULT)
            topic.configs = [CreatableTopicConfig(*each) for each in configs.items()]
            creation = self._creations[name] = asyncio.ensure_future(self._wire.create(topic))
            creation.add_done_callback(lambda _: self._creations.pop(name, None))
        await asyncio.shield(creation)
