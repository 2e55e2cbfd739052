"""Bad input on the wire: the broker responds with an error if the protocol has one. Otherwise it closes the connection
and logs one line with the reason and the address. Other clients are served as before.
"""

from __future__ import annotations

import logging
import re
import tracemalloc
from collections.abc import AsyncIterator
from struct import pack
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.network.dispatcher import MAX_VALUES_BYTES
from odradek.broker.network.routes import ALONE_ROUTES
from odradek.cli.serve import _Human
from odradek.protocol import frame
from odradek.protocol.apis import ApiKey, key_of
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.record import Record
from odradek.tests.support.brokers.connections import connections, requests_wait
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.documents.mutations import EVERY_ROUTE, framed, requests
from odradek.tests.support.fakes.clock import FakeClock
from odradek.tests.support.waiting import until

BAD_NAMES = ["", ".", "..", "../up", "a/b", "a\\b", "sp ace", "\u00e9", "nul\0", "new\nline", "n" * 250]


@pytest.fixture
async def neighbour(broker: Broker) -> AsyncIterator[Raw]:
    """Yield a client that behaves. At the end the broker still serves it on the same connection."""
    async with await Raw.connect(broker.address) as each:
        await each.create_topic("neighbour")
        assert (await each.produce("neighbour", batch_of(b"before"))).error_code == 0
        yield each
        assert (await each.produce("neighbour", batch_of(b"after"))).base_offset == 1
        assert (await each.fetch("neighbour", 0)).high_watermark == 2


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


def one_of_each() -> list[Any]:
    """Return a captured request for each (key, version) that is served."""
    found: dict[tuple[int, int], bytes] = {}
    for data in requests():
        header, _ = frame.decode_request_header(memoryview(data))
        found.setdefault((header.api_key, header.api_version), data)
    served = {(route.key, version) for route in ALONE_ROUTES for version in route.versions}
    return [
        pytest.param(data, id=f"{key_of(key).name}-{version}")
        for (key, version), data in sorted(found.items())
        if (key, version) in served
    ]


def test_every_api_is_among_the_bad_input() -> None:
    keys = {int.from_bytes(data[:2], "big") for data in requests()}
    assert {int(route.key) for route in EVERY_ROUTE} <= keys


class TestCut:
    @pytest.mark.parametrize("data", one_of_each())
    async def test_a_request_that_lacks_its_last_byte_closes_its_connection(
        self, shared: Raw, data: bytes, caplog: pytest.LogCaptureFixture
    ) -> None:
        shared.send_bytes(framed(data[:-1]))
        assert await shared.is_closed()
        (line,) = warnings(caplog)
        assert line.startswith("127.0.0.1:") and "cannot be read" in line

    async def test_a_client_that_leaves_in_the_middle_leaves_nothing(self, broker: Broker, neighbour: Raw) -> None:
        whole = framed(requests()[0])
        for at in range(1, len(whole)):
            async with await Raw.connect(broker.address) as raw:
                raw.send_bytes(whole[:at])
        await until(lambda: len(connections(broker)) == 1)

    async def test_a_request_may_come_byte_by_byte(self, broker: Broker, neighbour: Raw, raw: Raw) -> None:
        pieces = frame.encode_request(ApiKey.METADATA, 9, 7, "slow", MetadataRequest(topics=[]))
        for byte in b"".join(map(bytes, pieces)):
            raw.send_bytes(bytes([byte]))
            await neighbour.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
        await raw.receive(ApiKey.METADATA, 9)


