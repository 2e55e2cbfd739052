"""The history of a group's rebalances: causes, phases, and the members that it waited for."""

from __future__ import annotations

from odradek.broker.coordination.groups.history import (
    MAX_CAUSES,
    MAX_TEXT_CHARS,
    MAX_WAITED,
    CauseKind,
    Ending,
    Rebalance,
)
from odradek.protocol.codec import decode_versioned
from odradek.protocol.messages.consumer_protocol import ConsumerProtocolSubscription, encode_versioned
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.group_history import GroupHistory, HistoricCause, HistoricRebalance
from odradek.protocol.messages.join_group import JoinGroupRequestProtocol
from odradek.tests.broker.coordination.classic.world import Config, FakeContext, World


def history(world: World, group: str = "g") -> list[HistoricRebalance]:
    request = DescribeGroupsRequest([group], include_history=True)
    (described,) = world.groups.describe(FakeContext(6), request).groups
    assert described.history is not None
    return decode_versioned(GroupHistory, described.history).rebalances


def waited(rebalance: HistoricRebalance) -> list[tuple[str, int, str]]:
    return [(each.member_id, each.waited_ms, each.fate) for each in rebalance.waited]


def subscribing(*topics: str) -> bytes:
    return encode_versioned(ConsumerProtocolSubscription(topics=list(topics)), 1)


async def test_the_history_is_sent_on_request_and_an_unknown_group_has_none(world: World) -> None:
    world.stable_pair()
    asked = DescribeGroupsRequest(["g", "nobody"], include_history=True)
    assert [each.history is None for each in world.groups.describe(FakeContext(6), asked).groups] == [False, True]
    assert world.groups.describe(FakeContext(6), DescribeGroupsRequest(["g"])).groups[0].history is None


async def test_a_join_is_a_cause_and_the_waits_for_the_others_are_listed(world: World) -> None:
    leader, follower = world.stable_pair()
    world.join(version=3, reason="scaled out")
    world.wait(300)
    world.join(follower)
    world.wait(400)
    world.join(leader)
    world.wait(50)
    world.sync(leader, 3)
    last = history(world)[-1]
    assert [(c.kind, c.member_id, c.client_host, c.detail) for c in last.causes] == [
        ("joined", "client-3", "/10.0.0.1", "scaled out")
    ]
    assert (last.joined_ms - last.began_ms, last.ended_ms - last.joined_ms) == (700, 50)
    assert waited(last) == [(leader, 700, "came"), (follower, 300, "came")]
    assert (last.ending, last.old_generation, last.generation, last.members) == ("stable", 2, 3, 3)
    assert (last.protocol, last.leader) == ("range", leader)


async def test_an_expired_session_says_how_long_the_member_was_silent(world: World) -> None:
    leader, follower = world.stable_pair()
    world.wait(4000)
    world.heartbeat(leader, 2)
    world.wait(6000)
    (cause,) = history(world)[-1].causes
    assert (cause.kind, cause.member_id, cause.silent_ms) == ("expired", follower, 10_000)
    assert cause.text == f"{follower} expired, last heard of 10000 ms ago (session.timeout.ms 10000)"


async def test_a_restart_clears_the_history_and_the_times_of_last_requests(world: World) -> None:
    leader, follower = world.stable_pair()
    world = world.restarted()
    assert history(world) == []
    world.wait(9000)
    world.heartbeat(leader, 2)
    world.wait(1000)
    (cause,) = history(world)[-1].causes
    assert (cause.member_id, cause.silent_ms) == (follower, -1)
    assert "not heard of since this broker started" in cause.text


async def test_a_running_rebalance_lists_the_missing_members(world: World) -> None:
    leader, follower = world.stable_pair()
    world.join(version=3)
    world.wait(100)
    world.join(follower)
    world.wait(100)
    last = history(world)[-1]
    assert (last.ending, last.joined_ms, last.ended_ms) == ("running", -1, -1)
    assert waited(last) == [(leader, 200, "missing")]
    world.join(leader)
    world.wait(70)
    assert waited(history(world)[-1]) == [(leader, 200, "came"), (follower, 100, "came"), (leader, 70, "missing")]


