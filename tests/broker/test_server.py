"""The start and stop of a broker: how it starts, stops and starts again, and what a failed start leaves behind."""

from __future__ import annotations

import asyncio
import logging
import shutil
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig, StartError
from odradek.broker.network.processor import Processor
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.storage import checkpoints
from odradek.storage.files import Disk
from odradek.tests.support.brokers.connections import acceptor, connections
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.waiting import until


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def on_port(config: BrokerConfig, port: int) -> BrokerConfig:
    return replace(config, listeners=(f"PLAINTEXT://127.0.0.1:{port}",))


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def long_fetch(topic: str = "t", offset: int = 0) -> FetchRequest:
    wanted = [FetchTopic(topic, partitions=[FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)])]
    return FetchRequest(max_wait_ms=2**31 - 1, min_bytes=1, topics=wanted)


class TestStart:
    async def test_a_client_can_connect_once_it_has_started(self, config: BrokerConfig) -> None:
        async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
            response = await raw.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
            assert [(each.host, each.port) for each in response.brokers] == [("127.0.0.1", port_of(broker.address))]

    async def test_several_listeners_each_with_its_name_and_port(self, config: BrokerConfig) -> None:
        config = replace(
            config,
            listeners=("IN://127.0.0.1:0", "OUT://127.0.0.1:0"),
            listener_security_protocol_map="IN:PLAINTEXT,OUT:PLAINTEXT",
            advertised_listeners=("OUT://broker.example:19092",),
        )
        async with Broker(config) as broker:
            told: list[Any] = []
            for address in broker.addresses:
                async with await Raw.connect(address) as raw:
                    response = await raw.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
                    told.append((response.brokers[0].host, response.brokers[0].port))
            assert told == [("127.0.0.1", port_of(broker.addresses[0])), ("broker.example", 19092)]

    async def test_several_brokers_run_in_one_loop(self, config: BrokerConfig, tmp_path: Path) -> None:
        other = replace(config, log_dirs=(str(tmp_path / "other"),), node_id=2, broker_id=2)
        async with Broker(config) as one, Broker(other) as two:
            assert one.cluster_id != two.cluster_id
            async with await Raw.connect(one.address) as raw:
                await raw.create_topic("t")
            assert [len(one.topics.all()), len(two.topics.all())] == [1, 0]

    async def test_starting_what_runs_is_refused_and_does_no_harm(self, broker: Broker, raw: Raw) -> None:
        with pytest.raises(StartError, match="running already"):
            await broker.start()
        assert (await raw.create_topic("t")).error_code == 0

    async def test_a_second_broker_on_the_directory_is_refused_and_the_first_goes_on(
        self, config: BrokerConfig, broker: Broker, raw: Raw
    ) -> None:
        await raw.create_topic("t")
        with pytest.raises(StartError, match="in use by another process"):
            await Broker(config).start()
        assert (await raw.produce("t", batch_of(b"x"))).error_code == 0

    async def test_a_port_in_use_leaves_directory_and_other_ports_free(self, config: BrokerConfig) -> None:
        with socket.socket() as taken, socket.socket() as probe:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            probe.bind(("127.0.0.1", 0))
            free = probe.getsockname()[1]
            probe.close()
            two = (f"A://127.0.0.1:{free}", f"B://127.0.0.1:{taken.getsockname()[1]}")
            names = "A:PLAINTEXT,B:PLAINTEXT"
            with pytest.raises(StartError, match=r"cannot listen on 127\.0\.0\.1"):
                await Broker(replace(config, listeners=two, listener_security_protocol_map=names)).start()
        assert is_free(free)
        async with Broker(on_port(config, free)):
            pass

    async def test_a_host_that_is_not_ours_is_refused_in_a_line(self, config: BrokerConfig) -> None:
        with pytest.raises(StartError, match=r"cannot listen on 192\.0\.2\.1:9092") as caught:
            await Broker(replace(config, listeners=("PLAINTEXT://192.0.2.1:9092",))).start()
        assert "\n" not in str(caught.value)

    async def test_metadata_of_another_cluster_are_refused(self, config: BrokerConfig) -> None:
        async with Broker(config):
            pass
        meta = checkpoints.read_meta_properties(config.data_dir)
        assert meta is not None
        meta.cluster_id = "somebody-elses-cluster"
        checkpoints.write_meta_properties(config.data_dir, meta)
        with pytest.raises(StartError, match=r"meta\.properties of somebody-elses-cluster"):
            await Broker(config).start()