class TestTooMuch:
    async def test_values_may_not_be_as_large_as_batches(
        self, raw: Raw, neighbour: Raw, caplog: pytest.LogCaptureFixture
    ) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="x" * 30_000)] * 280)
        pieces = frame.encode_request(ApiKey.METADATA, 4, 1, None, request)
        raw.send_bytes(b"".join(map(bytes, pieces)))
        assert await raw.is_closed()
        (line,) = warnings(caplog)
        assert f"only batches may be more than {MAX_VALUES_BYTES}" in line

    async def test_what_is_asked_for_often_is_answered_once(self, broker: Broker, raw: Raw, neighbour: Raw) -> None:
        await raw.create_topic("t", partitions=20)
        tracemalloc.start()
        try:
            names = [MetadataRequestTopic(name="t")] * 5_000
            assert len((await raw.ask(ApiKey.METADATA, 9, MetadataRequest(topics=names))).topics) == 1
            resources = [DescribeConfigsResource(2, "t", None)] * 5_000
            answer = await raw.ask(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=resources))
            assert len(answer.results) == 1
            assert tracemalloc.get_traced_memory()[1] < 10_000_000
        finally:
            tracemalloc.stop()

    async def test_a_batch_that_would_unfold_to_a_gigabyte_is_not_unfolded(self, raw: Raw, neighbour: Raw) -> None:
        await raw.create_topic("t")
        bomb = encode_batch([Record(0, 0, None, bytes(100_000_000))], compression=Compression.ZSTD)
        assert len(bomb) < 100_000
        tracemalloc.start()
        try:
            for at in range(10):
                assert (await raw.produce("t", bomb)).base_offset == at
            assert len((await raw.fetch("t", 0)).records) == 10 * len(bomb)
            assert tracemalloc.get_traced_memory()[1] < 10_000_000
        finally:
            tracemalloc.stop()

    async def test_a_thousand_refused_batches_of_a_request_are_few_lines(
        self, raw: Raw, neighbour: Raw, caplog: pytest.LogCaptureFixture
    ) -> None:
        await raw.create_topic("t")
        data = [TopicProduceData("t", partition_data=[PartitionProduceData(0, b"rubbish")] * 1000)]
        answer = await raw.ask(ApiKey.PRODUCE, 9, ProduceRequest(acks=1, timeout_ms=1, topic_data=data))
        assert len(answer.responses[0].partition_responses) == 1000
        # A line for each portion that a slice had time for.
        lines = warnings(caplog)
        assert all(line.startswith("127.0.0.1:") for line in lines) and len(lines) < 50
        assert len(lines) + sum(int(more) for line in lines for more in re.findall(r"and (\d+) more", line)) == 1000


class TestBatches:
    @pytest.mark.parametrize(
        ("at", "code"),
        [
            (16, ErrorCode.CORRUPT_MESSAGE),  # magic
            (20, ErrorCode.CORRUPT_MESSAGE),  # CRC
            (60, ErrorCode.CORRUPT_MESSAGE),  # count, under the CRC
            (66, ErrorCode.CORRUPT_MESSAGE),  # a record, under the CRC
        ],
    )
    async def test_a_flipped_bit_is_a_typed_error_and_one_line(
        self, raw: Raw, neighbour: Raw, at: int, code: ErrorCode, caplog: pytest.LogCaptureFixture
    ) -> None:
        await raw.create_topic("t")
        batch = bytearray(batch_of(b"value"))
        batch[at] ^= 0x40
        answer = await raw.produce("t", bytes(batch))
        assert (answer.error_code, answer.base_offset) == (code, -1)
        (line,) = warnings(caplog)
        assert line.startswith("127.0.0.1:") and f"t-0 rejected: {code.name}" in line
        assert (await raw.produce("t", batch_of(b"value"))).base_offset == 0

    async def test_a_bit_flipped_on_disk_closes_no_connection_and_stops_no_other_partition(
        self, broker: Broker, raw: Raw, neighbour: Raw
    ) -> None:
        # Batches are sent as they lie there, without a look: it is the client's check of the CRC that finds it.
        await raw.create_topic("t")
        await raw.produce("t", batch_of(b"value"))
        topic = broker.topics.get("t")
        assert topic is not None
        path = topic.partitions[0].log.directory / f"{0:020d}.log"
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        assert bytes((await raw.fetch("t", 0)).records) == bytes(data)


