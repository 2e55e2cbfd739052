"""What a member of the consumer protocol says to its group: ConsumerGroupHeartbeat (key 68, KIP-848).

A heartbeat names only what has changed since the last one that was answered. After one without an answer nobody knows
what the coordinator has heard, so the next one says everything, and the coordinator repeats the assignment.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ...protocol.schema import Message
from ..core.coordinator import Coordinator
from ..core.randomness import new_uuid
from ..record import TopicPartition, by_topic
from .options import GroupOptions, Subscription

# A partition of an assignment: topic id and number.
Place: TypeAlias = tuple[bytes, int]

JOIN_EPOCH = 0
_LEAVE_EPOCH = -1
# A static member that will be back keeps its partitions until its session ends.
_PAUSE_EPOCH = -2
_FIRST_PATTERN = 1  # ConsumerGroupHeartbeat 1 takes regular expressions


class MemberHeartbeats:
    """The heartbeats of one member, one at a time. Raises KafkaError."""

    # The subclass for share groups has messages of its own.
    _response: ClassVar[Any] = ConsumerGroupHeartbeatResponse

    def __init__(self, coordinator: Coordinator, options: GroupOptions) -> None:
        self._coordinator = coordinator
        self._options = options
        # The member makes its own id (KIP-1082), and keeps it when it is fenced.
        self.member_id = base64.urlsafe_b64encode(new_uuid().bytes).decode().rstrip("=")
        self.epoch = JOIN_EPOCH
        # From the coordinator, which may change it with each answer.
        self.interval_ms = float(options.heartbeat_interval_ms)
        # Whether an answer is missing.
        self.unsure = False
        # What the coordinator knows of this member.
        self._said_topics: frozenset[str] | None = None
        self._said_owned: frozenset[Place] | None = None

    async def send(self, wanted: Subscription, owned: Mapping[TopicPartition, bytes]) -> frozenset[Place] | None:
        """Join or heartbeat. Return the assignment, None if it has not changed."""
        if self.unsure and self.epoch == JOIN_EPOCH and self._options.group_instance_id is not None:
            # The join may have been carried out: then the instance id is taken, by this member itself.
            await self.leave()
        topics = frozenset(wanted.topics) if wanted.broker_pattern is None else frozenset[str]()
        places = frozenset((topic_id, partition.partition) for partition, topic_id in owned.items())
        connection = await self._coordinator.connection()
        request: Message = self._request(topics, wanted.broker_pattern, places)
        version = connection.version_for(type(request))
        if wanted.broker_pattern is not None and version < _FIRST_PATTERN:
            text = f"{connection.address} matches no patterns: take group_protocol='classic', where the client does"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
        self.unsure = True
        response = await self._coordinator.request_over(connection, request, self._response, version=version)
        self._coordinator.raise_error(response.error_code, "a heartbeat", response.error_message)
        self.unsure = False
        self._said_topics, self._said_owned = topics, places
        self.epoch, self.interval_ms = response.member_epoch, max(response.heartbeat_interval_ms, 1)
        if response.assignment is None:
            return None
        return frozenset(
            (topic.topic_id, number) for topic in response.assignment.topic_partitions for number in topic.partitions
        )

    @property
    def _is_whole(self) -> bool:
        """Whether the next heartbeat says everything."""
        return self.unsure or self.epoch == JOIN_EPOCH

    def _request(self, topics: frozenset[str], pattern: str | None, owned: frozenset[Place]) -> Any:
        request, whole = self._identity(self.epoch), self._is_whole
        if whole:
            request.rebalance_timeout_ms = self._options.max_poll_interval_ms
            request.server_assignor = self._options.group_remote_assignor
            request.rack_id = self._options.client_rack
        if whole or topics != self._said_topics:
            request.subscribed_topic_names = sorted(topics)
            request.subscribed_topic_regex = pattern or ""
        if whole or owned != self._said_owned:
            request.topic_partitions = [TopicPartitions(*each) for each in by_topic(sorted(owned)).items()]
        return request

    def _identity(self, epoch: int) -> Any:
        return ConsumerGroupHeartbeatRequest(
            group_id=self._coordinator.key,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self._options.group_instance_id,
        )

    def forget_epoch(self) -> None:
        """Join anew with the next heartbeat: the group has gone on without this member, or it leaves."""
        self.epoch, self.unsure = JOIN_EPOCH, False

    async def leave(self) -> None:
        """Leave, and ignore an error. A static member says that it will be back."""
        static = self._options.group_instance_id is not None
        request = self._identity(_PAUSE_EPOCH if static else _LEAVE_EPOCH)
        # Until this ends: a stop may cancel it, and leaves then.
        self.epoch, self.unsure = JOIN_EPOCH, True

        async def ask() -> None:
            response = await self._coordinator.request(request, self._response)
            self._coordinator.raise_error(response.error_code, "leaving", response.error_message)

        await self._coordinator.leave(ask)
        self.unsure = False