async def test_a_member_that_did_not_join_is_listed_as_dropped(world: World) -> None:
    leader, follower = world.stable_pair()
    world.join(version=3)
    world.join(follower)
    for _ in range(4):
        world.wait(4999)
        world.heartbeat(leader, 2)
    world.wait(4)
    world.sync(follower, 3)
    last = history(world)[-1]
    assert waited(last) == [(leader, 20_000, "dropped")]
    assert last.leader == follower


async def test_members_that_leave_together_are_one_cause_each(world: World) -> None:
    leader, follower = world.stable_pair()
    world.leave(leader, follower)
    last = history(world)[-1]
    assert [(cause.kind, cause.member_id) for cause in last.causes] == [("left", leader), ("left", follower)]
    assert (last.ending, last.generation, last.members) == ("empty", 3, 0)


async def test_a_changed_subscription_names_the_topics(world: World) -> None:
    leader = world.join(version=3, metadata=subscribing("a", "b")).member_id
    world.sync(leader, 1)
    world.join(leader, metadata=subscribing("b", "c"))
    (cause,) = history(world)[-1].causes
    assert (cause.kind, cause.detail) == ("changed-subscription", "+c -a")
    world.sync(leader, 2)
    world.join(leader, metadata=subscribing("b", "c", *(f"t{number}" for number in range(7))))
    assert history(world)[-1].causes[0].detail == "+t0 +t1 +t2 +t3 +t4 2 more"
    world.sync(leader, 3)
    world.join(leader, metadata=b"unreadable", reason="why not")
    assert [(c.kind, c.detail) for c in history(world)[-1].causes] == [("changed-metadata", "why not")]


async def test_an_overtaken_rebalance_ends_and_later_causes_are_added_to_the_next(world: World) -> None:
    leader, follower = world.stable_pair()
    world.join(leader, metadata=b"new")
    world.join(follower)
    world.wait(30)
    world.join(version=3)
    world.leave(follower)
    before, last = history(world)[-2:]
    assert (before.ending, before.generation, before.ended_ms - before.joined_ms) == ("overtaken", 3, 30)
    assert [cause.kind for cause in last.causes] == ["joined", "left"]


async def test_the_first_round_is_marked() -> None:
    world = World(Config(group_initial_rebalance_delay_ms=3000))
    world.groups.start()
    world.join(version=3)
    world.wait(1000)
    world.join(version=3)
    world.wait(5000)
    (only,) = history(world)
    assert only.first_round
    assert waited(only) == [("client-2", 1000, "came"), ("client-1", 0, "missing")]


def test_causes_and_waits_of_one_rebalance_are_bounded() -> None:
    rebalance = Rebalance(0, 1)
    rebalance.add(HistoricCause(CauseKind.LEFT, f"m{number}") for number in range(MAX_CAUSES + 3))
    for number in range(100):
        rebalance.arrived(f"m{number}", number)
    rebalance.joins_answered({}, 100)
    assert (len(rebalance.causes), rebalance.more_causes, len(rebalance.waited)) == (MAX_CAUSES, 3, MAX_WAITED)
    assert not rebalance.arrivals
    rebalance.end(Ending.STABLE, 110)
    assert rebalance.text.endswith(f"m{MAX_CAUSES - 1} left; 3 more")


def test_a_clock_that_is_set_back_makes_no_phase_negative() -> None:
    rebalance = Rebalance(1000, 1)
    rebalance.arrived("m", 900)
    rebalance.joins_answered({}, 800)
    rebalance.end(Ending.STABLE, 700)
    assert (rebalance.join_ms, rebalance.sync_ms, rebalance.waited) == (0, 0, [])


async def test_texts_of_megabytes_are_cut(world: World) -> None:
    """Clients choose reasons, ids and protocols, and the history outlives the members."""
    long = "x" * 1_000_000
    for number in range(MAX_CAUSES + 1):
        instance = f"{number}{long}"
        protocols = [JoinGroupRequestProtocol(f"range{long}", b"x")]
        world.join(version=9, reason=long, group_instance_id=instance, protocols=protocols)
        world.wait(10_000)
    asked = DescribeGroupsRequest(["g"], include_history=True)
    (described,) = world.groups.describe(FakeContext(6), asked).groups
    assert described.history is not None and len(described.history) < 200_000
    causes = [cause for each in history(world) for cause in each.causes]
    assert causes[0].detail == "x" * MAX_TEXT_CHARS + "..."
