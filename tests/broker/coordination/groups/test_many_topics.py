"""Groups whose members subscribe very many topics: no turn looks at the subscription of each member."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from odradek.broker.coordination.groups.actor import MANY_TOPICS
from odradek.broker.coordination.modern import target
from odradek.broker.coordination.modern.events import Beat
from odradek.broker.coordination.modern.responses import heartbeat_response
from odradek.broker.coordination.modern.state import ModernGroup
from odradek.broker.turns import VALUES_AT_ONCE, LargeResponse
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages import consumer_group_heartbeat
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from odradek.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from odradek.tests.broker.coordination.classic.world import FakeContext, World
from odradek.tests.support.brokers.large_state import consumer, sharer
from odradek.tests.support.brokers.slices import end_slices_after

MEMBERS = 10
# None of them exists, so the members have no partitions.
TOPICS = [f"no-topic-{at}" for at in range(250)]


class Unread(list[str]):
    """The topics of a member, which nobody may walk over."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("the topics of a member were looked at")


class Kind:
    """A group of consumers or of sharers at a coordinator among fakes."""

    def __init__(self, name: str) -> None:
        self.world = World()
        # What a real broker does in a thread: targets, and long steps.
        self.put_off: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self.world.aside = self.world.steps_aside = self._put_off
        self.world.groups.start()
        self._is_share = name == "share"

    def _put_off(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        self.put_off.append((work, done))

    def do(self) -> None:
        """Do what was put off last."""
        work, done = self.put_off.pop()
        work()
        done()

    def begin(self, member_id: str, topics: list[str] | None, epoch: int = 0) -> Any:
        """Return the answer to a heartbeat, or a future of it."""
        request: Any = (sharer if self._is_share else consumer)(member_id, topics, "g")
        request.member_epoch = epoch
        groups = self.world.groups
        return (groups.share.heartbeat if self._is_share else groups.consumer_heartbeat)(FakeContext(1), request)

    def beat(self, member_id: str, topics: list[str] | None, epoch: int = 0) -> None:
        response = self.begin(member_id, topics, epoch)
        assert response.error_code == ErrorCode.NONE, response

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
async def steps(request: pytest.FixtureRequest) -> Kind:
    """A group without members."""
    return Kind(request.param)


@pytest.fixture
async def kind(steps: Kind, monkeypatch: pytest.MonkeyPatch) -> Kind:
    """A group whose target is too large for a turn."""
    kind = steps
    monkeypatch.setattr(target, "MAX_AT_ONCE", MEMBERS + MEMBERS * len(TOPICS) // target.NAMES_EACH - 1)
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
    kind.do()
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


MANY = [f"topic-{at}" for at in range(MANY_TOPICS + 1)]


async def test_a_heartbeat_of_very_many_topics_is_a_step_in_a_thread_and_others_wait(steps: Kind) -> None:
    first, second = steps.begin("m1", MANY), steps.begin("m2", MANY[:1])
    assert not first.done() and not second.done() and not steps.world.log.partitions
    steps.do()
    assert first.result().error_code == second.result().error_code == ErrorCode.NONE
    assert steps.body.members.keys() == {"m1", "m2"}
    # Whatever it says: its target is as large as before.
    steps.world.wait(1000)
    assert not steps.begin("m1", MANY).done()


async def test_what_a_large_step_has_written_takes_effect_in_turns(steps: Kind) -> None:
    answer = steps.begin("m1", MANY)
    end_slices_after(1)
    steps.do()
    assert steps.world.log.partitions and not answer.done()
    waits = steps.begin("m2", MANY[:1])
    assert (await answer).error_code == (await waits).error_code == ErrorCode.NONE


async def test_a_group_that_moves_beside_a_large_step_sends_its_member_on(steps: Kind) -> None:
    answer = steps.begin("m1", MANY)
    steps.world.groups.stop()
    steps.do()
    assert answer.result().error_code == ErrorCode.NOT_COORDINATOR and not steps.world.log.partitions


async def test_a_large_step_that_fails_is_an_error_of_its_request_alone(steps: Kind) -> None:
    answer = steps.begin("m1", MANY)
    _, done = steps.put_off.pop()
    done()
    assert answer.result().error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert steps.begin("m2", MANY[:1]).error_code == ErrorCode.NONE


async def test_an_assignment_of_very_many_topics_is_listed_in_turns() -> None:
    places = tuple((at.to_bytes(16, "big"), index) for at in range(VALUES_AT_ONCE) for index in (0, 1))
    respond = heartbeat_response(consumer_group_heartbeat, ConsumerGroupHeartbeatResponse, 5_000)
    large = respond(Beat("m", 1, places))
    assert isinstance(large, LargeResponse) and sum(1 for _ in large.steps) == VALUES_AT_ONCE
    assert large.response.assignment is not None
    assert [each.partitions for each in large.response.assignment.topic_partitions] == [[0, 1]] * VALUES_AT_ONCE
