"""Finding brokers, topics and coordinators, and finding them again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from odradek.client.admin.topics import delete_topics
from odradek.client.core.clock import Backoff
from odradek.client.core.cluster import Cluster
from odradek.client.core.connection import FETCH
from odradek.client.core.coordinator import find_coordinator
from odradek.client.core.metadata import NO_LEADER, ClusterView
from odradek.client.core.options import ClusterOptions
from odradek.client.errors import ClientStopped, ConnectionLost, NoBrokerReachable, RequestTimedOut, UnknownTopic
from odradek.client.record import TopicPartition
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.api_versions import ApiVersionsResponse
from odradek.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from odradek.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from odradek.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.tests.support.fakes.fake_cluster import FakeCluster, FakeLog
from odradek.tests.support.fakes.wire import Call, answer, drop, keep_silent
from odradek.tests.support.waiting import until

QUICK = ClusterOptions("unused:1", retry_backoff_ms=1, retry_backoff_max_ms=5, default_api_timeout_ms=5_000)


@asynccontextmanager
async def reach(address: str, **options: float) -> AsyncIterator[Cluster]:
    cluster = Cluster(replace(QUICK, bootstrap_servers=address, **options))
    await cluster.start()
    try:
        yield cluster
    finally:
        await cluster.close()


async def test_the_first_bootstrap_server_that_answers_is_enough() -> None:
    async with FakeCluster(nodes=2) as fake, reach(f"127.0.0.1:1,{fake.address}") as cluster:
        assert sorted(cluster.view.nodes) == [1, 2]
        assert cluster.view.cluster_id == "fake"


async def test_where_nobody_answers_all_addresses_are_named_with_what_to_do() -> None:
    async with FakeCluster() as fake:
        address = fake.address
    with pytest.raises(NoBrokerReachable) as caught:
        await Cluster(replace(QUICK, bootstrap_servers=f"127.0.0.1:1,{address}")).start()
    assert f"cannot reach 127.0.0.1:1 (connection refused), {address} (connection refused)" in str(caught.value)
    assert 'Start a broker with "odradek serve"' in str(caught.value)
    assert caught.value.retriable


async def test_a_topic_that_is_being_made_is_waited_for() -> None:
    async with FakeCluster() as fake:

        async def make(call: Call) -> MetadataResponse:
            fake.topics["new"] = [FakeLog(1)]
            return MetadataResponse(topics=[MetadataResponseTopic(ErrorCode.LEADER_NOT_AVAILABLE, "new")])

        async with reach(fake.address) as cluster:
            fake.on(ApiKey.METADATA, make)
            assert len((await cluster.topic("new")).partitions) == 1


@pytest.mark.parametrize("has_gone", [False, True])
async def test_the_next_controller_is_looked_for(has_gone: bool) -> None:
    """The one that the metadata name has gone, or says that it is not the controller any more."""

    async def remove(call: Call) -> DeleteTopicsResponse:
        assert isinstance(call.request, DeleteTopicsRequest)
        code = ErrorCode.NONE if call.node.node_id == fake.controller else ErrorCode.NOT_CONTROLLER
        names = [each.name for each in call.request.topics]
        return DeleteTopicsResponse(responses=[DeletableTopicResult(each, error_code=code) for each in names])

    async with FakeCluster(nodes=2) as fake, asyncio.timeout(20):
        fake.controller = 2
        fake.defaults[ApiKey.DELETE_TOPICS] = remove
        async with reach(fake.address, default_api_timeout_ms=3_000) as cluster:
            fake.controller = 1
            if has_gone:
                await fake.nodes[2].stop()
            await delete_topics(cluster, "t")


async def test_a_topic_that_never_comes_is_an_error_that_names_it() -> None:
    async with FakeCluster() as fake, reach(fake.address) as cluster:
        with pytest.raises(UnknownTopic, match="'nowhere' was not there within 20 ms"):
            await cluster.topic("nowhere", timeout_ms=20)


async def test_a_topic_is_waited_for_while_no_broker_can_be_asked() -> None:
    async with FakeCluster({"t": 1}) as fake, reach(fake.address) as cluster:
        await fake.nodes[1].stop()
        with pytest.raises(NoBrokerReachable, match="connection refused"):
            await cluster.topic("t", timeout_ms=500)
        waiting = asyncio.create_task(cluster.topic("t"))
        await asyncio.sleep(0.01)
        await fake.nodes[1].start()
        assert len((await waiting).partitions) == 1
        fake.on(ApiKey.METADATA, keep_silent)
        with pytest.raises(RequestTimedOut, match="no broker described the topic 'u' within 20 ms"):
            await cluster.topic("u", timeout_ms=20)


async def test_a_topic_that_cannot_be_fails_at_once() -> None:
    async with FakeCluster() as fake, reach(fake.address) as cluster:
        rejection = MetadataResponse(topics=[MetadataResponseTopic(ErrorCode.INVALID_TOPIC_EXCEPTION, "a b")])
        fake.on(ApiKey.METADATA, answer(rejection))
        with pytest.raises(KafkaError, match="INVALID_TOPIC_EXCEPTION: topic 'a b'"):
            await cluster.topic("a b")


@pytest.mark.parametrize("is_watched", [True, False])
async def test_a_call_that_gives_up_on_a_topic_takes_it_from_nobody_who_wants_it(is_watched: bool) -> None:
    async with FakeCluster() as fake, asyncio.timeout(10), reach(fake.address) as cluster:
        waiting = None
        if is_watched:
            cluster.watch(["later"])
        else:
            waiting = asyncio.create_task(cluster.topic("later"))
        with pytest.raises(UnknownTopic):
            await cluster.topic("later", timeout_ms=20)
        fake.topics["later"] = [FakeLog(1)]
        if waiting is not None:
            assert len((await waiting).partitions) == 1
        await cluster.refresh()
        assert "later" in cluster.view.topics


async def test_a_topic_that_is_missing_is_looked_for_again_after_no_broker_could_be_asked() -> None:
    async with FakeCluster() as fake, asyncio.timeout(10), reach(fake.address) as cluster:
        cluster.watch(["later"])
        await cluster.refresh()
        fake.on(ApiKey.METADATA, drop, drop)
        await until(lambda: len(fake.calls(ApiKey.METADATA)) >= 4)
        fake.topics["later"] = [FakeLog(1)]
        await until(lambda: "later" in cluster.view.topics)


async def test_questions_at_the_same_time_share_one_request() -> None:
    async with FakeCluster({"t": 1}) as fake, reach(fake.address) as cluster:
        cluster.watch(["t"])
        await asyncio.gather(*(cluster.refresh() for _ in range(10)))
        assert len(fake.calls(ApiKey.METADATA)) == 2


async def test_when_the_known_brokers_are_gone_the_bootstrap_servers_are_asked_again() -> None:
    async with FakeCluster({"t": 1}) as old, FakeCluster({"t": 2}) as new:
        async with reach(f"{old.address},{new.address}") as cluster:
            await old.nodes[1].stop()
            assert len((await cluster.topic("t")).partitions) == 2


async def test_a_broker_that_says_it_is_another_one_is_looked_for_at_the_bootstrap_servers() -> None:
    async with FakeCluster({"t": 1}) as fake, reach(fake.address) as cluster:
        fake.on(ApiKey.API_VERSIONS, answer(ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)))
        with pytest.raises(ConnectionLost, match="is no longer broker 1 of cluster fake"):
            await cluster.connection(1, FETCH)
        await cluster.connection(1, FETCH)
        asked = [(call.request.cluster_id, call.request.node_id) for call in fake.calls(ApiKey.API_VERSIONS)]
        assert asked == [(None, -1), ("fake", 1), ("fake", 1)]


async def test_a_request_goes_to_another_broker_where_the_connection_breaks() -> None:
    async with FakeCluster({"t": 1}, nodes=2) as fake, reach(fake.address) as cluster:
        fake.on(ApiKey.METADATA, drop)
        cluster.watch(["t"])
        await cluster.refresh()
        assert cluster.leader(TopicPartition("t", 0)) == 1


async def test_there_is_one_connection_a_broker_and_purpose() -> None:
    async with FakeCluster(nodes=2) as fake, reach(fake.address) as cluster:
        general = await asyncio.gather(*(cluster.connection(2) for _ in range(5)))
        assert len(set(map(id, general))) == 1
        assert await cluster.connection(2, FETCH) is not general[0]
        assert cluster.ready(2) is general[0]
        assert len(fake.nodes[2].writers) == 2


async def test_a_broken_connection_is_replaced_on_the_next_use() -> None:
    async with FakeCluster() as fake, reach(fake.address) as cluster:
        first = await cluster.connection(1)
        first.abort(ConnectionLost("cut"))
        assert cluster.ready(1) is None
        assert not (await cluster.connection(1)).closed


async def test_a_broker_that_moved_is_reached_at_its_new_address() -> None:
    async with FakeCluster() as fake, FakeCluster() as elsewhere, reach(fake.address) as cluster:
        first = await cluster.connection(1)
        cluster.view = replace(cluster.view, nodes={1: replace(cluster.view.nodes[1], port=elsewhere.nodes[1].port)})
        second = await cluster.connection(1)
        assert (first.closed, second.address) == (True, elsewhere.address)


async def test_a_node_that_is_not_in_the_cluster_cannot_be_connected_to() -> None:
    async with FakeCluster() as fake, reach(fake.address) as cluster:
        with pytest.raises(ConnectionLost, match="broker 7 is not in the cluster"):
            await cluster.connection(7)


@pytest.mark.parametrize("newest", [0, 2, 3, 4, 6])
async def test_the_coordinator_is_found_by_one_key_or_by_several(newest: int) -> None:
    async with FakeCluster(nodes=2) as fake:
        fake.versions[ApiKey.FIND_COORDINATOR] = (0, newest)
        fake.group.node_id = 2
        async with reach(fake.address) as cluster:
            assert await find_coordinator(cluster, "g") == 2


async def test_no_coordinator_yet_is_a_retriable_error() -> None:
    async with FakeCluster() as fake, reach(fake.address) as cluster:
        nobody = Coordinator("g", -1, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        fake.on(ApiKey.FIND_COORDINATOR, answer(FindCoordinatorResponse(coordinators=[nobody])))
        with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE") as caught:
            await find_coordinator(cluster, "g")
        assert caught.value.retriable


async def test_retriable_errors_are_tried_again_and_others_are_not() -> None:
    async with FakeCluster() as fake, reach(fake.address) as cluster:
        errors = [ErrorCode.NOT_COORDINATOR, ErrorCode.REQUEST_TIMED_OUT]

        async def attempt() -> str:
            if errors:
                raise KafkaError(errors.pop())
            return "done"

        assert await cluster.retry(attempt) == "done"
        errors.append(ErrorCode.INVALID_REQUEST)
        with pytest.raises(KafkaError, match="INVALID_REQUEST"):
            await cluster.retry(attempt)


async def test_trying_again_ends_with_the_last_error() -> None:
    async with FakeCluster() as fake, reach(fake.address) as cluster:

        async def attempt() -> None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "still not")

        with pytest.raises(KafkaError, match="still not"):
            await cluster.retry(attempt, timeout_ms=20)


async def test_a_closed_cluster_connects_no_more() -> None:
    async with FakeCluster() as fake, reach(fake.address) as cluster:
        await cluster.close()
        with pytest.raises(ClientStopped):
            await cluster.connection(1)


def view_of(leader: int, epoch: int, topic_id: bytes = b"a" * 16, before: ClusterView | None = None) -> ClusterView:
    partition = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch)
    topic = MetadataResponseTopic(name="t", topic_id=topic_id, partitions=[partition])
    brokers = [MetadataResponseBroker(number, "h", 1) for number in (1, 2)]
    return (before or ClusterView()).updated(MetadataResponse(brokers=brokers, topics=[topic]), whole=False)


def test_a_broker_that_lags_behind_does_not_bring_back_an_old_leader() -> None:
    first = view_of(1, 5)
    assert view_of(2, 4, before=first).leader(TopicPartition("t", 0)) == 1
    assert view_of(2, 6, before=first).leader(TopicPartition("t", 0)) == 2


def test_a_topic_created_again_begins_with_its_own_epochs() -> None:
    assert view_of(2, 0, b"b" * 16, before=view_of(1, 5)).leader(TopicPartition("t", 0)) == 2


def test_a_leader_that_is_no_broker_is_none() -> None:
    assert view_of(3, 0).leader(TopicPartition("t", 0)) == NO_LEADER
    assert view_of(1, 0).leader(TopicPartition("t", 1)) == NO_LEADER


def test_pauses_double_up_to_the_cap_and_scatter_by_a_fifth() -> None:
    backoff = Backoff(100, 1000, draw=lambda: 0.5)
    assert [backoff.pause_ms(n) for n in (1, 2, 3, 4, 5, 100_000)] == [100, 200, 400, 800, 1000, 1000]
    assert Backoff(100, 1000, draw=lambda: 0.0).pause_ms(1) == pytest.approx(80)
    assert Backoff(100, 1000, draw=lambda: 1.0).pause_ms(9) == pytest.approx(1200)
