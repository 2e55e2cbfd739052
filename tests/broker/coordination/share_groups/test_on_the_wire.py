"""Share groups on the wire (76, 77, 90 to 92): a running Kafka 4.3.1 answered the same, but where a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.coordination.share_states.share_state import ShareKey
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages import alter_share_group_offsets as alter_api
from odradek.protocol.messages import delete_share_group_offsets as delete_api
from odradek.protocol.messages import describe_share_group_offsets as offsets_api
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from odradek.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from odradek.tests.broker.coordination.classic.world import FakeContext
from odradek.tests.broker.coordination.groups import wire_requests
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.clients.share_member import ACCEPT, ShareMember, acquired, data_of
from odradek.tests.support.fakes.clock import FakeClock
from odradek.tests.support.waiting import until


@dataclass
class Shares:
    """A broker with topics t (2 partitions) and u (3), a client of it, and their clock."""

    broker: Broker
    raw: Raw
    clock: FakeClock

    async def beat(self, member: str, epoch: int = 0, topics: list[str] | None = None, group: str = "g") -> Any:
        """A heartbeat; with epoch 0 the member joins, for topic t unless others are named."""
        topics = ["t"] if topics is None and epoch == 0 else topics
        request = ShareGroupHeartbeatRequest(group, member, epoch, None, topics)
        return await self.raw.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, request)

    async def settle(self, member: str, epoch: int, group: str = "g") -> Any:
        """Send heartbeats until the member has heard no news for a while. Return the last news."""
        news = response = await self.beat(member, epoch, group=group)
        for _ in range(6):
            self.pass_ms(1000)
            response = await self.beat(member, response.member_epoch, group=group)
            assert response.error_code == 0, response
            if response.assignment is not None:
                news = response
        news.member_epoch = response.member_epoch
        return news

    def pass_ms(self, time_ms: int) -> None:
        self.clock.advance(time_ms)
        self.broker.timers.fire_due()

    async def described(self, group: str = "g") -> Any:
        response = await self.raw.ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, ShareGroupDescribeRequest([group]))
        return response.groups[0]

    async def offsets(self, group: str = "g", topics: list[tuple[str, list[int]]] | None = None) -> Any:
        """{(topic, partition): (start offset, lag)} of a group."""
        named = (
            None if topics is None else [offsets_api.DescribeShareGroupOffsetsRequestTopic(*each) for each in topics]
        )
        request = offsets_api.DescribeShareGroupOffsetsRequest(
            [offsets_api.DescribeShareGroupOffsetsRequestGroup(group, named)]
        )
        (found,) = (await self.raw.ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, request)).groups
        assert found.error_code == 0
        return {
            (topic.topic_name, each.partition_index): (each.start_offset, each.lag)
            for topic in found.topics
            for each in topic.partitions
        }

    async def alter(self, starts: dict[str, dict[int, int]], group: str = "g") -> Any:
        topics = [
            alter_api.AlterShareGroupOffsetsRequestTopic(
                name, [alter_api.AlterShareGroupOffsetsRequestPartition(*each) for each in starts.items()]
            )
            for name, starts in starts.items()
        ]
        request = alter_api.AlterShareGroupOffsetsRequest(group, topics)
        return await self.raw.ask(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, request)

    async def forget(self, *topics: str, group: str = "g") -> Any:
        named = [delete_api.DeleteShareGroupOffsetsRequestTopic(each) for each in topics]
        request = delete_api.DeleteShareGroupOffsetsRequest(group, named)
        return await self.raw.ask(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, request)

    async def delete(self, group: str = "g") -> int:
        return (await wire_requests.delete_groups(self.raw, group))[group]

    def id_of(self, name: str) -> bytes:
        topic = self.broker.topics.get(name)
        assert topic is not None
        return topic.id


async def begin(broker: Broker, raw: Raw, clock: FakeClock) -> Shares:
    for name, partitions in (("t", 2), ("u", 3)):
        if broker.topics.get(name) is None:
            await raw.create_topic(name, partitions)
    await raw.ask(ApiKey.FIND_COORDINATOR, 6, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
    return Shares(broker, raw, clock)


@pytest.fixture
async def shares(config: BrokerConfig) -> AsyncIterator[Shares]:
    clock = FakeClock()
    async with Broker(replace(config, connections_max_idle_ms=-1), clock=clock) as broker:
        async with await Raw.connect(broker.address) as raw:
            yield await begin(broker, raw, clock)


def assigned(response: Any) -> dict[bytes, list[int]] | None:
    if response.assignment is None:
        return None
    return {each.topic_id: each.partitions for each in response.assignment.topic_partitions}


# -- Heartbeats


async def test_a_member_gets_its_partitions_once_they_are_ready(shares: Shares) -> None:
    joined = await shares.beat("m1", topics=["t", "nope"])
    assert (joined.member_epoch, assigned(joined), joined.heartbeat_interval_ms) == (2, {}, 5000)
    second = await shares.beat("m1", 2)
    assert (second.member_epoch, second.assignment) == (2, None)
    group = shares.broker.services.groups.groups["g"].state
    await until(lambda: group.share is not None and bool(group.share.initialized))
    shares.pass_ms(1000)
    third = await shares.beat("m1", 2)
    assert (third.member_epoch, assigned(third)) == (3, {shares.id_of("t"): [0, 1]})
    assert (await shares.beat("m1", 3)).assignment is None
    described = await shares.described()
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Stable", 3, 3)
    (member,) = described.members
    assert (member.member_id, member.member_epoch, member.subscribed_topic_names) == ("m1", 3, ["nope", "t"])
    assert [(each.topic_name, each.partitions) for each in member.assignment.topic_partitions] == [("t", [0, 1])]
    assert described.assignor_name == "simple"
    # The group is complete: no heartbeat raises its epoch any more.
    assert (await shares.settle("m1", 3)).member_epoch == 3


async def test_members_whose_heartbeats_come_together_have_states_begun_once(
    shares: Shares, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[ShareKey] = []
    persister = shares.broker.services.coordinators.persister
    read_summary = persister.read_summary

    async def counted(key: ShareKey) -> Any:
        asked.append(key)
        return await read_summary(key)

    monkeypatch.setattr(persister, "read_summary", counted)
    group = shares.broker.services.groups.share
    for member in ("m1", "m2", "m3"):
        group.heartbeat(FakeContext(1), ShareGroupHeartbeatRequest("g", member, 0, None, ["t"]))
    await shares.settle("m1", 1)
    assert sorted(asked) == [ShareKey("g", shares.id_of("t"), index) for index in (0, 1)]


async def test_an_invalid_heartbeat_changes_nothing(shares: Shares) -> None:
    no_topics = "SubscribedTopicNames must be set in first request."
    for fields, why in (
        (("", "m", 0, None, ["t"]), "GroupId can't be empty."),
        ((" \0", "m", 0, None, ["t"]), "GroupId can't be empty."),
        (("g", "", 0, None, ["t"]), None),
        (("g", "x" * 37, 0, None, ["t"]), None),
        (("g", "m", 0, None, None), no_topics),
        (("g", "m", 0, None, []), no_topics),
        (("g", "m", -2, None, ["t"]), "MemberEpoch is invalid."),
        (("g", "m", 0, "", ["t"]), "RackId can't be empty."),
    ):
        response = await shares.raw.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, ShareGroupHeartbeatRequest(*fields))
        assert (response.error_code, response.error_message) == (ErrorCode.INVALID_REQUEST, why), fields
    assert shares.broker.services.groups.groups == {}
    wide = ShareGroupHeartbeatRequest("g", "m", 0, "\u3000", ["t"])
    assert (await shares.raw.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, wide)).error_code == 0


async def test_epochs_of_the_past_and_the_future_are_fenced(shares: Shares) -> None:
    missing = await shares.beat("m", 1)
    assert (missing.error_code, missing.error_message) == (69, "Share group g not found.")
    assert (await shares.beat("m", -1)).error_message == "Group g not found."
    await shares.beat("m1")
    settled = await shares.settle("m1", 2)
    assert settled.member_epoch == 3
    ahead, behind = await shares.beat("m1", 9), await shares.beat("m1", 1)
    assert ahead.error_code == behind.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert ahead.error_message == (
        "The share group member has a greater member epoch (9) than the one known by the group coordinator (3). "
        "The member must abandon all its partitions and rejoin."
    )
    assert behind.error_message == (
        "The share group member has a smaller member epoch (1) than the one known by the group coordinator (3), "
        "and it does not match the previous member epoch (2). The member must abandon all its partitions and rejoin."
    )
    # The answer before may have been lost, and a member may always begin again.
    assert (await shares.beat("m1", 2)).member_epoch == 3
    assert assigned(await shares.beat("m1", 0)) == {shares.id_of("t"): [0, 1]}
    unknown = await shares.beat("zz", 3)
    assert (unknown.error_code, unknown.error_message) == (25, "Member zz is not a member of group g.")


async def test_members_share_partitions_where_they_are_more(shares: Shares) -> None:
    for member in ("m1", "m2", "m3"):
        assert (await shares.beat(member)).error_code == 0
    news = {member: await shares.settle(member, 0 if member != "m1" else 2) for member in ("m1", "m2", "m3")}
    shares.pass_ms(1000)
    held = [(await shares.beat(member, 0)).assignment.topic_partitions[0].partitions for member in news]
    assert sorted({index for each in held for index in each}) == [0, 1]
    assert all(each for each in held)


async def test_a_full_group_lets_nobody_in(config: BrokerConfig) -> None:
    async with Broker(replace(config, group_share_max_size=1)) as broker, await Raw.connect(broker.address) as raw:
        shares = await begin(broker, raw, FakeClock())
        assert (await shares.beat("m1")).error_code == 0
        second = await shares.beat("m2")
        assert second.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert second.error_message == "The share group has reached its maximum capacity of 1 members."
        assert (await shares.beat("m1")).error_code == 0


async def test_a_silent_member_goes_and_its_partitions_go_to_others(shares: Shares) -> None:
    await shares.beat("m1")
    await shares.settle("m1", 2)
    await shares.beat("m2", topics=["t"])
    shares.pass_ms(44_000)
    second = await shares.beat("m2", 0)
    shares.pass_ms(2_000)
    assert (await shares.beat("m1", 3)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    news = await shares.settle("m2", second.member_epoch)
    assert [each.member_id for each in (await shares.described()).members] == ["m2"]
    assert (await shares.beat("m2", 0)).assignment.topic_partitions[0].partitions == [0, 1], news


async def test_new_partitions_and_deleted_topics_change_the_assignment(shares: Shares) -> None:
    await shares.beat("m1", topics=["t", "u"])
    news = await shares.settle("m1", 2)
    assert assigned(news) == {shares.id_of("t"): [0, 1], shares.id_of("u"): [0, 1, 2]}
    grown = CreatePartitionsRequest([CreatePartitionsTopic("t", 3, None)])
    (created,) = (await shares.raw.ask(ApiKey.CREATE_PARTITIONS, 3, grown)).results
    assert created.error_code == 0
    news = await shares.settle("m1", news.member_epoch)
    assert (assigned(news) or {})[shares.id_of("t")] == [0, 1, 2]
    await shares.raw.delete_topic("u")
    news = await shares.settle("m1", news.member_epoch)
    assert assigned(news) == {shares.id_of("t"): [0, 1, 2]}
    assert list(await shares.offsets()) == [("t", 0), ("t", 1), ("t", 2)]


async def test_a_group_is_there_after_a_restart(config: BrokerConfig) -> None:
    clock = FakeClock()
    async with Broker(config, clock=clock) as broker, await Raw.connect(broker.address) as raw:
        shares = await begin(broker, raw, clock)
        await shares.beat("m1")
        epoch = (await shares.settle("m1", 2)).member_epoch
        # What this group wants is in the log, and its states are not begun.
        await shares.beat("m2", topics=["u"], group="h")
    async with Broker(config, clock=clock) as broker, await Raw.connect(broker.address) as raw:
        shares = await begin(broker, raw, clock)
        assert (await shares.described()).members[0].member_epoch == epoch
        assert (await shares.beat("m1", epoch)).error_code == 0
        assert (assigned(await shares.settle("m2", 2, group="h")) or {}) == {shares.id_of("u"): [0, 1, 2]}
        shares.pass_ms(46_000)
        assert (await shares.described()).members == []


# -- Other kinds of groups


async def test_no_group_of_another_kind_becomes_a_share_group(shares: Shares) -> None:
    raw = shares.raw
    assert await wire_requests.commit(raw, {0: 5}, 8, group_id="simple") == [0]
    consumer = ConsumerGroupHeartbeatRequest("cons", "c1", 0, None, None, 1000, ["t"], topic_partitions=[])
    assert (await raw.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, consumer)).error_code == 0
    for group in ("simple", "cons"):
        why = f"Group {group} is not a share group."
        for epoch in (0, 1, -1):
            response = await shares.beat("s1", epoch, group=group)
            assert (response.error_code, response.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, why)
        assert (await shares.described(group)).error_message == why
        for response in (await shares.alter({"t": {0: 0}}, group), await shares.forget("t", group=group)):
            assert (response.error_code, response.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, why)


async def test_a_share_group_serves_no_other_protocol(shares: Shares) -> None:
    raw = shares.raw
    await shares.beat("m1")
    for member in ("", "m1"):
        assert (await wire_requests.join(raw, member)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert await wire_requests.heartbeat(raw, "m1", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    consumer = ConsumerGroupHeartbeatRequest("g", "c1", 0, None, None, 1000, ["t"], topic_partitions=[])
    response = await raw.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, consumer)
    assert (response.error_code, response.error_message) == (69, "Group g is not a consumer group.")
    described = await raw.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, ConsumerGroupDescribeRequest(["g"]))
    assert described.groups[0].error_message == "Group g is not a consumer group."
    for version, epoch, member in ((8, -1, ""), (9, -1, ""), (9, 2, "m1"), (9, 2, "zz")):
        who = {"generation_id_or_member_epoch": epoch, "member_id": member}
        assert await wire_requests.commit(raw, {0: 5}, version, **who) == [ErrorCode.GROUP_ID_NOT_FOUND]
    assert await wire_requests.delete_offsets(raw, t=[0]) == (ErrorCode.GROUP_ID_NOT_FOUND, {})
    for version, code in ((5, 0), (6, 69)):
        found = await wire_requests.describe(raw, version=version)
        assert (found.group_state, found.error_code) == ("Dead", code)
    assert await wire_requests.list_groups(raw, types=("Share",)) == [("g", "share", "Stable", "share")]
    assert await shares.delete() == ErrorCode.NON_EMPTY_GROUP


# -- Offsets and deletion


async def test_offsets_of_an_empty_group_are_altered_and_deleted(shares: Shares) -> None:
    await shares.raw.produce("t", batch_of(b"a", b"b", b"c", b"d"))
    await shares.beat("m1")
    await shares.settle("m1", 2)
    assert await shares.offsets() == {("t", 0): (-1, -1), ("t", 1): (-1, -1)}
    for response in (await shares.alter({"t": {0: 0}}), await shares.forget("t")):
        assert (response.error_code, response.error_message) == (ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    assert (await shares.beat("m1", -1)).member_epoch == -1
    assert (await shares.described()).group_state == "Empty"
    response = await shares.alter({"t": {0: 3, 9: 1}, "u": {1: 2}, "nope": {0: 0}})
    codes = {
        (topic.topic_name, each.partition_index): each.error_code
        for topic in response.responses
        for each in topic.partitions
    }
    assert codes == {("t", 0): 0, ("t", 9): 3, ("u", 1): 0, ("nope", 0): 3}
    assert await shares.offsets() == {("t", 0): (3, 1), ("t", 1): (-1, -1), ("u", 1): (2, -2)}
    assert await shares.offsets(topics=[("t", [0]), ("u", [0]), ("nope", [0])]) == {
        ("t", 0): (3, 1),
        ("u", 0): (-1, -1),
        ("nope", 0): (-1, -1),
    }
    gone = await shares.forget("u", "nope")
    assert [(each.topic_name, each.error_code) for each in gone.responses] == [("u", 0), ("nope", 3)]
    assert (await shares.forget("u")).responses[0].error_message == "There is no offset information to delete."
    assert await shares.offsets() == {("t", 0): (3, 1), ("t", 1): (-1, -1)}
    # The altered offset stays where the group goes on.
    await shares.beat("m1")
    await shares.settle("m1", 0)
    assert (await shares.offsets())["t", 0] == (3, 1)


async def test_offsets_that_are_altered_again_fence_who_has_read_between(shares: Shares) -> None:
    await shares.raw.produce("t", batch_of(b"a", b"b", b"c", b"d"))
    await shares.alter({"t": {0: 3}})
    reader = ShareMember(shares.raw, "g", "reader", shares.id_of("t"))
    await reader.fetch(0)
    while not (found := acquired(await reader.fetch())):
        pass
    assert found == [(3, 3, 1)]
    assert (await shares.alter({"t": {0: 0}})).error_code == 0
    answer = await reader.acknowledge(0, (3, 3, [ACCEPT]))
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await shares.offsets() == {("t", 0): (0, 4)}
    assert (await shares.described()).group_epoch == 2


async def test_a_group_begins_beyond_the_end_where_an_administrator_says_so(shares: Shares) -> None:
    await shares.raw.produce("t", batch_of(b"a", b"b", b"c"))
    assert (await shares.alter({"t": {0: 5}})).error_code == 0
    reader = ShareMember(shares.raw, "g", "reader", shares.id_of("t"))
    shared, place = shares.broker.services.share_leader.partitions, (shares.id_of("t"), 0)
    for lag in (-2, -1, 0):
        if lag > -2:
            await shares.raw.produce("t", batch_of(b"x"))
        actor = shared.open("g", place, shared.partition(place))
        await actor.settled()
        response = await reader.fetch(*([0] if not reader.epoch else []))
        assert acquired(response) == [] and getattr(data_of(response, 0), "error_code", 0) == 0
        assert await shares.offsets() == {("t", 0): (5, lag)}
        # Another leader, or this one after a restart.
        shared.drop(actor)
    await shares.raw.produce("t", batch_of(b"f", b"g"))
    await shared.open("g", place, shared.partition(place)).settled()
    assert acquired(await reader.fetch()) == [(5, 6, 1)]
    await reader.acknowledge(0, (5, 5, [ACCEPT]))
    # What a log loses now is torn off: the group goes on where it ends.
    kept = await shares.broker.services.coordinators.persister.read(ShareKey("g", *place), 0)
    assert not kept.is_chosen


async def test_requests_that_waited_for_their_turn_learn_that_the_group_has_moved(
    shares: Shares, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = shares.broker.services
    assert (await shares.alter({"t": {0: 1}})).error_code == 0
    begun, may_go_on, initialize = asyncio.Event(), asyncio.Event(), services.coordinators.persister.initialize

    async def held(*arguments: Any) -> None:
        begun.set()
        await may_go_on.wait()
        await initialize(*arguments)

    monkeypatch.setattr(services.coordinators.persister, "initialize", held)
    first = asyncio.ensure_future(shares.alter({"t": {0: 2}}))
    await begun.wait()
    one = alter_api.AlterShareGroupOffsetsRequestPartition(0, 3)
    topics = [alter_api.AlterShareGroupOffsetsRequestTopic("t", [one])]
    context, named = FakeContext(0), [delete_api.DeleteShareGroupOffsetsRequestTopic("t")]
    waiting = [
        asyncio.ensure_future(each)
        for each in (
            services.groups.share.alter_offsets(context, alter_api.AlterShareGroupOffsetsRequest("g", topics)),
            services.groups.share.delete_offsets(context, delete_api.DeleteShareGroupOffsetsRequest("g", named)),
        )
    ]
    await asyncio.sleep(0)
    services.groups.unload(services.groups.shards.partition_of("g"))
    may_go_on.set()
    assert [(await each).error_code for each in waiting] == [ErrorCode.NOT_COORDINATOR] * 2
    assert "g" not in services.groups.groups
    await first


async def test_altering_offsets_makes_a_group(shares: Shares) -> None:
    assert (await shares.alter({"t": {0: 0}}, "")).error_code == ErrorCode.INVALID_GROUP_ID
    assert (await shares.forget("t", group="new")).error_message == "Group new not found."
    assert (await shares.alter({"t": {0: 0}}, "new")).error_code == 0
    described = await shares.described("new")
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Empty", 1, 1)
    assert await shares.delete("new") == 0
    assert (await shares.described("new")).error_message == "Group new not found."
    assert shares.broker.services.share_states.shards.actors == {}


async def test_a_deleted_group_leaves_nothing(config: BrokerConfig) -> None:
    clock = FakeClock()
    async with Broker(config, clock=clock) as broker, await Raw.connect(broker.address) as raw:
        shares = await begin(broker, raw, clock)
        await shares.beat("m1", topics=["t", "u"])
        await shares.settle("m1", 2)
        await shares.beat("m1", -1)
        assert await shares.delete() == 0
        assert await shares.delete() == ErrorCode.GROUP_ID_NOT_FOUND
        assert await shares.offsets() == {}
    async with Broker(config, clock=clock) as broker, await Raw.connect(broker.address) as raw:
        assert broker.services.groups.groups == {}
        assert broker.services.share_states.shards.actors == {}


async def test_a_deletion_that_fails_as_nobody_foresaw_ends(shares: Shares, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await shares.alter({"t": {0: 1}})).error_code == 0

    async def fail(*arguments: Any) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(shares.broker.services.coordinators.persister, "delete", fail)
    shares.raw.send(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(["g"]))
    # Its response has no field for an error of the whole request.
    assert await shares.raw.is_closed()
