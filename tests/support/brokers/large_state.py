"""A broker that holds very much, so that small requests have large responses: everything comes over the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from odradek.protocol.messages.describe_producers import DescribeProducersRequest
from odradek.protocol.messages.describe_producers import TopicRequest as ProducersOfTopic
from odradek.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from odradek.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.list_transactions import ListTransactionsRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from odradek.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from odradek.protocol.schema import Message
from odradek.tests.support.clients.raw import Raw, batch_of

# Requests that are sent before the first response is read.
AT_A_TIME = 500
# One member of a group has every partition. The members of another have none, and subscribe to as many topics each.
OWNER = "owner"
CONSUMERS, SHARERS = "consumers", "sharers"
READERS = "readers"
# The most that a share group takes by default.
MEMBERS = 200


@dataclass(frozen=True)
class LargeState:
    """How much there is."""

    topics: int
    partitions_each: int
    groups: int
    transactions: int
    producers: int

    @property
    def partitions(self) -> int:
        return self.topics * self.partitions_each

    def name(self, number: int) -> str:
        return f"large-{number}"

    async def make(self, raw: Raw) -> None:
        """Fill the broker."""
        for number in range(self.topics):
            assert (await raw.create_topic(self.name(number), self.partitions_each)).error_code == 0
        coordinators = [FindCoordinatorRequest(key_type=kind, coordinator_keys=["x"]) for kind in (0, 1)]
        await _ask_all(raw, ApiKey.FIND_COORDINATOR, 4, coordinators)
        groups = (_commit(f"group-{at}", self.name(0), 1) for at in range(self.groups))
        await _ask_all(raw, ApiKey.OFFSET_COMMIT, 8, groups)
        everywhere = (_commit("group-0", self.name(at), self.partitions_each) for at in range(self.topics))
        await _ask_all(raw, ApiKey.OFFSET_COMMIT, 8, everywhere)
        ids = (InitProducerIdRequest(f"transaction-{at}", 60_000) for at in range(self.transactions))
        await _ask_all(raw, ApiKey.INIT_PRODUCER_ID, 4, ids)
        await _ask_all(raw, ApiKey.PRODUCE, 9, (self._produce(1_000_000 + at) for at in range(self.producers)))
        await self._join(raw)

    async def _join(self, raw: Raw) -> None:
        """Make consumer groups and share groups: of a member with every partition, and of members that have none."""
        names = [self.name(at) for at in range(self.topics)]
        others = [f"no-topic-{at}" for at in range(self.partitions)]
        members = [f"reader-{at}" for at in range(MEMBERS)]
        await _ask_all(raw, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, (consumer(each, others, READERS) for each in members))
        readers = f"share-{READERS}"
        await _ask_all(raw, ApiKey.SHARE_GROUP_HEARTBEAT, 1, (sharer(each, others, readers) for each in members))
        await self._assigned(raw, ApiKey.CONSUMER_GROUP_HEARTBEAT, consumer(OWNER, names))
        await self._assigned(raw, ApiKey.SHARE_GROUP_HEARTBEAT, sharer(OWNER, names))

    async def _assigned(self, raw: Raw, key: ApiKey, join: Message) -> None:
        """Join until the member has every partition. Targets are computed aside, and share states begun."""
        while self.size(await raw.ask(key, 1, join)) < self.partitions:
            await asyncio.sleep(0.05)

    def _produce(self, producer_id: int) -> ProduceRequest:
        records = batch_of(b"x", producer_id=producer_id, producer_epoch=0, base_sequence=0)
        data = TopicProduceData(self.name(0), partition_data=[PartitionProduceData(0, records)])
        return ProduceRequest(acks=1, timeout_ms=1000, topic_data=[data])

    def small_requests(self) -> dict[str, tuple[ApiKey, int, Message]]:
        """Return requests of a few bytes with the largest responses there are."""
        resources = [DescribeConfigsResource(4, "1", None)]
        resources += [DescribeConfigsResource(2, self.name(at), None) for at in range(self.topics)]
        by_name = [MetadataRequestTopic(name=self.name(at)) for at in range(self.topics)]
        everything = OffsetFetchRequestGroup("group-0", topics=None)
        configs = DescribeConfigsRequest(resources, include_synonyms=True, include_documentation=True)
        return {
            "Metadata": (ApiKey.METADATA, 12, MetadataRequest(topics=None)),
            "Metadata 0": (ApiKey.METADATA, 0, MetadataRequest(topics=[])),
            "Metadata by name": (ApiKey.METADATA, 12, MetadataRequest(topics=by_name)),
            "DescribeLogDirs": (ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(topics=None)),
            "DescribeTopicPartitions": (
                ApiKey.DESCRIBE_TOPIC_PARTITIONS,
                0,
                DescribeTopicPartitionsRequest(response_partition_limit=2**31 - 1),
            ),
            "ListGroups": (ApiKey.LIST_GROUPS, 5, ListGroupsRequest()),
            "DescribeGroups": (
                ApiKey.DESCRIBE_GROUPS,
                5,
                DescribeGroupsRequest([f"group-{at}" for at in range(self.groups)]),
            ),
            **self._newer_groups(),
            "OffsetFetch": (ApiKey.OFFSET_FETCH, 8, OffsetFetchRequest(groups=[everything])),
            "OffsetFetch 2": (ApiKey.OFFSET_FETCH, 2, OffsetFetchRequest(group_id="group-0", topics=None)),
            "ListTransactions": (ApiKey.LIST_TRANSACTIONS, 1, ListTransactionsRequest()),
            "DescribeProducers": (
                ApiKey.DESCRIBE_PRODUCERS,
                0,
                DescribeProducersRequest([ProducersOfTopic(self.name(0), [0])]),
            ),
            "DescribeConfigs": (ApiKey.DESCRIBE_CONFIGS, 4, configs),
            "Fetch": (ApiKey.FETCH, 12, self.fetch(0)),
            "Fetch that waits": (ApiKey.FETCH, 12, self.fetch(50)),
        }

    def _newer_groups(self) -> dict[str, tuple[ApiKey, int, Message]]:
        names = [self.name(at) for at in range(self.topics)]
        offsets = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(SHARERS, topics=None)])
        readers = f"share-{READERS}"
        return {
            "ConsumerGroupHeartbeat": (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, consumer(OWNER, names)),
            "ConsumerGroupDescribe": (ApiKey.CONSUMER_GROUP_DESCRIBE, 1, ConsumerGroupDescribeRequest([CONSUMERS])),
            "ConsumerGroupDescribe of readers": (
                ApiKey.CONSUMER_GROUP_DESCRIBE,
                1,
                ConsumerGroupDescribeRequest([READERS]),
            ),
            "ShareGroupHeartbeat": (ApiKey.SHARE_GROUP_HEARTBEAT, 1, sharer(OWNER, names)),
            "ShareGroupDescribe": (ApiKey.SHARE_GROUP_DESCRIBE, 1, ShareGroupDescribeRequest([SHARERS])),
            "ShareGroupDescribe of readers": (ApiKey.SHARE_GROUP_DESCRIBE, 1, ShareGroupDescribeRequest([readers])),
            "DescribeShareGroupOffsets": (ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, offsets),
        }

    def fetch(self, max_wait_ms: int) -> FetchRequest:
        """Return a fetch of every partition, which makes a session."""
        partitions = [FetchPartition(at, fetch_offset=0, partition_max_bytes=1) for at in range(self.partitions_each)]
        topics = [FetchTopic(self.name(at), partitions=partitions) for at in range(self.topics)]
        min_bytes = 1 if not max_wait_ms else 1 << 30
        return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=2**31 - 1, topics=topics)

    def size(self, response: Any) -> int:
        """Return how many values of the largest kind a response has."""
        lists = {
            "MetadataResponse": lambda: sum(len(each.partitions) for each in response.topics),
            "DescribeLogDirsResponse": lambda: sum(
                len(topic.partitions) for each in response.results for topic in each.topics
            ),
            "DescribeTopicPartitionsResponse": lambda: sum(len(each.partitions) for each in response.topics),
            "ListGroupsResponse": lambda: len(response.groups),
            "DescribeGroupsResponse": lambda: len(response.groups),
            "OffsetFetchResponse": lambda: sum(
                len(topic.partitions)
                for topics in [response.topics, *(each.topics for each in response.groups)]
                for topic in topics
            ),
            "ConsumerGroupHeartbeatResponse": lambda: _partitions(response.assignment),
            "ConsumerGroupDescribeResponse": lambda: _described(response.groups),
            "ShareGroupHeartbeatResponse": lambda: _partitions(response.assignment),
            "ShareGroupDescribeResponse": lambda: _described(response.groups),
            "DescribeShareGroupOffsetsResponse": lambda: sum(
                len(topic.partitions) for each in response.groups for topic in each.topics
            ),
            "ListTransactionsResponse": lambda: len(response.transaction_states),
            "DescribeProducersResponse": lambda: len(response.topics[0].partitions[0].active_producers),
            "DescribeConfigsResponse": lambda: len(response.results),
            "FetchResponse": lambda: sum(len(each.partitions) for each in response.responses),
        }
        return lists[type(response).__name__]()

    def expected(self, response: Any) -> int:
        """Return how many there should be, at least."""
        return {
            "DescribeTopicPartitionsResponse": min(self.partitions, 2_000),
            "ListGroupsResponse": self.groups,
            "DescribeGroupsResponse": self.groups,
            "ListTransactionsResponse": self.transactions,
            "DescribeProducersResponse": self.producers,
            "DescribeConfigsResponse": self.topics + 1,
        }.get(type(response).__name__, self.partitions)


def consumer(member_id: str, topics: list[str] | None, group_id: str = CONSUMERS) -> ConsumerGroupHeartbeatRequest:
    """Return the join of a consumer group's member, which a member may repeat."""
    return ConsumerGroupHeartbeatRequest(
        group_id, member_id, rebalance_timeout_ms=60_000, subscribed_topic_names=topics, topic_partitions=[]
    )


