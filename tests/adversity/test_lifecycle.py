"""`odradek serve` among clients that misbehave: it stops in time, refuses a start in one line, survives kill -9."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.tests.support.brokers.process import BrokerProcess
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.seeds import IS_SOAK

# Each starts a process and looks at it from outside: which loop the test itself runs on says nothing about it.
pytestmark = pytest.mark.asyncio(loop_factories=["uvloop"])


def fetch_of(topic: str, offset: int, max_bytes: int = 1 << 20, max_wait_ms: int = 2**31 - 1) -> FetchRequest:
    wanted = [FetchTopic(topic, partitions=[FetchPartition(0, fetch_offset=offset, partition_max_bytes=max_bytes)])]
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=max_bytes, topics=wanted)


def refused(process: BrokerProcess, address: str, data_dir: Path, **settings: object) -> str:
    """Return the one line of a start that ends with status 1."""
    other = BrokerProcess(process.folder, **settings)
    other.address = address
    command = [*other.command(), "--data-dir", str(data_dir), "--log-level", "error"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert (ended.returncode, ended.stdout) == (1, ""), ended
    assert ended.stderr.startswith("odradek: ") and ended.stderr.count("\n") == 1, ended.stderr
    return ended.stderr


# Both begin the same stop (tests/cli/test_serve.py): `make soak` sends each.
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT] if IS_SOAK else [signal.SIGTERM])
async def test_stops_in_time_whatever_its_clients_do(process: BrokerProcess, number: signal.Signals) -> None:
    # Were processors closed one after the other, those with a client that does not read would take 3 s each.
    process.settings = {"num_network_threads": 8, "group_initial_rebalance_delay_ms": 60_000}
    process.start()
    async with contextlib.AsyncExitStack() as stack:

        async def connect() -> Raw:
            return await stack.enter_async_context(await Raw.connect(process.address))

        maker = await connect()
        await maker.create_topic("t")
        for _ in range(12):
            await maker.produce("t", batch_of(b"x" * 1_000_000))
        await maker.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest("g"))
        idle = [await connect() for _ in range(200)]
        parked = [await connect() for _ in range(20)]
        for client in parked:
            client.send(ApiKey.FETCH, 11, fetch_of("t", 12))
        member = await connect()
        protocols = [JoinGroupRequestProtocol("range", b"")]
        member.send(ApiKey.JOIN_GROUP, 3, JoinGroupRequest("g", 30_000, 30_000, "", None, "consumer", protocols))
        for _ in range(16):
            deaf = await connect()
            deaf._reader._transport.pause_reading()  # type: ignore[attr-defined]
            for _ in range(5):
                deaf.send(ApiKey.FETCH, 11, fetch_of("t", 0, 50 << 20))
        half = await connect()
        half.send_bytes(b"\0\1\0\0half a frame")
        # Answered on a connection that came last: all that was sent before has arrived.
        await (await connect()).ask(ApiKey.METADATA, 9, MetadataRequest(topics=[]))
        status = await asyncio.get_running_loop().run_in_executor(None, process.signal, number)
        assert status == 0, process.last_words()
        for client in parked:
            assert (await client.receive(ApiKey.FETCH, 11)).responses[0].partitions[0].error_code == 0
        assert (await member.receive(ApiKey.JOIN_GROUP, 3)).error_code != 0
        assert await idle[0].is_closed()
    assert "Traceback" not in process.log.read_text()
    assert (process.data_dir / ".kafka_cleanshutdown").exists()


async def test_a_second_broker_says_why_it_is_refused_in_a_line_and_the_first_goes_on(
    process: BrokerProcess, tmp_path: Path
) -> None:
    process.start()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.txt").write_text("years of work")
    async with await Raw.connect(process.address) as raw:
        await raw.create_topic("t")
        lines = [
            refused(process, "127.0.0.1:0", process.data_dir),
            refused(process, process.address, tmp_path / "other"),
            refused(process, "127.0.0.1:0", tmp_path / "foreign"),
            refused(process, "127.0.0.1:0", Path("/proc/odradek")),
            refused(process, "127.0.0.1:0", tmp_path / "other", node_id=2),
        ]
        assert (await raw.produce("t", batch_of(b"x"))).error_code == 0
    reasons = ["in use by another process", "cannot listen on", "thesis.txt", "cannot be written", "belongs to node 1"]
    assert [why for why, line in zip(reasons, lines, strict=True) if why not in line] == []
    assert os.listdir(tmp_path / "foreign") == ["thesis.txt"]


async def test_after_kill_9_it_knows_all_that_it_answered(process: BrokerProcess) -> None:
    process.start()
    async with await Raw.connect(process.address) as raw:
        topic_id = (await raw.create_topic("t", flush_ms="7")).topic_id
        for at in range(100):
            assert (await raw.produce("t", batch_of(b"%d" % at))).base_offset == at
        assert await raw.commit(55) == 0
        producer_id = (await init(raw)).producer_id
        first = await metadata(raw)
    process.kill()
    process.start()
    async with await Raw.connect(process.address) as raw:
        again = await metadata(raw)
        assert again.cluster_id == first.cluster_id
        assert again.topics[0].topic_id == topic_id
        assert again.topics[0].partitions[0].leader_epoch == first.topics[0].partitions[0].leader_epoch + 1
        assert (await raw.fetch("t", 0)).high_watermark == 100
        assert (await raw.committed()).committed_offset == 55
        assert (await init(raw)).producer_id > producer_id
        assert (await raw.produce("t", batch_of(b"x"))).base_offset == 100


async def test_very_many_connections_in_a_row_are_all_answered(process: BrokerProcess, many_files: None) -> None:
    process.start()
    clients: list[Raw] = []
    try:
        for _ in range(2000 if IS_SOAK else 600):
            clients.append(await Raw.connect(process.address))
        for client in clients:
            client.send(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("tests", "1.0"))
        for client in clients:
            assert (await client.receive(ApiKey.API_VERSIONS, 3)).error_code == 0
    finally:
        for client in clients:
            client.close()


async def test_out_of_descriptors_it_goes_on_once_there_are_some_again(
    process: BrokerProcess, many_files: None
) -> None:
    process.start()
    hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{process.pid}/fd")) + 30, hard))
    clients = [await Raw.connect(process.address) for _ in range(60)]
    for client in clients:
        client.close()
    # Who comes while none is free is closed at once, and tries again as clients do.
    async with asyncio.timeout(10):
        while True:
            async with await Raw.connect(process.address) as raw:
                with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                    await raw.ask(ApiKey.METADATA, 9, MetadataRequest(topics=[]))
                    # And a topic needs files of its own.
                    assert (await raw.create_topic("t", partitions=2)).error_code == 0
                    return


async def test_clients_that_only_connect_do_not_stop_the_writes_of_others(
    process: BrokerProcess, many_files: None
) -> None:
    process.start()
    async with await Raw.connect(process.address) as raw:
        hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (100, hard))
        clients = [await Raw.connect(process.address) for _ in range(150)]
        assert await clients[-1].is_closed()
        assert (await raw.create_topic("t", partitions=3)).error_code == 0
        for partition in range(3):
            assert (await raw.produce("t", batch_of(b"x"), partition)).error_code == 0
        for client in clients:
            client.close()
    assert "90 of 100 descriptors are in use, and the logs keep the rest: raise the limit" in process.log.read_text()


async def metadata(raw: Raw) -> Any:
    return await raw.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[MetadataRequestTopic(name="t")]))


async def init(raw: Raw) -> Any:
    return await raw.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(None, 60_000, -1, -1))