class TestNames:
    async def test_out_of_rule_are_typed_errors_and_make_nothing(
        self, raw: Raw, neighbour: Raw, config: BrokerConfig
    ) -> None:
        before = sorted(config.data_dir.parent.rglob("*"))
        for name in BAD_NAMES:
            created = await raw.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[CreatableTopic(name, 1, 1)]))
            asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
            described = await raw.ask(ApiKey.METADATA, 9, asked)
            codes = [each.topics[0].error_code for each in (created, described)]
            assert (name, codes) == (name, [ErrorCode.INVALID_TOPIC_EXCEPTION] * 2)
            assert (await raw.produce(name, batch_of(b"x"))).error_code != 0
            assert (await raw.fetch(name, 0)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert sorted(config.data_dir.parent.rglob("*")) == before

    async def test_of_clients_cannot_forge_a_line_in_the_log(
        self, raw: Raw, neighbour: Raw, caplog: pytest.LogCaptureFixture
    ) -> None:
        evil = "x\n2026-11-21 10:05:52.123 INFO    server: all is well \x1b[2J"
        caplog.set_level(logging.DEBUG)
        raw.send(ApiKey.HEARTBEAT, 4, HeartbeatRequest(evil, 1, evil), client_id=evil)
        await raw.receive(ApiKey.HEARTBEAT, 4)
        await raw.produce(evil, batch_of(b"x"))
        await raw.produce("neighbour", b"rubbish")
        raw.send_bytes(framed(pack(">hhih", 9999, 0, 1, len(evil.encode())) + evil.encode()))
        assert await raw.is_closed()
        lines = [_Human(utc=True).format(each) for each in caplog.records]
        assert len(lines) >= 2
        assert all(line.isprintable() for line in lines)


class TestWaiting:
    def fetch(self, raw: Raw, topic: str) -> None:
        wanted = [FetchTopic(topic, partitions=[FetchPartition(0, partition_max_bytes=1000)])]
        raw.send(ApiKey.FETCH, 11, FetchRequest(max_wait_ms=2**31 - 1, min_bytes=1, topics=wanted))

    @pytest.mark.parametrize("behind", [0, 1, 5])
    async def test_fetches_of_clients_that_leave_are_forgotten(
        self, broker: Broker, neighbour: Raw, behind: int
    ) -> None:
        await neighbour.create_topic("t")
        timers = len(broker.timers._heap)
        clients = [await Raw.connect(broker.address) for _ in range(100)]
        for client in clients:
            for _ in range(1 + behind):
                self.fetch(client, "t")
        await until(lambda: len(broker.services.purgatory) == 100)
        for client in clients:
            client.close()
        await until(lambda: len(broker.services.purgatory) == 0)
        await until(lambda: len(connections(broker)) == 1)
        assert broker.services.purgatory._by_key == {}
        assert not requests_wait(broker)
        # Cancelled ones go when they are the majority of more than a few.
        assert len(broker.timers._heap) - timers < 2 * 64 + 2

    async def test_a_client_that_reads_nothing_for_so_long_is_closed_as_an_idle_one(
        self, config: BrokerConfig, caplog: pytest.LogCaptureFixture
    ) -> None:
        clock = FakeClock()
        caplog.set_level(logging.INFO)
        async with Broker(config, clock=clock) as broker:
            raw, parked = await Raw.connect(broker.address), await Raw.connect(broker.address)
            await raw.create_topic("t")
            await raw.create_topic("empty")
            for _ in range(12):
                await raw.produce("t", batch_of(b"x" * 1_000_000))
            self.fetch(parked, "empty")
            await until(lambda: len(broker.services.purgatory) == 1)
            raw._reader._transport.pause_reading()  # type: ignore[attr-defined]
            wanted = [FetchTopic("t", partitions=[FetchPartition(0, partition_max_bytes=100 << 20)])]
            for _ in range(20):
                raw.send(ApiKey.FETCH, 11, FetchRequest(max_wait_ms=0, max_bytes=100 << 20, topics=wanted))
            await until(lambda: any(each._responses.paused for each in connections(broker)))
            clock.advance(config.connections_max_idle_ms + 1)
            broker.timers.fire_due()
            await until(lambda: len(connections(broker)) == 1)
            assert len(broker.services.purgatory) == 1
            parked.close()
            raw.close()
        assert "closed, idle for 600000 ms" in caplog.text
