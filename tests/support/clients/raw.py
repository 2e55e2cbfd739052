"""A client for tests that sends single messages or bytes: one request, one response."""

from __future__ import annotations

import asyncio
from struct import unpack
from typing import Any

from odradek.protocol import frame
from odradek.protocol.apis import AnyKey, ApiKey, message
from odradek.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.record import Record

WAIT_S = 20


class Raw:
    """One connection. `ask` does both `send` and `receive`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wait_s: float = WAIT_S) -> None:
        self._wait_s = wait_s
        self._reader = reader
        self._writer = writer
        self._correlation_id = 0

    @classmethod
    async def connect(cls, address: str, wait_s: float = WAIT_S, **options: Any) -> Raw:
        """Connect. A response must come within `wait_s`. `options` are those of asyncio's `open_connection`."""
        host, _, port = address.rpartition(":")
        return cls(*await asyncio.open_connection(host.strip("[]"), int(port), **options), wait_s)

    async def __aenter__(self) -> Raw:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._writer.transport.abort()

    def send(self, key: AnyKey, version: int, request: Any, client_id: str | None = "raw") -> None:
        """Write a request."""
        self._correlation_id += 1
        pieces = frame.encode_request(key, version, self._correlation_id, client_id, request)
        self._writer.write(b"".join(bytes(piece) for piece in pieces))

    def send_bytes(self, data: bytes) -> None:
        """Write a frame of any bytes."""
        self._writer.write(data)

    async def receive_bytes(self) -> bytes:
        """Return the next frame without its length."""
        async with asyncio.timeout(self._wait_s):
            size = unpack(">i", await self._reader.readexactly(4))[0]
            return await self._reader.readexactly(size)

    async def receive(self, key: AnyKey, version: int) -> Any:
        """Return the next response, which must be of this API and version."""
        return frame.decode_response(await self.receive_bytes(), message(key, "response"), version)[1]

    async def ask(self, key: AnyKey, version: int, request: Any) -> Any:
        """Send a request and return its response."""
        self.send(key, version, request)
        return await self.receive(key, version)

    async def is_closed(self) -> bool:
        """Wait until the broker closes the connection; False if it sends something instead."""
        async with asyncio.timeout(WAIT_S):
            try:
                return await self._reader.read(1) == b""
            except ConnectionResetError:
                return True

    # What tests do all the time.

    async def create_topic(self, name: str, partitions: int = 1, replicas: int = 1, **configs: str) -> Any:
        """Create a topic and return its result. Configs have Kafka's names with `_` for `.`."""
        pairs = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
        request = CreateTopicsRequest(topics=[CreatableTopic(name, partitions, replicas, configs=pairs)])
        return (await self.ask(ApiKey.CREATE_TOPICS, 7, request)).topics[0]

    async def delete_topic(self, name: str) -> None:
        """Delete a topic that exists."""
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name)])
        assert (await self.ask(ApiKey.DELETE_TOPICS, 6, request)).responses[0].error_code == 0

    async def produce(
        self, topic: str, records: bytes | None, partition: int = 0, version: int = 9, **rest: Any
    ) -> Any:
        """Return the response of the partition."""
        data = TopicProduceData(topic, partition_data=[PartitionProduceData(partition, records)])
        request = ProduceRequest(**{"acks": -1, "timeout_ms": 1000, **rest}, topic_data=[data])
        response = await self.ask(ApiKey.PRODUCE, version, request)
        return response.responses[0].partition_responses[0]

    async def fetch(self, topic: str, offset: int, partition: int = 0, version: int = 11, **rest: Any) -> Any:
        """Return the response of the partition."""
        wanted = FetchPartition(
            partition, fetch_offset=offset, partition_max_bytes=rest.pop("partition_max_bytes", 1 << 20)
        )
        options = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, **rest}
        request = FetchRequest(**options, topics=[FetchTopic(topic, partitions=[wanted])])
        response = await self.ask(ApiKey.FETCH, version, request)
        return response.responses[0].partitions[0]

    async def delete_records(self, topic: str, offset: int, partition: int = 0, timeout_ms: int = 1000) -> Any:
        """Delete the records below an offset, and return the response of the partition."""
        topics = [DeleteRecordsTopic(topic, [DeleteRecordsPartition(partition, offset)])]
        response = await self.ask(ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest(topics, timeout_ms))
        return response.topics[0].partitions[0]

    async def commit(self, offset: int, topic: str = "t", group: str = "g", metadata: str = "") -> int:
        """Commit an offset of partition 0 as no member of a group, and return the error code."""
        partitions = [OffsetCommitRequestPartition(0, offset, committed_metadata=metadata)]
        request = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(topic, partitions=partitions)])
        return (await self.ask(ApiKey.OFFSET_COMMIT, 8, request)).topics[0].partitions[0].error_code

    async def committed(self, topic: str = "t", group: str = "g") -> Any:
        """Return the response of partition 0."""
        topics = [OffsetFetchRequestTopics(topic, partition_indexes=[0])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=topics)])
        return (await self.ask(ApiKey.OFFSET_FETCH, 8, request)).groups[0].topics[0].partitions[0]

    async def configure(self, kind: int, name: str, **configs: str) -> int:
        """Set configs of a resource, with Kafka's names or `_` for `.`, and return the error code."""
        changes = [AlterableConfig(key.replace("_", "."), 0, value) for key, value in configs.items()]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, changes)])
        return (await self.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)).responses[0].error_code


def batch_of(*values: bytes, timestamp_ms: int = 1_700_000_000_000, **rest: Any) -> bytes:
    """Return a batch of records without keys, a millisecond apart."""
    records = [Record(at, timestamp_ms + at, None, value) for at, value in enumerate(values)]
    return encode_batch(records, **rest)
