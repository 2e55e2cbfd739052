"""What a client may not see is left out of long answers in slices, and long requests are asked about in slices."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from odradek.broker.network.access import groups, transactions
from odradek.broker.network.access.caller import Caller
from odradek.broker.turns import LargeResponse
from odradek.protocol.apis import AnyKey, ApiKey, OwnApiKey
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
)
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.odradek_end_query_batch import OdradekEndQueryBatchRequest, Participant
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)
from odradek.protocol.schema import Message
from odradek.tests.support.brokers.slices import end_slices_after

TOPICS = [f"t{number}" for number in range(1_000)]


def caller(key: AnyKey, version: int) -> Caller:
    """One who may describe all groups, and every second topic."""
    found = SimpleNamespace(
        api_key=int(key),
        api_version=version,
        may=lambda operation, resource_type, name, **_: not name.startswith("t") or int(name[1:]) % 2 == 0,
        operations=lambda *_: 0,
    )
    return cast(Caller, found)


def steps(access: Any, asking: Caller, request: Message, response: Message) -> int:
    """Return how many steps it takes to answer, of a handler that leaves its response to the slices."""
    result = access.check(asking, request, lambda _: LargeResponse(response, iter(())))
    assert isinstance(result, LargeResponse)
    return sum(1 for _ in result.steps)


def heartbeat(names: list[str]) -> Message:
    return ConsumerGroupHeartbeatRequest(group_id="g", subscribed_topic_names=names)


def addition(names: list[str]) -> Message:
    topics = [AddPartitionsToTxnTopic(each, [0]) for each in names]
    return AddPartitionsToTxnRequest(v3_and_below_transactional_id="x", v3_and_below_topics=topics)


def query_end(names: list[str]) -> Message:
    return OdradekEndQueryBatchRequest(query_id="q", participants=[Participant(each) for each in names])


@pytest.mark.parametrize("version", [7, 8])
def test_offsets_of_hidden_topics_are_left_out_in_steps(version: int) -> None:
    topics = [OffsetFetchResponseTopics(each) for each in TOPICS]
    if version < 8:
        request, response = OffsetFetchRequest("g", topics=None), OffsetFetchResponse(topics=topics)
    else:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)])
        response = OffsetFetchResponse(groups=[OffsetFetchResponseGroup("g", topics)])
    assert steps(groups.fetch_offsets, caller(ApiKey.OFFSET_FETCH, version), request, response) >= len(TOPICS)
    left = response.topics if version < 8 else response.groups[0].topics
    assert len(left) == len(TOPICS) / 2


def test_the_topics_of_one_member_are_asked_about_in_steps() -> None:
    seen = [each for each in TOPICS if int(each[1:]) % 2 == 0]
    member = Member(subscribed_topic_names=seen, assignment=Assignment(), target_assignment=Assignment())
    response = ConsumerGroupDescribeResponse(groups=[DescribedGroup(group_id="g", members=[member])])
    request = ConsumerGroupDescribeRequest(["g"])
    asking = caller(ApiKey.CONSUMER_GROUP_DESCRIBE, 1)
    assert steps(groups.describe_members, asking, request, response) >= len(seen)
    assert response.groups[0].members == [member]
    member.subscribed_topic_names.append("t1")
    steps(groups.describe_members, asking, request, response)
    assert response.groups[0].members == []


@pytest.mark.parametrize(
    ("access", "key", "version", "request_of"),
    [
        (groups.consumer_member, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, heartbeat),
        (transactions.add_partitions, ApiKey.ADD_PARTITIONS_TO_TXN, 3, addition),
        (transactions.end_query_batch, OwnApiKey.ODRADEK_END_QUERY_BATCH, 0, query_end),
    ],
)
async def test_a_request_that_is_denied_as_a_whole_is_asked_about_in_slices(
    access: Any, key: AnyKey, version: int, request_of: Callable[[list[str]], Message]
) -> None:
    end_slices_after(100)
    asked: list[Message] = []
    seen = [each for each in TOPICS if int(each[1:]) % 2 == 0]

    def proceed(request: Message) -> str:
        asked.append(request)
        return "done"

    answer = access.check(caller(key, version), request_of(seen), proceed)
    assert isinstance(answer, asyncio.Future) and not asked
    assert await answer == "done" and len(asked) == 1
    assert access.check(caller(key, version), request_of(seen[:2]), proceed) == "done"
