"""One connection against a broker that misbehaves."""

from __future__ import annotations

import asyncio

import pytest
from odradek.client.core.connection import Connection
from odradek.client.errors import BadResponse, ConnectionLost, RequestTimedOut, ValueOutOfRange
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.api_versions import ApiVersionsResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.wire import Bytes, Call, answer, drop, in_pieces, keep_silent
from odradek.tests.support.waiting import until


async def connect(cluster: FakeCluster, **options: float) -> Connection:
    return await Connection.open("127.0.0.1", cluster.nodes[1].port, client_id="test", **options)


async def ask(connection: Connection, topic: str = "t") -> MetadataResponse:
    return await connection.request(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), MetadataResponse)


async def test_the_newest_version_of_both_is_spoken() -> None:
    async with FakeCluster({"t": 3}) as cluster:
        cluster.versions[ApiKey.METADATA] = (0, 9)
        connection = await connect(cluster)
        response = await ask(connection)
        assert len(response.topics[0].partitions) == 3
        assert [(call.key, call.version) for call in cluster.nodes[1].calls] == [
            (ApiKey.API_VERSIONS, 5),
            (ApiKey.METADATA, 9),
        ]
        await connection.close()


@pytest.mark.parametrize("newest", [0, 1, 2, 3, 4])
async def test_a_broker_that_refuses_our_apiversions_is_asked_again_lower(cluster: FakeCluster, newest: int) -> None:
    cluster.versions[ApiKey.API_VERSIONS] = (0, newest)
    connection = await connect(cluster)
    assert [call.version for call in cluster.calls(ApiKey.API_VERSIONS)] == [newest]
    await ask(connection)
    await connection.close()


async def test_an_error_to_apiversions_is_raised() -> None:
    async with FakeCluster() as cluster:
        cluster.on(ApiKey.API_VERSIONS, answer(ApiVersionsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)))
        with pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED"):
            await connect(cluster)


async def test_requests_are_answered_each_to_its_own() -> None:
    async with FakeCluster({f"t{n}": n + 1 for n in range(20)}) as cluster:
        connection = await connect(cluster)
        answers = await asyncio.gather(*(ask(connection, f"t{n}") for n in range(20)))
        assert [len(each.topics[0].partitions) for each in answers] == list(range(1, 21))
        await connection.close()


@pytest.mark.parametrize("size", [1, 3, 50])
async def test_answers_arrive_in_any_pieces(size: int) -> None:
    async with FakeCluster({"t": 40}) as cluster:
        cluster.on(ApiKey.METADATA, in_pieces(size), in_pieces(size))
        connection = await connect(cluster)
        first, second = await asyncio.gather(ask(connection), ask(connection))
        assert first == second
        assert len(first.topics[0].partitions) == 40
        await connection.close()


async def test_a_connection_cut_with_requests_under_way_fails_them_all_and_stays_closed(cluster: FakeCluster) -> None:
    cluster.on(ApiKey.METADATA, drop)
    connection = await connect(cluster)
    results = await asyncio.gather(*(ask(connection) for _ in range(3)), return_exceptions=True)
    assert [type(result) for result in results] == [ConnectionLost] * 3
    assert all(result.retriable for result in results if isinstance(result, KafkaError))
    assert connection.closed
    with pytest.raises(ConnectionLost):
        await ask(connection)


async def test_an_answer_cut_in_the_middle_is_a_lost_connection(cluster: FakeCluster) -> None:
    async def half(call: Call) -> Bytes:
        return Bytes((100).to_bytes(4, "big") + b"half of it")

    cluster.on(ApiKey.METADATA, half, drop)
    connection = await connect(cluster)
    results = await asyncio.gather(ask(connection), ask(connection), return_exceptions=True)
    assert [type(result) for result in results] == [ConnectionLost] * 2


async def test_bytes_that_are_no_answer_close_the_connection_and_say_so(cluster: FakeCluster) -> None:
    async def http(call: Call) -> Bytes:
        return Bytes(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    cluster.on(ApiKey.METADATA, http)
    connection = await connect(cluster)
    with pytest.raises(BadResponse, match="not a Kafka broker"):
        await ask(connection)
    assert connection.closed


async def test_a_late_answer_fails_the_request_and_gives_up_the_connection(cluster: FakeCluster) -> None:
    cluster.on(ApiKey.METADATA, keep_silent)
    connection = await connect(cluster, request_timeout_ms=30)
    with pytest.raises(RequestTimedOut, match="did not answer Metadata within 30 ms"):
        await ask(connection)
    assert connection.closed


async def test_an_address_that_is_silent_from_the_start_is_given_up_long_before_a_request() -> None:
    async with FakeCluster() as cluster:
        cluster.on(ApiKey.API_VERSIONS, keep_silent)
        with pytest.raises(RequestTimedOut, match="takes the connection and does not answer within 30 ms: is a Kafka"):
            await connect(cluster, connect_timeout_ms=30)


async def test_a_request_whose_value_does_not_fit_leaves_the_connection_to_the_others(cluster: FakeCluster) -> None:
    connection = await connect(cluster)
    connection.request_timeout_ms = 20
    too_large = MetadataRequest(topics=[MetadataRequestTopic(name="t" * 40_000)])
    with pytest.raises(ValueOutOfRange):
        await connection.request(too_large, MetadataResponse, version=0)
    await asyncio.sleep(0.04)
    connection.request_timeout_ms = 30_000
    assert len((await ask(connection)).topics[0].partitions) == 1
    await connection.close()


async def test_a_request_that_stops_waiting_does_not_disturb_the_others() -> None:
    async with FakeCluster({"t": 2}) as cluster:
        connection = await connect(cluster)
        given_up = asyncio.ensure_future(ask(connection))
        await asyncio.sleep(0)
        given_up.cancel()
        assert len((await ask(connection)).topics[0].partitions) == 2
        await connection.close()


async def test_a_connection_that_owes_a_response_is_given_up_also_where_nobody_waits_for_it() -> None:
    async with FakeCluster({"t": 1}) as cluster, asyncio.timeout(10):
        connection = await connect(cluster, request_timeout_ms=50)
        cluster.on(ApiKey.METADATA, keep_silent)
        waiting = asyncio.create_task(ask(connection))
        await until(lambda: bool(cluster.calls(ApiKey.METADATA)))
        waiting.cancel()
        await until(lambda: connection.closed)
        with pytest.raises(ConnectionLost, match="did not answer Metadata within 50 ms"):
            await ask(connection)
        await connection.close()


async def test_nobody_there_is_said_with_the_address() -> None:
    async with FakeCluster() as cluster:
        port = cluster.nodes[1].port
    with pytest.raises(ConnectionLost, match=f"cannot connect to 127.0.0.1:{port}"):
        await Connection.open("127.0.0.1", port, client_id="test")


async def test_close_may_be_called_twice_and_fails_who_waits(cluster: FakeCluster) -> None:
    cluster.on(ApiKey.METADATA, keep_silent)
    connection = await connect(cluster)
    waiting = asyncio.ensure_future(ask(connection))
    await asyncio.sleep(0)
    await connection.close()
    await connection.close()
    with pytest.raises(ConnectionLost, match="closed by this client"):
        await waiting


async def test_a_request_on_a_connection_that_is_just_lost_raises_it(cluster: FakeCluster) -> None:
    """The transport tells the protocol a turn after it has met the error."""
    connection = await connect(cluster)
    assert connection._transport is not None
    connection._transport.abort()
    assert not connection.closed
    with pytest.raises(ConnectionLost, match="closed the connection"):
        await ask(connection)
    await connection.close()
