"""A broker as a member of a cluster: how it joins, what it writes into ZooKeeper, what refuses it, how it leaves."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import SessionExpiredError
from odradek.broker import Broker, BrokerConfig
from odradek.broker.cluster.controller.machine import ControllerMachine
from odradek.broker.log_dirs.data_dir import StartError
from odradek.broker.server import serve
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest
from odradek.tests.support.brokers.process import free_port
from odradek.tests.support.clients.raw import batch_of
from odradek.tests.support.clusters.members import Members, member
from odradek.tests.support.clusters.zookeeper import ZooKeeperProcess
from odradek.tests.support.waiting import until
from odradek.zookeeper.operations import Check, Create, Delete, Refused, Steps, children, read, write
from odradek.zookeeper.session import Session

WAIT_S = 30


async def content(zookeeper: Session, path: str) -> object:
    """The JSON of a znode."""
    znode = await zookeeper.run(read(path))
    assert znode is not None
    return json.loads(znode.data)


async def test_a_cluster_is_what_zookeeper_holds_and_what_clients_are_told(cluster: Members) -> None:
    first, second = await cluster.start(1, broker_rack="r1"), await cluster.start(2)
    zookeeper = member(first).zookeeper
    host, port = first.address.split(":")
    registration = await content(zookeeper, "/brokers/ids/1")
    assert isinstance(registration, dict)
    assert registration | {"timestamp": ""} == {
        "features": {},
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "endpoints": [f"PLAINTEXT://{first.address}"],
        "rack": "r1",
        "jmx_port": -1,
        "port": int(port),
        "host": host,
        "version": 5,
        "timestamp": "",
    }
    assert "rack" not in str(await content(zookeeper, "/brokers/ids/2"))
    assert await content(zookeeper, "/cluster/id") == {"version": "1", "id": first.cluster_id}
    assert second.cluster_id == first.cluster_id
    assert await content(zookeeper, "/feature") == {"features": {}, "version": 2, "status": 1}
    assert await content(zookeeper, "/latest_producer_id_block") == {
        "version": 1,
        "broker": 2,
        "block_start": "1000",
        "block_end": "1999",
    }
    controller = await content(zookeeper, "/controller")
    assert isinstance(controller, dict) and controller["brokerid"] == 1 and controller["kraftControllerEpoch"] == -1
    for broker in (first, second):
        await until(lambda broker=broker: len(broker.services.replicas.view.brokers) == 2)
        raw = await cluster.raw(broker)
        answer = await raw.ask(ApiKey.DESCRIBE_CLUSTER, 1, DescribeClusterRequest())
        assert answer.controller_id == 1
        assert sorted((each.broker_id, each.rack) for each in answer.brokers) == [(1, "r1"), (2, None)]


async def test_a_controller_that_fails_gives_up_its_term_and_another_begins(
    cluster: Members, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.broker.cluster.controller.controller.FAILURE_PAUSE_S", 0.05)
    first, second = await cluster.start(1), await cluster.start(2)

    def fail(_: ControllerMachine) -> Steps[None]:
        yield from ()
        raise ZeroDivisionError("a mistake")

    with pytest.raises(KafkaError) as caught:
        await member(first).controller.ask(fail)
    assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "the controller gives up its term" in caplog.text and "a mistake" in caplog.text
    await until(lambda: any(member(each).controller.machine for each in (first, second)))
    successor = first if member(first).controller.machine else second
    created = await (await cluster.raw(successor)).create_topic("t", 2, 2)
    assert created.error_code == 0


async def test_a_broker_without_a_number_gets_the_next_one_and_keeps_it(cluster: Members) -> None:
    config = cluster.config("generated")
    for name, number in (("generated", 1001), ("generated", 1001), ("another", 1002)):
        async with Broker(replace(config, log_dirs=(str(cluster.folder / name),))) as broker:
            assert broker.node_id == number
            text = (cluster.folder / name / "meta.properties").read_text().splitlines()
            assert {"version=0", f"broker.id={number}", f"cluster.id={broker.cluster_id}"} <= set(text)
    async with Broker(cluster.config("lower", reserved_broker_max_id=5)) as broker:
        assert broker.node_id == 8
    with pytest.raises(StartError, match=r"broker.id is not set, and broker.id.generation.enable is false"):
        await Broker(cluster.config("none", broker_id_generation_enable=False)).start()


async def test_a_taken_number_is_refused_and_its_holder_stays(cluster: Members) -> None:
    first = await cluster.start(1)
    before = await content(member(first).zookeeper, "/brokers/ids/1")
    with pytest.raises(StartError, match=f"broker.id 1 is taken by the broker at {first.address}: choose another"):
        await Broker(cluster.config("other", broker_id=1)).start()
    assert await content(member(first).zookeeper, "/brokers/ids/1") == before
    # Its data directory is free for another try.
    await cluster.start(2, name="elsewhere")


async def test_the_data_directory_of_another_cluster_or_number_is_refused(
    cluster: Members, ensemble: ZooKeeperProcess
) -> None:
    async with Broker(cluster.config("a", broker_id=1)) as broker:
        mine = broker.cluster_id
    with pytest.raises(StartError, match=r"belongs to node 1, this broker is node 2"):
        await Broker(cluster.config("a", broker_id=2)).start()
    elsewhere = f"{cluster.base.zookeeper_connect}/other"
    with pytest.raises(StartError, match=rf"holds no cluster, and data directory .* belongs to cluster {mine}"):
        await Broker(cluster.config("a", broker_id=1, zookeeper_connect=elsewhere)).start()
    async with Broker(cluster.config("b", broker_id=3, zookeeper_connect=elsewhere)):
        pass
    with pytest.raises(StartError, match=rf"belongs to cluster {mine}, and ZooKeeper at .* holds cluster"):
        await Broker(cluster.config("a", broker_id=1, zookeeper_connect=elsewhere)).start()
    with pytest.raises(StartError, match=r"belongs to a broker of a cluster: set zookeeper.connect"):
        await Broker(cluster.config("a", node_id=1, zookeeper_connect=None)).start()


@pytest.mark.parametrize("connect", ["", "/chroot", ":2181", "zk:port", "zk:99999"])
async def test_a_zookeeper_without_a_host_and_a_port_refuses_the_start(tmp_path: Path, connect: str) -> None:
    config = BrokerConfig(log_dirs=(str(tmp_path / "data"),), broker_id=1, zookeeper_connect=connect)
    with pytest.raises(StartError, match=rf"zookeeper\.connect={connect} is no HOST:PORT"):
        await Broker(config).start()


async def test_no_zookeeper_refuses_the_start_within_the_connection_timeout(cluster: Members) -> None:
    config = cluster.config(
        "a", broker_id=1, zookeeper_connect=f"127.0.0.1:{free_port()}", zookeeper_connection_timeout_ms=300
    )
    with pytest.raises(StartError, match=r"no ZooKeeper answers at .* within 0.3 s"):
        await Broker(config).start()


async def test_an_earlier_run_of_the_same_broker_is_waited_for(
    cluster: Members, ensemble: ZooKeeperProcess, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker that was killed finds its own registration until its session has expired.

    Until then it accepts no connection: it would tell clients of a cluster without brokers.
    """
    caplog.set_level(logging.INFO)
    port = free_port()
    listeners = (f"PLAINTEXT://127.0.0.1:{port}",)
    config = cluster.config("a", broker_id=1, listeners=listeners)
    async with Broker(config) as broker:
        registration = (await member(broker).zookeeper.run(read("/brokers/ids/1"))).data  # type: ignore[union-attr]
    second = await cluster.start(2)
    client = member(second).zookeeper._client  # pyright: ignore[reportPrivateUsage]
    await asyncio.to_thread(client.create, "/brokers/ids/1", registration)
    again = Broker(config)
    starting = asyncio.ensure_future(again.start())
    await until(lambda: "waiting for that session to end" in caplog.text)
    assert not starting.done()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    await member(second).zookeeper.run(write(Delete("/brokers/ids/1")))
    await starting
    await again.stop()


