"""What a client may not see is left out of long answers in slices: each topic of a group is a step."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from odradek.broker.network.access import groups
from odradek.broker.network.access.caller import Caller
from odradek.broker.turns import LargeResponse
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)
from odradek.protocol.schema import Message

TOPICS = [f"t{number}" for number in range(1_000)]


def caller(key: ApiKey, version: int) -> Caller:
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
