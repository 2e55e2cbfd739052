"""A group changes its kind while it has members: classic ones live in a consumer group, and get it back in the end."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.broker.coordination.classic.states import GroupState
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_versioned,
    encode_versioned,
)
from odradek.tests.broker.coordination.classic.world import Config, World, code_of

SUBSCRIPTION = encode_versioned(ConsumerProtocolSubscription(["t"]), 1)
ALL = encode_versioned(ConsumerProtocolAssignment([TopicPartition("t", [0, 1, 2])]), 1)


def world(**config: Any) -> World:
    made = World(Config(group_consumer_assignment_interval_ms=0, **config))
    made.groups.start()
    return made


def stable(world: World, assignment: bytes = ALL, **rest: Any) -> str:
    """Make a stable classic group of one member, which has everything."""
    member = world.join(version=3, metadata=SUBSCRIPTION, **rest).member_id
    assert world.sync(member, 1, **{member.replace("-", "_"): assignment}).error_code == 0
    return member


def beat(world: World, member_id: str, epoch: int = 0) -> Any:
    return world.beat(member_id, epoch, topic_partitions=[])


def commit(world: World, member_id: str, generation: int) -> int:
    return code_of(world.commit(1, member_id, generation, version=8))


def partitions(answer: Any) -> list[int]:
    found = decode_versioned(ConsumerProtocolAssignment, answer.assignment).assigned_partitions
    return [index for each in found for index in each.partitions]


async def test_a_group_is_upgraded_and_its_classic_member_lives_on_in_it() -> None:
    here = world()
    classic = stable(here)
    joined = beat(here, "new")
    # The classic member has everything still.
    assert (joined.error_code, joined.member_epoch, joined.assignment.topic_partitions) == (0, 2, [])
    assert commit(here, classic, 1) == 0
    assert here.heartbeat(classic, 1).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    again = here.join(classic, metadata=SUBSCRIPTION)
    assert (again.error_code, again.generation_id, again.leader, again.members) == (0, 2, "", [])
    # It has its partitions since then (KIP-1251), so a commit that was under way counts, as in Kafka.
    assert commit(here, classic, 1) == ErrorCode.NONE
    synced = here.sync(classic, 2)
    assert synced.error_code == 0 and len(partitions(synced)) in (1, 2)
    assert here.heartbeat(classic, 2).error_code == 0
    given = beat(here, "new", 2)
    own = [index for each in given.assignment.topic_partitions for index in each.partitions]
    assert sorted(own + partitions(synced)) == [0, 1, 2]


async def test_the_group_is_classic_again_when_the_last_consumer_member_leaves() -> None:
    here = world()
    classic = stable(here)
    beat(here, "new")
    assert here.join(classic, metadata=SUBSCRIPTION).generation_id == 2
    kept = partitions(here.sync(classic, 2))
    assert beat(here, "new", -1).error_code == 0
    group = here.groups.groups["g"].state
    assert group.consumer is None and group.state is GroupState.STABLE and group.generation == 2
    (member,) = group.roster.members.values()
    assert partitions(member) == kept
    # As Kafka 4.4.0, the rebalance does not wait for the next request.
    here.wait(0)
    assert group.state is GroupState.PREPARING_REBALANCE
    # Its partitions are saved, and then all join again: nobody has what the other one had.
    assert commit(here, classic, 2) == 0
    assert here.heartbeat(classic, 2).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    again = here.join(classic, metadata=SUBSCRIPTION)
    assert (again.generation_id, again.leader) == (3, classic)


async def test_a_restart_after_the_downgrade_rebalances_too() -> None:
    here = world()
    classic = stable(here)
    beat(here, "new")
    here.join(classic, metadata=SUBSCRIPTION)
    beat(here, "new", -1)
    here = here.restarted()
    assert here.groups.groups["g"].state.state is GroupState.PREPARING_REBALANCE
    assert here.heartbeat(classic, 2).error_code == ErrorCode.REBALANCE_IN_PROGRESS


async def test_requests_that_wait_in_the_classic_group_are_answered() -> None:
    here = world()
    classic = stable(here)
    waiting = here.join(version=3, metadata=SUBSCRIPTION)
    assert not waiting.done()
    assert beat(here, "new").error_code == 0
    assert waiting.result().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert here.join(classic, metadata=SUBSCRIPTION).error_code == 0


async def test_an_upgrade_that_cannot_be_written_leaves_the_group_as_it_was() -> None:
    here = world()
    classic = stable(here)
    waiting = here.join(version=3, metadata=SUBSCRIPTION)
    here.log.hold = True
    failed = beat(here, "new")
    here.log.answer(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))
    assert failed.result().error_code == ErrorCode.NOT_COORDINATOR
    assert waiting.result().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    here.log.hold = False
    group = here.groups.groups["g"].state
    assert group.consumer is None and classic in group.roster.members
    assert here.heartbeat(classic, 1).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert here.join(classic, metadata=SUBSCRIPTION).done() is False


@pytest.mark.parametrize("policy", ["disabled", "Downgrade"])
async def test_a_policy_without_upgrade_leaves_the_group_classic(policy: str) -> None:
    here = world(group_consumer_migration_policy=policy)
    classic = stable(here)
    assert beat(here, "new").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert here.heartbeat(classic, 1).error_code == 0


@pytest.mark.parametrize("policy", ["UPGRADE", "disabled"])
async def test_a_policy_without_downgrade_leaves_the_group_a_consumer_group(policy: str) -> None:
    here = world()
    stable(here)
    beat(here, "new")
    here.config.group_consumer_migration_policy = policy
    assert beat(here, "new", 2).error_code == 0
    assert beat(here, "new", -1).error_code == 0
    assert here.groups.groups["g"].state.consumer is not None


async def test_no_classic_member_joins_a_consumer_group_without_migration() -> None:
    here = world(group_consumer_migration_policy="disabled")
    assert beat(here, "new").error_code == 0
    assert here.join(metadata=SUBSCRIPTION, version=3).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(
    "assignment",
    [encode_versioned(ConsumerProtocolAssignment([], b"own"), 1), b"\xff"],
    ids=["user data", "not an assignment"],
)
async def test_a_group_with_an_assignor_of_its_own_is_not_upgraded(assignment: bytes) -> None:
    here = world()
    classic = stable(here, assignment)
    assert beat(here, "new").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert here.heartbeat(classic, 1).error_code == 0


async def test_members_of_another_protocol_type_are_no_consumers() -> None:
    here = world()
    assert beat(here, "new").error_code == 0
    answer = here.join(metadata=SUBSCRIPTION, version=3, protocol_type="connect")
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


async def test_a_classic_member_that_does_not_join_again_is_removed() -> None:
    here = world()
    classic = stable(here, session_timeout_ms=10_000, rebalance_timeout_ms=20_000)
    beat(here, "new")
    for _ in range(5):
        assert here.heartbeat(classic, 1).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert beat(here, "new", 2).error_code == 0
        here.wait(4_500)
    assert here.heartbeat(classic, 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_classic_member_joins_again_once_all_that_it_awaits_is_free() -> None:
    here = world()
    here.topics.add("t", 6)
    beat(here, "a")
    beat(here, "b")
    assert [beat(here, name, epoch).member_epoch for name, epoch in (("a", 2), ("b", 3))] == [3, 3]
    classic = here.join(version=3, metadata=SUBSCRIPTION).member_id
    assert partitions(here.sync(classic, 4)) == []
    # As Kafka 4.4.0: an eager client gives everything up whenever it joins again.
    for name, told in (("a", 0), ("b", ErrorCode.REBALANCE_IN_PROGRESS)):
        assert beat(here, name, 3).member_epoch == 4
        assert here.heartbeat(classic, 4).error_code == told
    here.join(classic, metadata=SUBSCRIPTION)
    assert len(partitions(here.sync(classic, 4))) == 2


async def test_a_member_that_was_removed_and_does_not_know_it_gives_everything_up() -> None:
    here = world()
    beat(here, "new")
    owned = encode_versioned(ConsumerProtocolSubscription(["t"], None, [TopicPartition("t", [0])]), 1)
    assert here.join("stranger", metadata=owned).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert here.join("stranger", metadata=SUBSCRIPTION).error_code == 0


async def test_the_group_is_classic_again_when_a_classic_member_takes_the_last_consumer_members_place() -> None:
    here = world()
    here.beat("new", instance_id="i")
    joined = here.join(metadata=SUBSCRIPTION, group_instance_id="i")
    assert joined.error_code == 0
    group = here.groups.groups["g"].state
    assert group.consumer is None and list(group.roster.members) == [joined.member_id]
    assert len(partitions(group.roster.members[joined.member_id])) == 3
    # It joins again, alone as it is, and leads.
    synced = here.sync(joined.member_id, joined.generation_id)
    assert synced.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    again = here.join(joined.member_id, metadata=SUBSCRIPTION, group_instance_id="i")
    assert (again.error_code, again.leader) == (0, joined.member_id)
    here.restarted()


async def test_a_jump_of_the_wall_clock_removes_no_classic_member() -> None:
    here = world()
    classic = stable(here)
    beat(here, "new")
    assert here.heartbeat(classic, 1).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    here.clock.ahead_ms = 3_600_000
    assert here.heartbeat(classic, 1).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    here.wait(1)
    assert here.join(classic, metadata=SUBSCRIPTION).error_code == 0


async def test_a_classic_member_hears_that_its_join_and_its_removal_could_not_be_written() -> None:
    here = world()
    classic = stable(here)
    beat(here, "new")
    here.log.hold = True
    failure = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    joining = here.join(classic, metadata=SUBSCRIPTION)
    here.log.answer(failure)
    assert joining.result().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    leaving = here.leave("new")
    here.log.answer(failure)
    answer = leaving.result()
    assert [each.error_code for each in answer.members] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