def flip(path: Path, at: int) -> None:
    """Change a byte of a file; a second call changes it back."""
    content = bytearray(path.read_bytes())
    content[at] ^= 0xFF
    path.write_bytes(content)


class TestFailedStart:
    """A start that cannot read everything fails, and writes no clean-stop marker."""

    @pytest.fixture
    async def damaged(self, config: BrokerConfig) -> Path:
        """Return the damaged metadata journal, which keeps a broker with topics a and b from starting."""
        async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
            for name in ("a", "b"):
                await raw.create_topic(name, flush_messages="1")
                await raw.produce(name, batch_of(b"x"))
        path = max(config.data_dir.glob("*.journal"))
        flip(path, 20)
        return path

    async def test_names_the_file(self, config: BrokerConfig, damaged: Path) -> None:
        with pytest.raises(StartError, match=damaged.name) as caught:
            await Broker(config).start()
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("clean", [True, False])
    async def test_is_not_marked_as_clean_and_keeps_the_checkpoints(
        self, config: BrokerConfig, damaged: Path, clean: bool
    ) -> None:
        points, marker = (
            (config.data_dir / checkpoints.RECOVERY_POINT).read_text(),
            damaged.with_name(checkpoints.CLEAN_SHUTDOWN),
        )
        if not clean:
            marker.unlink()
        before = marker.read_bytes() if clean else None
        for _ in range(2):
            with pytest.raises(StartError):
                await Broker(config).start()
        # That of a clean stop stays as it was: nothing was written since, and the next start must know of it, too.
        assert (marker.read_bytes() if marker.exists() else None) == before
        assert (config.data_dir / checkpoints.RECOVERY_POINT).read_text() == points

    async def test_leaves_nothing_in_the_way_of_the_next(self, config: BrokerConfig, damaged: Path) -> None:
        broker = Broker(config)
        with pytest.raises(StartError):
            await broker.start()
        flip(damaged, 20)
        await broker.start()
        async with await Raw.connect(broker.address) as raw:
            assert (await raw.fetch("a", 0)).high_watermark == (await raw.fetch("b", 0)).high_watermark == 1
        await broker.stop()


async def test_unreadable_recovery_points_are_written_again(
    config: BrokerConfig, caplog: pytest.LogCaptureFixture
) -> None:
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
        await raw.produce("t", batch_of(b"x", b"y"))
    path = config.data_dir / checkpoints.RECOVERY_POINT
    path.write_bytes(b"\xff garbage")
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        assert (await raw.fetch("t", 0)).high_watermark == 2
    assert any("every partition here is checked" in each.getMessage() for each in caplog.records)
    assert "t 0 2" in path.read_text()


async def test_a_partition_that_the_recovery_points_lack_loses_no_sound_batch(
    config: BrokerConfig, caplog: pytest.LogCaptureFixture
) -> None:
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        for name in ("t", "u"):
            await raw.create_topic(name)
            for _ in range(3):
                await raw.produce(name, batch_of(b"x"))
    path = config.data_dir / checkpoints.RECOVERY_POINT
    checkpoints.write_offsets(path, {("u", 0): 3})
    (config.data_dir / checkpoints.CLEAN_SHUTDOWN).unlink()
    log = config.data_dir / "t-0" / f"{0:020d}.log"
    flip(log, len(batch_of(b"x")) + 20)
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        # Nobody knows whether the bad batch was forced to disk, so it is damage and not a torn end.
        assert [(await raw.fetch("t", offset)).error_code for offset in range(3)] == [0, ErrorCode.CORRUPT_MESSAGE, 0]
        assert (await raw.produce("t", batch_of(b"x"))).base_offset == 3
    assert f"{log} is damaged at" in caplog.text


@pytest.mark.parametrize(
    ("boot", "points", "keeps"),
    [
        ("another", True, False),  # before the first checkpoint power was cut: nothing tells of an fsync
        ("same", True, True),  # no crash of the broker explains a torn end before another segment
        ("another", False, True),  # nobody knows of any partition what was forced to disk
        ("", True, False),  # a system that does not name its boots
    ],
)
async def test_a_power_cut_tears_a_partition_that_no_checkpoint_names_yet(
    config: BrokerConfig, tmp_path: Path, boot: str, points: bool, keeps: bool
) -> None:
    disk = Disk()
    disk.boot_id = lambda: "" if not boot else "same"
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
        for _ in range(2):
            await raw.produce("t", batch_of(b"x"))
            broker.topics.all()[0].partitions[0].log.roll(0)
        await raw.produce("t", batch_of(b"y"))
        shutil.copytree(config.data_dir, tmp_path / "cut", ignore=shutil.ignore_patterns("*.tmp"))
    torn = tmp_path / "cut" / "t-0" / f"{1:020d}.log"
    torn.write_bytes(torn.read_bytes()[:-5])
    if not points:
        (tmp_path / "cut" / checkpoints.RECOVERY_POINT).unlink()
    disk.boot_id = lambda: boot
    after = replace(config, log_dirs=(str(tmp_path / "cut"),))
    for _ in range(2):
        async with Broker(after, disk=disk) as broker, await Raw.connect(broker.address) as raw:
            answers = [await raw.fetch("t", offset) for offset in range(3)]
            expected = [0, ErrorCode.CORRUPT_MESSAGE, 0] if keeps else [0, 0, ErrorCode.OFFSET_OUT_OF_RANGE]
            assert [each.error_code for each in answers] == expected
            assert answers[0].high_watermark == (3 if keeps else 1)


