"""DescribeTopicPartitions: pages that together are the whole, wherever they are cut."""

from __future__ import annotations

from dataclasses import replace

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from odradek.tests.support.clients.raw import Raw

SIZES = {"a": 3, "b": 1, "c": 4}
ALL = [(name, index) for name, size in SIZES.items() for index in range(size)]


@pytest.fixture
async def topics(raw: Raw) -> None:
    for name in reversed(SIZES):
        await raw.create_topic(name, SIZES[name])


async def page(
    raw: Raw, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsResponse:
    at = None if cursor is None else Cursor(*cursor)
    request = DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], limit, at)
    return await raw.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)


def places(response: DescribeTopicPartitionsResponse) -> list[tuple[str | None, int]]:
    return [(topic.name, each.partition_index) for topic in response.topics for each in topic.partitions]


def next_of(response: DescribeTopicPartitionsResponse) -> tuple[str, int] | None:
    cursor = response.next_cursor
    return None if cursor is None else (cursor.topic_name, cursor.partition_index)


@pytest.mark.usefixtures("topics")
@pytest.mark.parametrize("names", [(), ("a", "b", "c"), ("c", "a", "b", "a")])
async def test_pages_of_any_size_are_the_whole_in_order(raw: Raw, names: tuple[str, ...]) -> None:
    for limit in (-1, 0, 1, 2, 3, 4, 7, 8, 9, 2000):
        found: list[tuple[str | None, int]] = []
        cursor = None
        for _ in range(len(ALL) + 1):
            response = await page(raw, *names, limit=limit, cursor=cursor)
            assert len(places(response)) <= max(limit, 1)
            found += places(response)
            cursor = next_of(response)
            if cursor is None:
                break
        assert (limit, found) == (limit, ALL)


@pytest.mark.usefixtures("topics")
async def test_the_cursor_is_the_first_partition_that_is_not_there(raw: Raw) -> None:
    wanted = {2: ("a", 2), 3: ("b", 0), 4: ("c", 0), 5: ("c", 1), 8: None}
    assert {limit: next_of(await page(raw, limit=limit)) for limit in wanted} == wanted


@pytest.mark.usefixtures("topics")
async def test_the_description_of_a_topic(broker: Broker, raw: Raw) -> None:
    (topic,) = (await page(raw, "b")).topics
    found = broker.topics.get("b")
    assert found is not None
    assert (topic.error_code, topic.name, topic.topic_id, topic.is_internal) == (0, "b", found.id, False)
    assert topic.topic_authorized_operations == 3576
    (partition,) = topic.partitions
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (
        0,
        1,
        found.partitions[0].leader_epoch,
    )
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([1], [1], [])
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])


@pytest.mark.usefixtures("topics")
async def test_unknown_topics_take_no_room(raw: Raw) -> None:
    response = await page(raw, "*", "nobody", "a", "__consumer_offsets", limit=3)
    codes = {topic.name: topic.error_code for topic in response.topics}
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == {"__consumer_offsets": unknown, "a": 0, "*": ErrorCode.INVALID_TOPIC_EXCEPTION}
    assert [topic.is_internal for topic in response.topics] == [False, True, False]
    assert next_of(response) == ("nobody", 0)
    assert places(await page(raw, "nobody", "a", limit=3, cursor=("nobody", 0))) == []


@pytest.mark.usefixtures("topics")
async def test_an_invalid_cursor(raw: Raw) -> None:
    for cursor in (("a", -1), ("aa", 0), ("zzz", 0), ("", 0)):
        response = await page(raw, "b", "a", "b", cursor=cursor)
        assert [(each.name, each.error_code) for each in response.topics] == [("b", 42), ("a", 42), ("b", 42)]
        assert response.next_cursor is None


@pytest.mark.usefixtures("topics")
async def test_a_cursor_behind_a_topics_end_goes_on_with_the_next(raw: Raw) -> None:
    for index in (3, 99, 2**31 - 1):
        assert places(await page(raw, "a", "b", cursor=("a", index))) == [("b", 0)]
    assert places(await page(raw, cursor=("bb", 0))) == ALL[4:]


@pytest.mark.usefixtures("topics")
async def test_a_bad_cursor_over_all_topics_gets_no_answer(raw: Raw) -> None:
    raw.send(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, DescribeTopicPartitionsRequest(cursor=Cursor("a", -1)))
    assert await raw.is_closed()


async def test_the_brokers_own_limit_bounds_the_requested_one(config: BrokerConfig) -> None:
    config = replace(config, max_request_partition_size_limit=2)
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", 5)
        assert next_of(await page(raw)) == ("t", 2)
