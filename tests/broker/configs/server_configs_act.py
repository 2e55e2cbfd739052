"""Show that the configs of the broker itself and of its connections change what it does."""

from __future__ import annotations

import socket
import struct
import sys

from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.tests.broker.configs.world import World, shows
from odradek.tests.support.brokers.connections import acceptor
from odradek.tests.support.clients.raw import Raw, batch_of


@shows("broker.rack", broker_rack="shelf 5")
async def _(world: World) -> None:
    answer = await world.raw.ask(ApiKey.METADATA, 9, MetadataRequest(topics=[]))
    assert answer.brokers[0].rack == "shelf 5"


@shows("num.partitions", num_partitions=5)
async def _(world: World) -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="auto")], allow_auto_topic_creation=True)
    assert len((await world.raw.ask(ApiKey.METADATA, 9, asked)).topics[0].partitions) == 5


@shows("max.request.partition.size.limit", max_request_partition_size_limit=2)
async def _(world: World) -> None:
    await world.raw.create_topic("t", 3)
    response = await world.raw.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, DescribeTopicPartitionsRequest())
    assert len(response.topics[0].partitions) == 2


@shows("socket.request.max.bytes", socket_request_max_bytes=1000)
async def _(world: World) -> None:
    await world.create()
    assert (await world.raw.produce("t", batch_of(b"x" * 500))).error_code == 0
    world.raw.send_bytes(struct.pack(">i", 1001))
    assert await world.raw.is_closed()


@shows("queued.max.request.bytes", queued_max_request_bytes=1_000_000)
async def _(world: World) -> None:
    async with await Raw.connect(world.broker.address) as half:
        half.send_bytes(struct.pack(">i", 1_500_000) + bytes(900_000))
        await world.create()
        memory = acceptor(world.broker).processors[0].requests
        assert not memory.has_room(half, 1_000_000)  # type: ignore[arg-type]


@shows("queued.max.response.bytes", queued_max_response_bytes=100_000)
async def _(world: World) -> None:
    memory = acceptor(world.broker).processors[0].responses
    memory.hold(world, 99_999)  # type: ignore[arg-type]
    assert not memory.is_full
    memory.hold(world, 100_000)  # type: ignore[arg-type]
    assert memory.is_full


@shows("socket.listen.backlog.size", socket_listen_backlog_size=7)
async def _(world: World) -> None:
    listening, *_ = acceptor(world.broker).sockets
    if sys.platform == "linux":
        # tcpi_sacked of a listening socket is its backlog.
        info = listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        assert struct.unpack_from("=I", info, 28)[0] == 7


@shows("fetch.max.bytes", fetch_max_bytes=1024)
async def _(world: World) -> None:
    await world.create()
    for _ in range(5):
        await world.raw.produce("t", batch_of(b"x" * 500))
    records = bytes((await world.raw.fetch("t", 0)).records)
    assert len(records) == 1024
