"""ConsumerConnector against a real ZooKeeper and a broker of a cluster: streams, rebalances, commits, lost sessions."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.cluster import zookeeper_login
from odradek.client import TopicPartition
from odradek.client.errors import ClientStopped, InvalidOption, NoBrokerReachable
from odradek.client.zookeeper import ConsumerConnector, RebalanceFailed, ZooKeeperUnreachable, connector
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.tests.client.zookeeper.world import WAIT_S, World, take
from odradek.tests.support.brokers.process import free_port
from odradek.tests.support.cancellation import cancelled_at
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.clusters.lone_cluster import lone_member, modelled_zookeeper
from odradek.tests.support.clusters.members import member
from odradek.tests.support.clusters.zookeeper import ZooKeeperProcess
from odradek.tests.support.documents.page import run_blocks
from odradek.tests.support.waiting import until
from odradek.zookeeper.operations import Create, Delete, children, read, write
from odradek.zookeeper.session import Contact


async def dump(world: World, path: str) -> dict[str, tuple[str, bool]]:
    """Every znode below that has a content: path -> (content without its time, whether it is ephemeral)."""
    zookeeper = member(world.broker).zookeeper
    found: dict[str, tuple[str, bool]] = {}
    for name in await zookeeper.run(children(path)):
        below = f"{path}/{name}"
        znode = await zookeeper.run(read(below))
        assert znode is not None
        if znode.data:
            found[below] = re.sub(r'"timestamp":"\d+"', '"timestamp":""', znode.data.decode()), znode.owner != 0
        found |= await dump(world, below)
    return found


async def test_streams_of_several_members_share_the_partitions_and_go_on_from_the_commit(world: World) -> None:
    await world.raw.create_topic("t", 4)
    for partition in range(4):
        await world.send("t", partition, f"{partition}-0")
    first, streams = await world.join({"t": 2}, consumer_id="a:1")
    assert len(first.owned()) == 4
    found = await take(streams["t"][0], 2) + await take(streams["t"][1], 2)
    assert sorted(found) == ["0-0", "1-0", "2-0", "3-0"]
    second, others = await world.join({"t": 1}, consumer_id="b:1")
    await until(lambda: len(first.owned()) == 3 and len(second.owned()) == 1)
    assert not first.owned() & second.owned()
    await first.shutdown()
    await until(lambda: len(second.owned()) == 4)
    for partition in range(4):
        await world.send("t", partition, f"{partition}-1")
    # The last record of each stream was handed out, and its stream was not asked for the next one.
    seen: set[str] = set()
    while len(seen & {f"{partition}-1" for partition in range(4)}) < 4:
        seen.update(await take(others["t"][0], 1))
    assert len(seen - {f"{partition}-1" for partition in range(4)}) <= 2


async def test_the_registry_holds_what_kafkas_own_consumer_wrote(world: World) -> None:
    await world.raw.create_topic("flights", 2)
    await world.raw.create_topic("weather", 1)
    await world.send("flights", 0, "a", "b")
    first, streams = await world.join({"flights": 2}, group="static", consumer_id="h:1")
    assert await take(streams["flights"][0], 2) == ["a", "b"]
    await first.commit_offsets()
    by_filter = await world.stack.enter_async_context(world.connector(group="filter", consumer_id="h:2"))
    await by_filter.create_message_streams_by_filter(blacklist="weather.*,x")
    subscription = '{"version":1,"subscription":%s,"pattern":"%s","timestamp":""}'
    assert await dump(world, "/consumers") == {
        "/consumers/static/ids/h:1": (subscription % ('{"flights":2}', "static"), True),
        "/consumers/static/owners/flights/0": ("h:1-0", True),
        "/consumers/static/owners/flights/1": ("h:1-1", True),
        # The second record is handed out, and not consumed yet.
        "/consumers/static/offsets/flights/0": ("1", False),
        "/consumers/filter/ids/h:2": (subscription % ('{"weather.*,x":1}', "black_list"), True),
        "/consumers/filter/owners/flights/0": ("h:2-0", True),
        "/consumers/filter/owners/flights/1": ("h:2-0", True),
    }
    await first.shutdown()
    await by_filter.shutdown()
    assert await dump(world, "/consumers") == {"/consumers/static/offsets/flights/0": ("1", False)}


async def test_a_filter_finds_topics_and_partitions_that_are_made_later(world: World) -> None:
    await world.raw.create_topic("fl-1", 1)
    connector = await world.stack.enter_async_context(world.connector())
    (stream,) = await connector.create_message_streams_by_filter(whitelist="fl.*")
    await world.raw.create_topic("fl-2", 1)
    await world.raw.create_topic("other", 1)
    await until(lambda: connector.owned() == {TopicPartition("fl-1", 0), TopicPartition("fl-2", 0)})
    await world.send("fl-2", 0, "later")
    assert await take(stream, 1) == ["later"]
    request = CreatePartitionsRequest([CreatePartitionsTopic("fl-1", 2, None)], 10_000, False)
    await world.raw.ask(ApiKey.CREATE_PARTITIONS, 3, request)
    await until(lambda: TopicPartition("fl-1", 1) in connector.owned())


async def test_a_session_that_expires_gives_the_partitions_away_and_comes_back(
    world: World, ensemble: ZooKeeperProcess
) -> None:
    await world.raw.create_topic("t", 1)
    await world.send("t", 0, "0", "1", "2")
    first, streams = await world.join({"t": 1}, consumer_id="a:1", enable_auto_commit=False)
    (stream,) = streams["t"]
    assert await take(stream, 2) == ["0", "1"]
    await first.commit_offsets()
    session = first._session  # pyright: ignore[reportPrivateUsage]
    assert session is not None
    before = session.session_id
    ensemble.end_session(session)
    lives = [first._member]  # pyright: ignore[reportPrivateUsage]
    await until(lambda: first._member not in lives and len(first.owned()) == 1)  # pyright: ignore[reportPrivateUsage]
    assert session.session_id != before
    # From the commit on: what was handed out and not consumed comes again.
    assert await take(stream, 2) == ["1", "2"]


async def test_a_zookeeper_that_is_away_stops_the_records_and_its_return_brings_them_back(
    world: World, ensemble: ZooKeeperProcess
) -> None:
    await world.raw.create_topic("t", 1)
    connector, streams = await world.join({"t": 1}, zookeeper_session_timeout_ms=1500)
    assert connector._reading is not None
    opened = connector._reading.streams
    ensemble.kill()
    try:
        await until(lambda: not opened.is_open)
        await world.send("t", 0, "0")
        waiting = asyncio.ensure_future(take(streams["t"][0], 1))
        await until(lambda: bool(streams["t"][0].queue))
        assert not waiting.done()
    finally:
        await asyncio.to_thread(ensemble.start)
    assert await waiting == ["0"]


async def test_a_change_after_a_short_absence_of_zookeeper_is_noticed(world: World, ensemble: ZooKeeperProcess) -> None:
    await world.raw.create_topic("t", 2)
    first, _ = await world.join({"t": 1}, consumer_id="a:1", zookeeper_session_timeout_ms=30_000)
    await until(lambda: len(first.owned()) == 2)
    ensemble.kill()
    await asyncio.to_thread(ensemble.start)
    # On a busy machine it takes the first one seconds to be connected again.
    second, _ = await world.join({"t": 1}, consumer_id="b:1", rebalance_max_retries=6_000)
    await until(lambda: len(first.owned()) == len(second.owned()) == 1)


async def test_a_first_rebalance_that_fails_says_so(world: World) -> None:
    await world.raw.create_topic("t", 1)
    zookeeper = member(world.broker).zookeeper
    for path in ("/consumers/g", "/consumers/g/owners", "/consumers/g/owners/t", "/consumers/g/owners/t/0"):
        await zookeeper.run(write(Create(path)))
    connector = await world.stack.enter_async_context(world.connector(rebalance_max_retries=2))
    with pytest.raises(RebalanceFailed, match="got no partitions in 2 attempts"):
        await connector.create_message_streams({"t": 1})
    await zookeeper.run(write(Delete("/consumers/g/owners/t/0")))
    await until(lambda: len(connector.owned()) == 1)


async def test_a_shutdown_ends_the_wait_for_the_first_rebalance(world: World) -> None:
    await world.raw.create_topic("t", 1)
    zookeeper = member(world.broker).zookeeper
    for path in ("/consumers/g", "/consumers/g/owners", "/consumers/g/owners/t", "/consumers/g/owners/t/0"):
        await zookeeper.run(write(Create(path)))
    connector = await world.stack.enter_async_context(world.connector(rebalance_backoff_ms=60_000))
    waiting = asyncio.ensure_future(connector.create_message_streams({"t": 1}))
    await until(lambda: connector._member is not None and connector._member.failed_attempts == 1)
    await connector.shutdown()
    with pytest.raises(ClientStopped, match="before its first rebalance"):
        await waiting


async def test_what_cannot_be_is_refused(world: World) -> None:
    for options in (
        {"group_id": "a/b"},
        {"offsets_storage": "disk"},
        {"rebalance_max_retries": 0},
        {"rebalance_backoff_ms": 0},
        {"auto_offset_reset": "smallest"},
    ):
        with pytest.raises(InvalidOption):
            world.connector(**options)
    with pytest.raises(ClientStopped):
        await world.connector().create_message_streams({"t": 1})
    async with world.connector() as connector:
        with pytest.raises(InvalidOption):
            await connector.create_message_streams({})
        with pytest.raises(InvalidOption):
            await connector.create_message_streams_by_filter(whitelist="(")
        with pytest.raises(InvalidOption):
            await connector.create_message_streams_by_filter()
        await connector.create_message_streams({"missing": 1})
        with pytest.raises(InvalidOption, match="once"):
            await connector.create_message_streams({"t": 1})


async def test_the_consumer_of_the_page_reads_a_topic(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    await world.raw.create_topic("flights", 2)
    await world.send("flights", 0, "UA 1")
    text = (Path(__file__).parents[3] / "docs" / "cluster.md").read_text(encoding="utf-8")
    # The page waits for records for ever.
    own = {
        "127.0.0.1:2181/odradek": world.members.base.zookeeper_connect or "",
        'group_id="old"': 'group_id="old", auto_offset_reset="earliest"',
        "print(record.value)": "print(record.value)\n        break",
    }
    async with asyncio.timeout(WAIT_S):
        assert await run_blocks("cluster.md", text, own) == 1
    assert capsys.readouterr().out == "b'UA 1'\n"


async def test_no_zookeeper_and_no_broker_are_named(ensemble: ZooKeeperProcess) -> None:
    nobody = ConsumerConnector(
        zookeeper_connect=f"127.0.0.1:{free_port()}", group_id="g", zookeeper_connection_timeout_ms=200
    )
    with pytest.raises(ZooKeeperUnreachable, match="no ZooKeeper answers at"):
        await nobody.start()
    with pytest.raises(NoBrokerReachable, match="none is registered"):
        await ConsumerConnector(zookeeper_connect=f"{ensemble.address}/nothing", group_id="g").start()


async def test_a_connector_that_could_not_start_at_first_starts_once_and_leaves_at_its_end(world: World) -> None:
    await world.raw.create_topic("t", 1)
    await world.send("t", 0, "a")
    zookeeper = member(world.broker).zookeeper
    address = f"{world.members.base.zookeeper_connect}/later"
    connector = world.connector(consumer_id="h:1", zookeeper_connect=address)
    with pytest.raises(NoBrokerReachable, match="none is registered"):
        await connector.start()
    for path in ("", "/brokers", "/brokers/ids", "/brokers/topics", "/brokers/ids/1", "/brokers/topics/t"):
        found = await zookeeper.run(read(path or "/"))
        await zookeeper.run(write(Create(f"/later{path}", b"" if found is None else found.data)))
    await asyncio.gather(connector.start(), connector.start())
    streams = await connector.create_message_streams({"t": 1})
    assert await take(streams["t"][0], 1) == ["a"]
    await connector.commit_offsets()
    await connector.shutdown()
    assert await zookeeper.run(children("/later/consumers/g/ids")) == []


async def test_zookeeper_may_fall_silent_while_a_connector_shuts_down(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.raw.create_topic("t", 1)
    connector, _ = await world.join({"t": 1})
    reading = connector._reading
    assert reading is not None
    stop, stopped = reading.stop, list[bool]()

    async def stop_in_silence() -> None:
        connector._note_contact(Contact.SUSPENDED)
        await stop()
        stopped.append(True)

    monkeypatch.setattr(reading, "stop", stop_in_silence)
    await connector.shutdown()
    assert stopped and connector._doubts is None


async def test_a_shutdown_that_is_cancelled_at_any_await_gives_the_session_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with modelled_zookeeper():
        monkeypatch.setattr(connector, "Session", zookeeper_login.Session)
        async with Broker(
            lone_member(BrokerConfig(log_dirs=(str(tmp_path),), listeners=("PLAINTEXT://:0",)))
        ) as broker:
            async with await Raw.connect(broker.address) as raw:
                await raw.create_topic("t")
            more, number = True, 0
            while more:
                number += 1
                made = ConsumerConnector(group_id=f"g{number}")
                await made.start()
                await made.create_message_streams({"t": 1})
                session = made._session
                more, _ = await cancelled_at(number, made.shutdown())
                assert session is not None and session._is_stopping
            assert number > 3
