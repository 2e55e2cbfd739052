"""Regular expressions of consumer groups: what has them matched again, and what is written of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from odradek.broker.coordination.consumer import regexes
from odradek.broker.coordination.consumer.state import ConsumerGroup
from odradek.broker.coordination.modern import target
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.tests.broker.coordination.classic.world import FakeContext, World

REGEX_KEY = b"\x00\x10"


@dataclass
class Group:
    """A group of one member, which subscribes topics that begin with `o`."""

    world: World
    hidden: frozenset[str] = frozenset()
    acl_changes: int = 0
    epoch: int = 0
    pattern: str = "o.*"

    def ask(self, topics: list[str] | None = None) -> Any:
        """Return the answer to a heartbeat, or a future of it."""
        request = ConsumerGroupHeartbeatRequest("g", "m", self.epoch)
        if self.epoch == 0:
            request.rebalance_timeout_ms, request.subscribed_topic_regex, request.topic_partitions = 1, self.pattern, []
            request.subscribed_topic_names = topics
        context = FakeContext(1, hidden=self.hidden, acl_changes=self.acl_changes)
        return self.world.groups.consumer_heartbeat(context, request)

    def beat(self) -> Any:
        response = self.ask()
        if not response.error_code:
            self.epoch = response.member_epoch
        return response

    @property
    def body(self) -> ConsumerGroup:
        body = self.world.groups.groups["g"].state.consumer
        assert body is not None
        return body

    @property
    def topics(self) -> Mapping[str, list[str]]:
        return {regex: sorted(each.topics) for regex, each in self.body.regexes.items()}

    def records(self) -> int:
        """Return how many records of regular expressions the log has."""
        entries = self.world.log.partitions[self.world.groups.shards.partition_of("g")]
        return sum(entry[0].startswith(REGEX_KEY) for entry in entries if isinstance(entry, tuple))


@pytest.fixture
async def group() -> Group:
    world = World()
    world.groups.start()
    world.topics.add("orders", 2)
    group = Group(world)
    group.beat()
    assert group.topics == {"o.*": ["orders"]}
    return group


async def test_a_topic_that_was_made_while_another_process_counted_changes_is_found(group: Group) -> None:
    changes = group.world.topics.change_count
    group.world = group.world.restarted()
    group.world.topics.add("orders", 2)
    group.world.topics.add("others", 1)
    # This process counts as many changes as the one before.
    group.world.topics.change_count = changes
    group.beat()
    assert group.topics == {"o.*": ["orders", "others"]}


async def test_a_right_that_is_granted_or_revoked_later_reaches_the_group(group: Group) -> None:
    group.world.topics.add("others", 1)
    group.hidden, group.acl_changes = frozenset(["others"]), 1
    group.beat()
    assert group.topics == {"o.*": ["orders"]}
    group.hidden, group.acl_changes = frozenset(), 2
    epoch = group.body.epoch
    group.beat()
    assert group.topics == {"o.*": ["orders", "others"]} and group.body.epoch > epoch
    group.hidden, group.acl_changes = frozenset(["orders"]), 3
    group.beat()
    assert group.topics == {"o.*": ["others"]}


async def test_all_are_matched_again_after_the_refresh_interval(group: Group) -> None:
    # What a member may see can change without an ACL: it is another member, or a superuser no more.
    group.hidden = frozenset(["orders"])
    group.world.wait(40_000)
    group.beat()
    assert group.topics == {"o.*": ["orders"]}
    for _ in range(20):
        group.world.wait(30_000)
        group.beat()
    assert group.topics == {"o.*": []}


async def test_what_matches_the_same_topics_is_not_written_again(group: Group) -> None:
    before, epoch = group.records(), group.body.epoch
    for name in ("a", "b"):
        group.world.topics.add(name, 1)
        group.beat()
    assert (group.records(), group.body.epoch) == (before, epoch)


async def test_only_new_topics_are_tried_and_deleted_ones_go(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[frozenset[str]] = []
    matched = regexes.Matching._matched

    def count(self: regexes.Matching, regex: str, names: frozenset[str]) -> frozenset[str]:
        tried.append(names)
        return matched(self, regex, names)

    monkeypatch.setattr(regexes.Matching, "_matched", count)
    group.world.topics.add("oak", 1)
    group.beat()
    assert tried == [{"oak"}] and group.topics == {"o.*": ["oak", "orders"]}
    group.world.topics.topics = [each for each in group.world.topics.topics if each.name != "orders"]
    group.world.topics.change_count += 1
    group.beat()
    assert group.topics == {"o.*": ["oak"]}


async def test_what_could_not_be_written_is_matched_again(group: Group) -> None:
    group.beat()
    group.world.topics.add("oak", 1)
    group.world.log.hold = True
    group.beat()
    while group.world.log.held:
        group.world.log.answer(KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "a test's disk is full"))
    assert group.topics == {"o.*": ["orders"]}
    group.world.log.hold = False
    group.beat()
    assert group.topics == {"o.*": ["oak", "orders"]}


async def test_many_names_are_written_in_several_turns(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regexes, "NAMES_PER_TURN", 1)
    for number in range(3):
        other = Group(group.world, pattern=f"(o|{number}).*")
        request = ConsumerGroupHeartbeatRequest("g", f"m{number}", 0)
        request.rebalance_timeout_ms, request.subscribed_topic_regex, request.topic_partitions = 1, other.pattern, []
        group.world.groups.consumer_heartbeat(FakeContext(1), request)
    group.world.topics.add("oak", 1)
    body = group.body
    matching = regexes.Matching(
        body, list(body.regex_subscribers), body.matched["o.*"]._replace(names=frozenset(["oak", "orders"])), 0
    )
    matching.work()
    events = list(matching.events())
    assert [len(each.found) for each in events] == [1] * 4
    assert [each.tried is None for each in events] == [True, True, True, False]
    epoch = body.epoch
    for event in events:
        group.world.groups.groups["g"].feed(event)
    assert set(map(tuple, group.topics.values())) == {("oak", "orders")} and body.epoch == epoch + 1


async def test_a_first_pattern_is_matched_once_the_log_has_it() -> None:
    world = World()
    world.groups.start()
    world.topics.add("orders", 2)
    world.log.hold = True
    group = Group(world)
    answer = group.ask()
    while world.log.held:
        world.log.answer()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert answer.result().error_code == 0
    # The next heartbeat, some seconds later, brings the partitions.
    assert group.topics == {"o.*": ["orders"]}


async def test_a_large_target_is_computed_once_the_log_has_what_it_is_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "MAX_AT_ONCE", 1)
    world = World()
    world.groups.start()
    world.topics.add("orders", 2)
    world.log.hold = True
    group = Group(world, pattern="")
    group.ask(topics=["orders"])
    while world.log.held:
        world.log.answer()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert len(group.body.members["m"].target) == 2


async def test_a_new_expression_that_matches_nothing_leaves_the_groups_epoch(group: Group) -> None:
    group.epoch, group.pattern, epoch = 0, "x.*", group.body.epoch
    group.beat()
    # The topics of the old expression are gone, and the new one has none: as Kafka 4.4.0, one step and not two.
    assert group.topics == {"x.*": []} and group.body.epoch == epoch + 1
