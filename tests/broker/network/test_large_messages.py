"""Large messages: cut at every level, joined again, and encoded in threads of their own."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.broker import Broker
from odradek.broker.network import large_messages
from odradek.broker.network.connection import Pending
from odradek.broker.network.connection_memory import ConnectionMemory
from odradek.broker.network.large_messages import AT_ONCE, LargeMessages
from odradek.broker.network.routes import ROUTES
from odradek.broker.threads import DiskThreads
from odradek.broker.timers import Timers
from odradek.protocol import frame
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.schema import Message
from odradek.protocol.shapes.answers import rejecter, rejection
from odradek.protocol.shapes.portions import Shaped, join, portions
from odradek.protocol.shapes.table import lists_in
from odradek.tests.support.brokers.connections import acceptor, connections
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.fakes.clock import FakeClock
from odradek.tests.support.waiting import until

MAX_VALUES = 10
KIB = 1024


@pytest.fixture
async def messages() -> AsyncIterator[LargeMessages]:
    clock = FakeClock()
    timers = Timers(clock)
    threads = DiskThreads(timers, clock)
    yield LargeMessages(threads, ConnectionMemory(-1, clock, timers))
    threads.close()
    async with asyncio.timeout(10):
        while _large_message_threads():
            await asyncio.sleep(0.01)


def cut(request: Shaped, version: int) -> list[Shaped]:
    """The portions of a request."""
    cut = next(route.cut(version) for route in ROUTES if route.key == request.KEY)
    return [each for each, _ in portions(request, cut.lists[0], lambda: MAX_VALUES, cut.weights)]


def answer(request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Return each partition that a request names as its result."""
    groups = [
        OffsetFetchResponseGroup(
            each.group_id,
            [
                OffsetFetchResponseTopics(
                    topic.name, partitions=[OffsetFetchResponsePartitions(at) for at in topic.partition_indexes]
                )
                for topic in each.topics or ()
            ],
        )
        for each in request.groups
    ]
    return OffsetFetchResponse(groups=groups)


def values_of(request: OffsetFetchRequest) -> int:
    return sum(1 + sum(1 + len(topic.partition_indexes) for topic in each.topics or ()) for each in request.groups)


@given(st.lists(st.lists(st.integers(0, 25), max_size=5), max_size=6))
def test_partitions_in_topics_in_groups_are_cut_and_joined(shape: list[list[int]]) -> None:
    groups = [
        OffsetFetchRequestGroup(
            f"g{number}",
            topics=[
                OffsetFetchRequestTopics(f"t{at}", partition_indexes=list(range(count)))
                for at, count in enumerate(counts)
            ],
        )
        for number, counts in enumerate(shape)
    ]
    request = OffsetFetchRequest(groups=groups)
    first, *rest = cut(request, 8)
    joined = answer(first)
    for portion in rest:
        join(joined, answer(portion), lists_in(ApiKey.OFFSET_FETCH, 8)[0])
    assert all(values_of(portion) <= MAX_VALUES for portion in (first, *rest))
    assert joined == answer(request)


def test_a_group_without_a_list_of_topics_stays_without_one() -> None:
    groups = [OffsetFetchRequestGroup(f"g{number}", topics=None) for number in range(3)]
    (portion,) = cut(OffsetFetchRequest(groups=groups), 8)
    assert [each.topics for each in portion.groups] == [None, None, None]


def test_batches_are_cut_by_their_bytes() -> None:
    sent = [PartitionProduceData(at, bytes(9 * KIB)) for at in range(6)]
    request = ProduceRequest(topic_data=[TopicProduceData("t", partition_data=sent)])
    found = [[each.index for topic in one.topic_data for each in topic.partition_data] for one in cut(request, 9)]
    assert found == [[at] for at in range(6)]


async def test_the_longest_wait_of_all_portions_is_told(messages: LargeMessages) -> None:
    sent = [PartitionProduceData(at, bytes(9 * KIB)) for at in range(3)]
    request = ProduceRequest(topic_data=[TopicProduceData("t", partition_data=sent)])
    route = next(each for each in ROUTES if each.key is ApiKey.PRODUCE)
    waits_ms = iter([100, 700, 0])
    small = route.cut(9)._replace(max_values=MAX_VALUES)
    response = await messages._in_portions(
        request, small.lists[0], small, lambda portion: ProduceResponse(throttle_time_ms=next(waits_ms))
    )
    assert isinstance(response, ProduceResponse) and response.throttle_time_ms == 700


def _deletion(answers: Iterator[int], asked: list[str]) -> Callable[[Any], Message]:
    """Return what answers OffsetDelete with these errors of the whole, one a portion."""

    def handle(portion: OffsetDeleteRequest) -> OffsetDeleteResponse:
        asked.extend(topic.name for topic in portion.topics)
        if code := next(answers):
            return OffsetDeleteResponse(error_code=code)
        results = [
            OffsetDeleteResponseTopic(
                each.name, [OffsetDeleteResponsePartition(at.partition_index) for at in each.partitions]
            )
            for each in portion.topics
        ]
        return OffsetDeleteResponse(topics=results)

    return handle


