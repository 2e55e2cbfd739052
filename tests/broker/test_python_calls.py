"""How many Python functions the broker calls for one request of a burst: what its speed is made of, without noise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from odradek.benchmarks.groups import Member, live, prepared
from odradek.broker import Broker, BrokerConfig
from odradek.protocol import frame
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.tests.support.brokers.python_calls import count_calls, count_client, count_parked
from odradek.tests.support.clients.raw import Raw, batch_of


def _frame(key: ApiKey, version: int, request: object) -> bytes:
    return b"".join(map(bytes, frame.encode_request(key, version, 7, "calls", request)))  # type: ignore[arg-type]


async def _produce(broker: Broker, raw: Raw) -> bytes:
    await raw.create_topic("t")
    data = TopicProduceData("t", partition_data=[PartitionProduceData(0, batch_of(b"x" * 100))])
    return _frame(ApiKey.PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data]))


async def _metadata(broker: Broker, raw: Raw) -> bytes:
    await raw.create_topic("t")
    return _frame(ApiKey.METADATA, 12, MetadataRequest(topics=[MetadataRequestTopic(name="t")]))


async def _heartbeat(broker: Broker, raw: Raw) -> bytes:
    join = JoinGroupRequest("g", 60_000, 60_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
    member_id = (await raw.ask(ApiKey.JOIN_GROUP, 6, join)).member_id
    join.member_id = member_id
    joined = await raw.ask(ApiKey.JOIN_GROUP, 6, join)
    assignments = [SyncGroupRequestAssignment(member_id, b"a")]
    sync = SyncGroupRequest("g", joined.generation_id, member_id, None, "consumer", "range", assignments)
    assert (await raw.ask(ApiKey.SYNC_GROUP, 5, sync)).error_code == 0
    return _frame(ApiKey.HEARTBEAT, 4, HeartbeatRequest("g", joined.generation_id, member_id))


@pytest.mark.parametrize(
    ("prepare", "most"),
    [(_produce, 37), (_metadata, 25.5), (_heartbeat, 33)],
    ids=["Produce", "Metadata", "Heartbeat"],
)
def test_a_request_in_a_burst_calls_few_functions(config: BrokerConfig, prepare: object, most: float) -> None:
    """One request in 32 is timed, which is a call."""
    calls = count_calls(config, prepare)  # type: ignore[arg-type]
    assert calls.per_request <= most, calls.table()


def _fetch(offset: int) -> Callable[[Broker, Raw], Awaitable[bytes]]:
    async def prepare(_: Broker, raw: Raw) -> bytes:
        await raw.create_topic("t")
        for _ in range(100):
            assert (await raw.produce("t", batch_of(b"x" * 100))).error_code == 0
        partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=150)
        topic = FetchTopic("t", partitions=[partition])
        return _frame(ApiKey.FETCH, 11, FetchRequest(max_wait_ms=500, min_bytes=1, topics=[topic]))

    return prepare


@pytest.mark.parametrize(("offset", "most"), [(99, 45), (30, 56.5)], ids=["newest", "middle"])
def test_a_fetch_in_a_burst_calls_few_functions(config: BrokerConfig, offset: int, most: float) -> None:
    """From the middle of a segment it walks a dozen batches from an index entry on, in one call."""
    calls = count_calls(config, _fetch(offset))
    assert calls.per_request <= most, calls.table()


def _lives(address: str, rounds: range) -> None:
    wire = prepared(address)
    with wire.socket:
        for number in rounds:
            live(Member(wire, f"life-{number}"))


def test_a_life_in_a_group_calls_few_functions(config: BrokerConfig) -> None:
    """Seven requests, of which four write a record: find, join, sync, heartbeat, commit, fetch, leave."""
    calls = count_client(config, _lives, 50)
    assert calls.per_request <= 674, calls.table()


async def _parting(raw: Raw) -> tuple[Callable[[int], bytes], bytes]:
    await raw.create_topic("t")

    def fetch(offset: int) -> bytes:
        topic = FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=offset, partition_max_bytes=150)])
        return _frame(ApiKey.FETCH, 11, FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[topic]))

    data = TopicProduceData("t", partition_data=[PartitionProduceData(0, batch_of(b"x" * 100))])
    return fetch, _frame(ApiKey.PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data]))


def test_a_record_reaches_a_fetch_that_waits_in_three_turns(config: BrokerConfig) -> None:
    """One for the fetch, one for the produce, one for the fetches that this has woken."""
    calls, turns = count_parked(config, _parting)
    assert calls.per_request <= 140, calls.table()
    # The thread of the client wakes the loop once, at its end.
    assert turns < 3.5