def sharer(member_id: str, topics: list[str] | None, group_id: str = SHARERS) -> ShareGroupHeartbeatRequest:
    """Return the join of a share group's member, which a member may repeat."""
    return ShareGroupHeartbeatRequest(group_id, member_id, subscribed_topic_names=topics)


def _partitions(assignment: Any) -> int:
    return 0 if assignment is None else sum(len(topic.partitions) for topic in assignment.topic_partitions)


def _described(groups: Iterable[Any]) -> int:
    """Return how many values the largest member has, or all members where nobody has partitions."""
    members = [member for group in groups for member in group.members]
    return max(max(_partitions(each.assignment) for each in members), _subscribed(members))


def _subscribed(members: list[Any]) -> int:
    return sum(len(each.subscribed_topic_names) for each in members)


async def _ask_all(raw: Raw, key: ApiKey, version: int, requests: Iterable[Message]) -> None:
    """Send requests, many before the first response is read."""
    rest = list(requests)
    while rest:
        some, rest = rest[:AT_A_TIME], rest[AT_A_TIME:]
        for each in some:
            raw.send(key, version, each)
        for _ in some:
            await raw.receive(key, version)


def _commit(group: str, topic: str, partitions: int) -> OffsetCommitRequest:
    offsets = [OffsetCommitRequestPartition(at, 7) for at in range(partitions)]
    return OffsetCommitRequest(
        group, generation_id_or_member_epoch=-1, topics=[OffsetCommitRequestTopic(topic, partitions=offsets)]
    )