async def test_a_broker_whose_session_expires_registers_again_and_may_be_controller_again(
    cluster: Members, ensemble: ZooKeeperProcess
) -> None:
    broker = await cluster.start(1)
    raw = await cluster.raw(broker)
    await raw.create_topic("t")
    replicas = broker.services.replicas
    assert replicas is not None
    before, epoch = replicas.broker_epoch, replicas.controller_epoch
    await asyncio.to_thread(ensemble.end_session, member(broker).zookeeper)
    await until(lambda: replicas.broker_epoch > before and replicas.controller_epoch == epoch + 1)
    await until(lambda: broker.topics.get("t").partitions[0].not_leading is None)  # type: ignore[union-attr]
    answer = await raw.produce("t", batch_of(b"x"))
    assert answer.error_code == 0


async def test_a_broker_whose_registration_was_removed_registers_again(cluster: Members) -> None:
    first, second = await cluster.start(1), await cluster.start(2)
    replicas = first.services.replicas
    assert replicas is not None
    before = replicas.broker_epoch
    await member(second).zookeeper.run(write(Delete("/brokers/ids/1")))
    await until(lambda: replicas.broker_epoch > before)
    # And once more: the watch was set again.
    before = replicas.broker_epoch
    await member(second).zookeeper.run(write(Delete("/brokers/ids/1")))
    await until(lambda: replicas.broker_epoch > before)
    told = second.services.replicas
    assert told is not None
    await until(lambda: set(told.view.brokers) == {1, 2})


