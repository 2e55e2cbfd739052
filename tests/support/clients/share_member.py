"""A member of a share group over one connection: ShareFetch and ShareAcknowledge with the epochs of its session."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from odradek.protocol.apis import ApiKey
from odradek.protocol.messages import share_acknowledge, share_fetch
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
    PartitionData,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from odradek.protocol.messages.share_fetch import FetchPartition, FetchTopic, ForgottenTopic, ShareFetchRequest
from odradek.tests.support.clients.raw import Raw

# (first offset, last offset, types)
Said = tuple[int, int, Iterable[int]]
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


async def initialized(raw: Raw, topic: str, group: str) -> bytes:
    """Have a group begin at the first record of a topic; return the topic's id."""
    asked = MetadataRequest([MetadataRequestTopic(bytes(16), topic)])
    topic_id: bytes = (await raw.ask(ApiKey.METADATA, 12, asked)).topics[0].topic_id
    text = urlsafe_b64encode(topic_id).decode().rstrip("=")
    keys = FindCoordinatorRequest(key_type=2, coordinator_keys=[f"{group}:{text}:0"])
    states = [InitializeStateData(topic_id, [PartitionData(0, 1, 0)])]
    while True:
        await raw.ask(ApiKey.FIND_COORDINATOR, 6, keys)
        request = InitializeShareGroupStateRequest(group, states)
        response = await raw.ask(ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0, request)
        if all(each.error_code == 0 for each in response.results[0].partitions):
            return topic_id
        await asyncio.sleep(0.05)


@dataclass
class ShareMember:
    """Its requests. `epoch` is that of the next one."""

    raw: Raw
    group: str
    member: str
    topic_id: bytes
    epoch: int = 0
    version: int = 2

    async def fetch(
        self,
        *partitions: int,
        said: Mapping[int, Iterable[Said]] | None = None,
        forget: Iterable[int] = (),
        **rest: Any,
    ) -> Any:
        """Return the response of a ShareFetch that names these partitions, and acknowledges."""
        said = said or {}
        named = dict.fromkeys([*partitions, *said])
        wanted = [FetchPartition(index, _batches(share_fetch, said.get(index, ()))) for index in named]
        forgotten = [ForgottenTopic(self.topic_id, list(forget))] if forget else []
        options: dict[str, Any] = {
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            **rest,
        }
        request = ShareFetchRequest(
            self.group,
            self.member,
            options.pop("epoch", self.epoch),
            topics=[FetchTopic(self.topic_id, wanted)] if wanted else [],
            forgotten_topics_data=forgotten,
            **options,
        )
        response = await self.raw.ask(ApiKey.SHARE_FETCH, self.version, request)
        self._advance(response)
        return response

    async def acknowledge(self, partition: int, *said: Said, **rest: Any) -> Any:
        """Return the response of a ShareAcknowledge."""
        batches = _batches(share_acknowledge, said)
        topics = [AcknowledgeTopic(self.topic_id, [AcknowledgePartition(partition, batches)])]
        request = ShareAcknowledgeRequest(self.group, self.member, rest.pop("epoch", self.epoch), topics=topics, **rest)
        response = await self.raw.ask(ApiKey.SHARE_ACKNOWLEDGE, self.version, request)
        self._advance(response)
        return response

    def _advance(self, response: Any) -> None:
        if response.error_code == 0:
            self.epoch += 1


def _batches(messages: Any, said: Iterable[Said]) -> list[Any]:
    return [messages.AcknowledgementBatch(first, last, list(types)) for first, last, types in said]


def acquired(response: Any, partition: int = 0) -> list[tuple[int, int, int]]:
    """Return (first offset, last offset, delivery count) of what a response gives of a partition."""
    data = data_of(response, partition)
    if data is None:
        return []
    return [(each.first_offset, each.last_offset, each.delivery_count) for each in data.acquired_records]


def data_of(response: Any, partition: int = 0) -> Any:
    """Return the part of a response that is about a partition, or None."""
    found = [each for topic in response.responses for each in topic.partitions if each.partition_index == partition]
    return found[0] if found else None