class TestStop:
    async def test_is_idempotent(self, config: BrokerConfig) -> None:
        broker = Broker(config)
        await broker.stop()
        await broker.start()
        await asyncio.gather(broker.stop(), broker.stop())
        await broker.stop()

    async def test_all_who_call_it_wait_for_the_same_stop(self, config: BrokerConfig) -> None:
        broker = Broker(config)
        await broker.start()
        first = asyncio.ensure_future(broker.stop())
        await asyncio.sleep(0)
        await broker.stop()
        assert (config.data_dir / checkpoints.CLEAN_SHUTDOWN).exists()
        await first

    async def test_goes_on_if_its_caller_is_cancelled(self, config: BrokerConfig) -> None:
        broker = Broker(config)
        await broker.start()
        stopping = asyncio.ensure_future(broker.stop())
        await asyncio.sleep(0)
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        await broker.stop()
        async with Broker(config):
            pass

    async def test_answers_a_fetch_that_waits(self, config: BrokerConfig) -> None:
        async with Broker(config) as broker:
            raw = await Raw.connect(broker.address)
            await raw.create_topic("t")
            raw.send(ApiKey.FETCH, 11, long_fetch())
            await until(lambda: len(broker.services.purgatory) == 1)
        assert (await raw.receive(ApiKey.FETCH, 11)).responses[0].partitions[0].error_code == 0
        assert await raw.is_closed()
        raw.close()

    async def test_sends_on_a_member_that_waits_for_its_group(self, config: BrokerConfig) -> None:
        config = replace(config, group_initial_rebalance_delay_ms=60_000)
        async with Broker(config) as broker:
            raw = await Raw.connect(broker.address)
            await raw.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest("g"))
            protocols = [JoinGroupRequestProtocol("range", b"")]
            join = JoinGroupRequest("g", 30_000, 30_000, "", None, "consumer", protocols)
            raw.send(ApiKey.JOIN_GROUP, 3, join)
            await until(lambda: "g" in broker.services.groups.groups)
        assert (await raw.receive(ApiKey.JOIN_GROUP, 3)).error_code == ErrorCode.NOT_COORDINATOR
        raw.close()

    async def test_keeps_its_deadline_with_a_client_at_each_processor_that_does_not_read(
        self, config: BrokerConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        waits: list[float] = []
        wait = Processor.close

        async def close(processor: Processor, deadline_s: float) -> None:
            waits.append(asyncio.get_running_loop().time())
            await wait(processor, 0.05)

        monkeypatch.setattr(Processor, "close", close)
        config = replace(config, num_network_threads=3, message_max_bytes=20 << 20)
        async with Broker(config) as broker:
            clients = [await Raw.connect(broker.address) for _ in range(3)]
            await clients[0].create_topic("t")
            await clients[0].produce("t", batch_of(b"x" * (16 << 20)))
            for client in clients:
                client._reader._transport.pause_reading()  # type: ignore[attr-defined]
                for _ in range(3):
                    client.send(ApiKey.FETCH, 11, FetchRequest(max_bytes=1 << 30, topics=long_fetch().topics))
            everyone = connections(broker)
            await until(lambda: sum(each._responses.paused for each in everyone) == 3)
        # Side by side: all began before the first one was over.
        assert max(waits) - min(waits) < 0.05
        for client in clients:
            client.close()

    async def test_refuses_who_connects_meanwhile(self, config: BrokerConfig) -> None:
        broker = Broker(config)
        await broker.start()
        for processor in acceptor(broker).processors:
            processor.stop_reading()
        async with await Raw.connect(broker.address) as raw:
            assert await raw.is_closed()
        await broker.stop()

    async def test_leaves_no_task_and_no_timer(self, config: BrokerConfig) -> None:
        before = asyncio.all_tasks()
        async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
            await raw.create_topic("t", flush_messages="1")
            await raw.produce("t", batch_of(b"x"))
            raw.send(ApiKey.FETCH, 11, long_fetch(offset=1))
            purgatory = broker.services.purgatory
            await until(lambda: len(purgatory) == 1)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before
        assert broker.timers._heap == [] and broker.timers._wakeup is None
        assert len(purgatory) == 0


class TestRestart:
    async def test_keeps_topics_ids_configs_offsets_and_the_cluster(self, config: BrokerConfig) -> None:
        async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
            cluster_id = broker.cluster_id
            created = await raw.create_topic("t", partitions=3, flush_ms="7")
            await raw.produce("t", batch_of(b"x", b"y"), partition=2)
            assert await raw.commit(1) == 0
            producer_id = (await self.init(raw)).producer_id
        async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
            assert broker.cluster_id == cluster_id
            topic = broker.topics.get("t")
            assert topic is not None
            assert (topic.id, topic.record.configs) == (created.topic_id, {"flush.ms": "7"})
            assert [each.high_watermark for each in topic.partitions] == [0, 0, 2]
            assert [each.leader_epoch for each in topic.partitions] == [0, 0, 0]
            assert (await raw.committed()).committed_offset == 1
            assert (await self.init(raw)).producer_id > producer_id

    async def test_of_the_same_object(self, config: BrokerConfig) -> None:
        broker = Broker(config)
        for count in range(3):
            await broker.start()
            async with await Raw.connect(broker.address) as raw:
                if not count:
                    await raw.create_topic("t")
                assert (await raw.produce("t", batch_of(b"x"))).base_offset == count
            await broker.stop()

    async def test_goes_on_with_sequences_of_producers(self, config: BrokerConfig) -> None:
        batches = [batch_of(b"x", producer_id=5, producer_epoch=0, base_sequence=at) for at in range(4)]
        async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
            await raw.create_topic("t")
            for batch in batches[:3]:
                await raw.produce("t", batch)
        async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
            assert [(await raw.produce("t", batch)).base_offset for batch in batches] == [0, 1, 2, 3]

    async def init(self, raw: Raw) -> Any:
        request = InitProducerIdRequest(None, 60_000, -1, -1)
        return await raw.ask(ApiKey.INIT_PRODUCER_ID, 4, request)


class TestConnections:
    async def test_over_max_connections_are_refused(
        self, config: BrokerConfig, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with Broker(replace(config, max_connections=2)) as broker:
            first, second = await Raw.connect(broker.address), await Raw.connect(broker.address)
            await first.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
            await second.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
            with caplog.at_level(logging.WARNING):
                third = await Raw.connect(broker.address)
                assert await third.is_closed()
            assert "refused: max.connections is 2" in caplog.text
            assert caplog.records[-1].getMessage().startswith("127.0.0.1:")
            first.close()
            await until(lambda: len(connections(broker)) == 1)
            fourth = await Raw.connect(broker.address)
            await fourth.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
            for client in (second, third, fourth):
                client.close()

    async def test_over_max_connections_of_an_address_are_refused(
        self, config: BrokerConfig, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with Broker(replace(config, max_connections_per_ip=1)) as broker:
            async with await Raw.connect(broker.address) as raw:
                await raw.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
                async with await Raw.connect(broker.address) as refused:
                    assert await refused.is_closed()
        assert "refused: max.connections.per.ip is 1" in caplog.text

    @pytest.mark.parametrize(("given", "is_set"), [(50_000, True), (-1, False)])
    async def test_have_the_socket_buffers_of_the_config(self, config: BrokerConfig, given: int, is_set: bool) -> None:
        config = replace(config, socket_send_buffer_bytes=given, socket_receive_buffer_bytes=given)
        async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
            await raw.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
            (connection,) = connections(broker)
            assert connection._transport is not None
            sock = connection._transport.get_extra_info("socket")
            sizes = [sock.getsockopt(socket.SOL_SOCKET, each) for each in (socket.SO_SNDBUF, socket.SO_RCVBUF)]
            # Linux gives twice what is asked for.
            assert all(size in (given, 2 * given) for size in sizes) is is_set
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)

    async def test_take_turns_at_the_processors(self, config: BrokerConfig) -> None:
        async with Broker(replace(config, num_network_threads=4)) as broker:
            clients = [await Raw.connect(broker.address) for _ in range(8)]
            for client in clients:
                await client.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
            assert [len(each.connections) for each in acceptor(broker).processors] == [2, 2, 2, 2]
            for client in clients:
                client.close()