@pytest.mark.parametrize("failing", [0, 1, 2])
async def test_a_whole_portion_that_fails_is_told(messages: LargeMessages, failing: int) -> None:
    """A group may move to another broker, or a right be revoked, while portions wait for their turns."""
    topics = [
        OffsetDeleteRequestTopic(f"t{number}", [OffsetDeleteRequestPartition(at) for at in range(MAX_VALUES - 2)])
        for number in range(4)
    ]
    route = next(each for each in ROUTES if each.key is ApiKey.OFFSET_DELETE)
    asked: list[str] = []
    small = route.cut(0)._replace(max_values=MAX_VALUES)
    response: Any = await messages._in_portions(
        OffsetDeleteRequest("g", topics),
        small.lists[0],
        small,
        _deletion(iter([*[0] * failing, int(ErrorCode.NOT_COORDINATOR)]), asked),
    )
    assert asked == [f"t{number}" for number in range(failing + 1)]
    if failing == 0:
        assert (response.error_code, response.topics) == (int(ErrorCode.NOT_COORDINATOR), [])
        return
    assert response.error_code == 0
    found = {each.name: {at.error_code for at in each.partitions} for each in response.topics}
    assert found == {f"t{number}": {int(ErrorCode.NOT_COORDINATOR) if number >= failing else 0} for number in range(4)}
    assert all(len(each.partitions) == MAX_VALUES - 2 for each in response.topics)


async def test_requests_that_are_rejected_leave_nothing_behind(messages: LargeMessages) -> None:
    """A client without rights may send any number of them."""
    route = next(each for each in ROUTES if each.key is ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
    users = [UserName(f"u{number}") for number in range(20)]
    denied = partial(rejection, version=0, code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    small, kept = route.cut(0)._replace(max_values=MAX_VALUES), list[int]()
    for _ in range(2):
        request = DescribeUserScramCredentialsRequest([*users, *users])
        response: Any = await messages.handle_decoded(request, small, denied, lambda response: cast(Any, response))
        assert [each.user for each in response.results] == [each.name for each in users]
        kept.append(rejecter.cache_info().currsize)
    assert kept[0] == kept[1]


async def test_portions_that_wait_leave_their_places_to_the_requests_of_others(
    messages: LargeMessages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a Produce whose followers hang, for as long as its client likes."""
    monkeypatch.setattr(large_messages, "_KEPT_S", 0.01)
    cut = next(each for each in ROUTES if each.key is ApiKey.METADATA).cut(12)
    waiting: list[asyncio.Future[Message]] = []

    def wait(_: Message) -> asyncio.Future[Message]:
        waiting.append(asyncio.get_running_loop().create_future())
        return waiting[-1]

    def ask(handle: Callable[[Message], Any]) -> asyncio.Task[Any]:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        return asyncio.ensure_future(messages.handle(lambda: request, cut, handle, lambda _: None))

    async with asyncio.timeout(20):
        slow = [ask(wait) for _ in range(AT_ONCE)]
        assert await ask(lambda _: MetadataResponse()) is None
        slow.pop().cancel()
        waiting[0].set_result(MetadataResponse())
        assert await slow.pop() is None
        await until(lambda: messages._requests._value >= AT_ONCE)
    assert messages._requests._value == AT_ONCE and waiting[1].cancelled()


async def test_a_large_request_goes_on_although_its_client_closes(broker: Broker, raw: Raw) -> None:
    await raw.create_topic("t")
    data = [PartitionProduceData(number, batch_of(b"v")) for number in range(5_000)]
    request = ProduceRequest(acks=0, timeout_ms=1_000, topic_data=[TopicProduceData("t", partition_data=data)])
    async with await Raw.connect(broker.address) as producer:
        producer.send(ApiKey.PRODUCE, 9, request)
        await until(lambda: any(each.waits for each in connections(broker)))
    await until(lambda: not any(each.waits for each in connections(broker)))
    assert broker.topics.get("t").partitions[0].log.log_end_offset == 1


async def test_a_large_request_that_waits_ends_with_its_client(broker: Broker, raw: Raw) -> None:
    """A Fetch may wait for days, and its connection would count for as long."""
    await raw.create_topic("t")
    topic = FetchTopic("t", partitions=[FetchPartition(0, partition_max_bytes=1)] * 2_000)
    request = FetchRequest(max_wait_ms=2**31 - 1, min_bytes=1, topics=[topic])
    async with await Raw.connect(broker.address) as consumer:
        consumer.send(ApiKey.FETCH, 12, request)
        await until(lambda: len(broker.services.purgatory) > 0)
    await until(lambda: len(connections(broker)) == 1)
    assert len(broker.services.purgatory) == 0


class _NoExecutor(ThreadPoolExecutor):
    """The executor that a loop has for those who name none."""

    def submit(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("the loop's default executor has other work, and no bound")


async def test_large_messages_have_threads_of_their_own(broker: Broker, raw: Raw) -> None:
    asyncio.get_running_loop().set_default_executor(_NoExecutor())
    topics = [MetadataRequestTopic(name=f"n{number}") for number in range(5_000)]
    request: Message = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    response = await raw.ask(ApiKey.METADATA, 12, request)
    assert len(response.topics) == len(topics)
    assert 1 <= _large_message_threads() <= 2


async def test_a_connection_that_breaks_before_its_large_request_begins_leaves_no_coroutine(broker: Broker) -> None:
    waiting: list[asyncio.Future[Any]] = []

    def cancelled(dispatch: Any, connection: Any, data: memoryview) -> Any:
        pending = dispatch(connection, data)
        if isinstance(pending, Pending):
            waiting.append(pending.future)
            pending.future.cancel()
        return pending

    for each in acceptor(broker).processors:
        each.dispatch = partial(cancelled, each.dispatch)
    topics = [MetadataRequestTopic(name=f"n{number}") for number in range(5_000)]
    async with await Raw.connect(broker.address) as raw:
        raw.send_bytes(b"".join(map(bytes, frame.encode_request(ApiKey.METADATA, 12, 1, "t", MetadataRequest(topics)))))
        await until(lambda: bool(waiting) and waiting[0].cancelled())
    with warnings.catch_warnings(record=True) as said:
        waiting.clear()
        gc.collect()
    assert not said


def _large_message_threads() -> int:
    return sum(each.name.startswith("odradek-large-message") for each in threading.enumerate())