async def test_a_broker_whose_registration_zookeeper_refuses_tries_again(
    cluster: Members, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("odradek.broker.cluster.member.FAILURE_PAUSE_S", 0.01)
    first, second = await cluster.start(1), await cluster.start(2)
    replicas, zookeeper = first.services.replicas, member(first).zookeeper
    assert replicas is not None
    run, errors = zookeeper.run, [Refused("ZooKeeper refuses to change /brokers/ids/1")] * 2

    async def refuse(steps: Steps[Any], fence: Check | None = None) -> Any:
        if errors and getattr(steps, "__name__", "") == "register":
            raise errors.pop()
        return await run(steps, fence)

    monkeypatch.setattr(zookeeper, "run", refuse)
    before = replicas.broker_epoch
    await member(second).zookeeper.run(write(Delete("/brokers/ids/1")))
    await until(lambda: replicas.broker_epoch > before)
    assert not errors and caplog.text.count("broker 1 cannot return to the cluster yet") == 2
    assert member(first).unready_reason is None


@pytest.fixture
def kept_signals() -> Iterator[None]:
    """Take back the signals, which `serve` keeps until the end of its process."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("kept_signals")
async def test_a_broker_whose_number_another_has_taken_ends_with_a_message(cluster: Members) -> None:
    second = await cluster.start(2)
    announced = asyncio.Event()
    running = asyncio.ensure_future(serve(cluster.config("first", broker_id=1), lambda _: announced.set()))
    await asyncio.wait([asyncio.ensure_future(announced.wait()), running], return_when=asyncio.FIRST_COMPLETED)
    path, zookeeper = "/brokers/ids/1", member(second).zookeeper
    found = await zookeeper.run(read(path))
    assert found is not None
    other = found.data.replace(b"127.0.0.1", b"10.99.99.9")
    assert await zookeeper.run(write(Delete(path), Create(path, other, ephemeral=True))) is None
    with pytest.raises(StartError, match=r"broker.id 1 is taken by the broker at 10.99.99.9:\d+: choose another"):
        await running
    # The holder's znode stays.
    kept = await zookeeper.run(read(path))
    assert kept is not None and kept.data == other


async def test_a_new_controller_is_elected_when_its_znode_is_removed(cluster: Members) -> None:
    first, second = await cluster.start(1), await cluster.start(2)
    zookeeper = member(first).zookeeper
    await zookeeper.run(write(Delete("/controller")))
    await until(lambda: max(each.services.replicas.controller_epoch for each in (first, second)) == 2)
    await until(lambda: [member(each).controller.is_active for each in (first, second)].count(True) == 1)


async def test_leaders_move_away_before_a_broker_stops(cluster: Members) -> None:
    """With controlled.shutdown.enable=false they move when the broker is gone."""
    first = await cluster.start(1)
    second = await cluster.start(2)
    third = await cluster.start(3, controlled_shutdown_enable=False)
    raw = await cluster.raw(first)
    answer = await raw.create_topic("t", 3, 3)
    assert answer.error_code == 0
    states = member(first).controller.machine.cluster.states  # type: ignore[union-attr]
    for broker in (second, third):
        asked: list[int] = []
        machine = member(first).controller.machine
        assert machine is not None
        shut_down = machine.shut_down

        def noted(number: int, epoch: int, shut_down=shut_down, asked=asked):
            asked.append(number)
            return shut_down(number, epoch)

        machine.shut_down = noted  # type: ignore[method-assign]
        await broker.stop()
        assert asked == ([2] if broker is second else [])
        gone = {broker.config.node_id, -1}
        await until(lambda gone=gone: all(each.leader not in gone for each in states.values()))
    assert await member(first).zookeeper.run(children("/brokers/ids")) == ["1"]


async def test_a_broker_that_was_alone_brings_its_topics_into_the_cluster(cluster: Members) -> None:
    async with Broker(cluster.config("a", node_id=1, zookeeper_connect=None)) as alone:
        raw = await cluster.raw(alone)
        await raw.create_topic("t", 2, retention_ms="123456")
        assert (await raw.produce("t", batch_of(b"kept"))).base_offset == 0
        topic_id = alone.topics.get("t").id  # type: ignore[union-attr]
        identity, producer_id = alone.cluster_id, alone.services.metadata.new_producer_id()
    broker = await cluster.start(1, name="a")
    assert broker.cluster_id == identity
    topic = broker.topics.get("t")
    assert topic is not None and topic.id == topic_id and topic.config.retention_ms == 123456
    raw = await cluster.raw(broker)
    assert (await raw.produce("t", batch_of(b"more"))).base_offset == 1
    zookeeper = member(broker).zookeeper
    assert await content(zookeeper, "/config/topics/t") == {"version": 1, "config": {"retention.ms": "123456"}}
    assert "_id" in str(await content(zookeeper, "/brokers/topics/t"))
    assert member(broker).producer_ids.new_id() > producer_id
    await cluster.start(2)


async def test_only_the_controller_creates_topics(cluster: Members) -> None:
    await cluster.start(1)
    second = await cluster.start(2)
    raw = await cluster.raw(second)
    code = int(ErrorCode.NOT_CONTROLLER)
    assert (await raw.create_topic("t")).error_code == code
    # Another broker may not know yet which topics there are: it refuses unknown names alike.
    topics = [DeleteTopicState("t"), DeleteTopicState(None, bytes(15) + b"7")]
    deleted = await raw.ask(ApiKey.DELETE_TOPICS, 6, DeleteTopicsRequest(topics=topics, timeout_ms=1000))
    assert [(each.name, each.error_code) for each in deleted.responses] == [("t", code), (None, code)]
    assert (await raw.ask(ApiKey.DELETE_TOPICS, 6, DeleteTopicsRequest())).responses == []
    grown = CreatePartitionsRequest([CreatePartitionsTopic("t", 2), CreatePartitionsTopic("u", 20_000)], 1000)
    assert [each.error_code for each in (await raw.ask(ApiKey.CREATE_PARTITIONS, 3, grown)).results] == [code, code]
    many = CreateTopicsRequest(topics=[CreatableTopic("t", 20_000, 1)])
    assert (await raw.ask(ApiKey.CREATE_TOPICS, 7, many)).topics[0].error_code == code


async def test_a_start_whose_session_ends_at_once_says_so(cluster: Members, monkeypatch: pytest.MonkeyPatch) -> None:
    def expire(self: KazooClient, path: str, acl: object) -> object:
        result = self.handler.async_result()
        result.set_exception(SessionExpiredError())
        return result

    monkeypatch.setattr(KazooClient, "ensure_path_async", expire)
    with pytest.raises(StartError, match=r"the session with ZooKeeper at .* ended while the broker started"):
        await cluster.start(1)
