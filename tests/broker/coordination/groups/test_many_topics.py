"""Groups whose members subscribe very many topics: no turn looks at the subscription of each member."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from odradek.broker.coordination.modern.state import ModernGroup
from odradek.broker.turns import LargeResponse
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from odradek.tests.broker.coordination.classic.world import FakeContext, World
from odradek.tests.support.brokers.large_state import consumer, sharer

MEMBERS = 100
# None of them exists, so the members have no partitions.
TOPICS = [f"no-topic-{at}" for at in range(1_000)]


class Unread(list[str]):
    """The topics of a member, which nobody may walk over."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("the topics of a member were looked at")


class Kind:
    """A group of consumers or of sharers at a coordinator among fakes."""

    def __init__(self, name: str) -> None:
        self.world = World()
        # What a real broker does in a thread.
        self.put_off: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self.world.aside = self._put_off
        self.world.groups.start()
        self._is_share = name == "share"

    def _put_off(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        self.put_off.append((work, done))

    def beat(self, member_id: str, topics: list[str] | None, epoch: int = 0) -> Any:
        request: Any = (sharer if self._is_share else consumer)(member_id, topics, "g")
        request.member_epoch = epoch
        groups = self.world.groups
        response: Any = (groups.share.heartbeat if self._is_share else groups.consumer_heartbeat)(
            FakeContext(1), request
        )
        assert response.error_code == ErrorCode.NONE, response
        return response

    def describe(self) -> Any:
        if self._is_share:
            return self.world.groups.share.describe(FakeContext(1), ShareGroupDescribeRequest(["g"]))
        return self.world.groups.describe_consumers(FakeContext(1), ConsumerGroupDescribeRequest(["g"]))

    @property
    def body(self) -> ModernGroup[Any]:
        state = self.world.groups.groups["g"].state
        body = state.share if self._is_share else state.consumer
        assert body is not None
        return body

    def hide_topics(self) -> None:
        for member in self.body.members.values():
            member.said.subscribed_topic_names = Unread(member.said.subscribed_topic_names)


@pytest.fixture(params=["consumer", "share"])
async def kind(request: pytest.FixtureRequest) -> Kind:
    kind = Kind(request.param)
    for at in range(MEMBERS):
        kind.beat(f"m{at}", TOPICS)
    return kind


async def test_a_description_with_very_many_topics_is_made_in_turns(kind: Kind) -> None:
    large: LargeResponse[Any] = kind.describe()
    assert large.__class__ is LargeResponse
    assert sum(1 for _ in large.steps) == MEMBERS
    members = large.response.groups[0].members
    assert [len(member.subscribed_topic_names) for member in members] == [len(TOPICS)] * MEMBERS


async def test_a_member_without_a_pattern_is_described_with_an_empty_one() -> None:
    kind = Kind("consumer")
    kind.beat("m", TOPICS[:1])
    assert [each.subscribed_topic_regex for each in kind.describe().groups[0].members] == [""]


async def test_a_target_looks_at_the_topics_of_members_in_a_thread_alone(kind: Kind) -> None:
    kind.world.wait(1000)
    kind.world.topics.add(TOPICS[0], 3)
    hidden = {name: list(member.said.subscribed_topic_names) for name, member in kind.body.members.items()}
    kind.hide_topics()
    kind.beat("new", TOPICS)
    assert len(kind.put_off) == 1
    for name, topics in hidden.items():
        kind.body.members[name].said.subscribed_topic_names = topics
    work, done = kind.put_off.pop()
    work()
    done()
    assert kind.body.assignment_epoch == kind.body.epoch


async def test_a_member_that_leaves_has_nobody_look_at_the_topics_of_the_others(kind: Kind) -> None:
    only = "of-one"
    kind.world.topics.add(only, 3)
    kind.beat("one", [*TOPICS, only])
    subscribed, before = set(kind.body.topic_subscribers), kind.body.metadata_hash
    topics = kind.body.members["one"].said.subscribed_topic_names
    kind.hide_topics()
    kind.body.members["one"].said.subscribed_topic_names = topics
    kind.beat("one", None, epoch=-1)
    assert set(kind.body.topic_subscribers) == subscribed - {only}
    assert before != kind.body.metadata_hash == 0
