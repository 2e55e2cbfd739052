"""The memory that clients can make the broker hold: its resident size, while other clients are served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from struct import pack

import pytest
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.tests.support.brokers.process import BrokerProcess
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.seeds import IS_SOAK

MIB = 1024 * 1024
WAIT_S = 20

# Each starts a process and looks at it from outside: which loop the test itself runs on says nothing about it.
pytestmark = [pytest.mark.asyncio(loop_factories=["uvloop"]), pytest.mark.usefixtures("many_files")]


@pytest.fixture
async def served(process: BrokerProcess) -> AsyncIterator[BrokerProcess]:
    """Yield a running broker with a topic of 12 MB, and a client that is served at the end as at the beginning."""
    process.start()
    async with await Raw.connect(process.address) as neighbour:
        await neighbour.create_topic("t")
        for _ in range(12):
            await neighbour.produce("t", batch_of(b"x" * 1_000_000))
        yield process
        assert (await neighbour.produce("t", batch_of(b"after"))).base_offset == 12


def fetch_all() -> FetchRequest:
    wanted = [FetchTopic("t", partitions=[FetchPartition(0, partition_max_bytes=50 * MIB)])]
    return FetchRequest(max_wait_ms=0, max_bytes=50 * MIB, topics=wanted)


async def arrived(process: BrokerProcess) -> None:
    """Return when the broker has read everything sent before: it takes its connections in turn."""
    for _ in range(3):
        async with asyncio.timeout(WAIT_S), await Raw.connect(process.address) as raw:
            await raw.ask(ApiKey.METADATA, 9, MetadataRequest(topics=[]))


async def test_lengths_that_were_only_announced_cost_next_to_nothing(served: BrokerProcess) -> None:
    before = served.memory_bytes()
    clients = [await Raw.connect(served.address) for _ in range(500)]
    for client in clients:
        client.send_bytes(pack(">i", 100 * MIB) + b"0123456789")
    await arrived(served)
    # 500 first buffers of 64 KiB are 31 MiB, and 100 MiB each would be 49 GiB.
    assert served.memory_bytes() - before < 64 * MIB
    for client in clients:
        client.close()


async def test_a_client_that_asks_thousands_of_times_and_never_reads(served: BrokerProcess) -> None:
    before = served.memory_bytes()
    async with await Raw.connect(served.address) as deaf:
        deaf._reader._transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(10_000 if IS_SOAK else 2_000):
            deaf.send(ApiKey.FETCH, 11, fetch_all())
        await arrived(served)
        assert served.memory_bytes() - before < 24 * MIB


async def test_clients_that_never_read_cost_a_few_megabytes_each(served: BrokerProcess) -> None:
    before = served.memory_bytes()
    clients = [await Raw.connect(served.address) for _ in range(30)]
    for client in clients:
        client._reader._transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(10):
            client.send(ApiKey.FETCH, 11, fetch_all())
    await arrived(served)
    assert served.memory_bytes() - before < 30 * 3 * MIB
    for client in clients:
        client.close()


async def test_what_nobody_reads_has_a_bound_over_all_connections(process: BrokerProcess) -> None:
    # Small buffers of the sockets, so that the broker holds what the clients do not read.
    process.settings |= {"queued_max_response_bytes": 16 * MIB, "socket_send_buffer_bytes": 65536}
    process.start()
    async with await Raw.connect(process.address) as neighbour:
        await neighbour.create_topic("t", 300)
        partitions = [OffsetCommitRequestPartition(at, 7, committed_metadata="x" * 4000) for at in range(300)]
        topics = [OffsetCommitRequestTopic("t", partitions=partitions)]
        commit = OffsetCommitRequest("g", generation_id_or_member_epoch=-1, topics=topics)
        coordinator = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        await neighbour.ask(ApiKey.FIND_COORDINATOR, 4, coordinator)
        await neighbour.ask(ApiKey.OFFSET_COMMIT, 8, commit)
        before = process.memory_bytes()
        clients = [await Raw.connect(process.address) for _ in range(80)]
        for client in clients:
            client._reader._transport.pause_reading()  # type: ignore[attr-defined]
            # Each response has 1.2 MB: 96 MB without a bound.
            client.send(ApiKey.OFFSET_FETCH, 8, OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)]))
        for offset in range(20):
            assert (await neighbour.produce("t", batch_of(b"others go on"))).base_offset == offset
            assert (await neighbour.fetch("t", offset)).high_watermark == offset + 1
        assert process.memory_bytes() - before < 32 * MIB
        for client in clients:
            client.close()
        assert (await neighbour.ask(ApiKey.METADATA, 9, MetadataRequest(topics=None))).topics


async def test_clients_that_come_and_go_leave_nothing(served: BrokerProcess) -> None:
    async def come_and_go(times: int) -> None:
        for at in range(times):
            async with await Raw.connect(served.address) as raw:
                await raw.ask(ApiKey.METADATA, 9, MetadataRequest(topics=[]))
                raw.send(ApiKey.FETCH, 11, fetch_all())
                if at % 2:
                    raw.send_bytes(b"\0\0\1\0half a frame")

    await come_and_go(200)
    before = served.memory_bytes()
    await come_and_go(1000 if IS_SOAK else 400)
    assert served.memory_bytes() - before < 4 * MIB
