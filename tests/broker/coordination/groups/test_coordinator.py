"""The group coordinator with a fake log, clock and timers: appends, loading, unloading, timers, limits."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from odradek.broker.coordination.classic import join_phase
from odradek.broker.coordination.consumer.requests import rejection
from odradek.broker.coordination.groups.history import MAX_HISTORY
from odradek.broker.coordination.groups.records import group_key
from odradek.broker.coordination.partition_hash import partition_for
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.tests.broker.coordination.classic.world import (
    TOPIC_ID,
    Config,
    FakeContext,
    FakeLog,
    World,
    code_of,
    is_waiting,
)
from odradek.tests.support.brokers.slices import end_slices_after
from odradek.tests.support.waiting import until

# The timer of the sweep for old offsets.
SWEEPS = 1
HOUR_MS = 3_600_000
NOT_ENOUGH = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "a test's disk is full")


# -- The log


async def test_replies_wait_until_the_record_is_committed(world: World) -> None:
    leader, follower = world.stable_pair()
    world.join(leader)
    world.join(follower)
    parked = world.sync(follower, 3)
    world.log.hold = True
    first = world.sync(leader, 3, client_1=b"one", client_2=b"two")
    assert is_waiting(first) and is_waiting(parked)
    world.log.answer()
    assert first.result().assignment == b"one"
    assert parked.result().assignment == b"two"


async def test_events_wait_while_a_record_of_the_group_is_appended(world: World) -> None:
    leader, _ = world.stable_pair()
    world.leave("client-2")
    world.join(leader)
    world.log.hold = True
    sync = world.sync(leader, 3, client_1=b"one")
    beat, commit, join = world.heartbeat(leader, 3), world.commit(7, leader, 3), world.join(version=3)
    assert is_waiting(sync) and is_waiting(beat) and is_waiting(commit)
    world.log.answer()
    assert beat.result().error_code == 0
    assert is_waiting(commit) and is_waiting(join)
    world.log.answer()
    assert code_of(commit.result()) == 0
    assert world.heartbeat(leader, 3).error_code == ErrorCode.REBALANCE_IN_PROGRESS


async def test_offsets_of_a_transaction_that_ends_while_they_wait_do_not_count(world: World) -> None:
    leader, _ = world.stable_pair()
    world.leave("client-2")
    world.join(leader)
    world.log.hold = True
    world.sync(leader, 3, client_1=b"one")
    answers = iter([ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE])
    asked = world.ask_in_transaction(5, 7, lambda partition: next(answers))
    assert is_waiting(asked)
    world.groups.end_transaction(world.groups.shards.partition_of("g"), 7, False)
    while world.log.held:
        world.log.answer()
    assert asked.result().topics[0].partitions[0].error_code == ErrorCode.INVALID_TXN_STATE
    # The producer's next transaction commits.
    world.groups.end_transaction(world.groups.shards.partition_of("g"), 7, True)
    assert world.committed() == -1


async def test_offset_commits_do_not_wait_for_one_another_and_count_when_committed(world: World) -> None:
    leader, _ = world.stable_pair()
    world.commit(1, leader, 2)
    world.log.hold = True
    second, third = world.commit(2, leader, 2), world.commit(3, leader, 2)
    assert world.heartbeat(leader, 2).error_code == 0
    assert world.committed() == 1
    world.log.answer()
    assert world.committed() == 2
    assert code_of(second.result()) == 0 and is_waiting(third)
    world.log.answer()
    assert world.committed() == 3


async def test_a_commit_that_cannot_be_written_gets_an_error_and_does_not_count(world: World) -> None:
    world.commit(1)
    world.log.hold = True
    commit = world.commit(2)
    world.log.answer(NOT_ENOUGH)
    assert code_of(commit.result()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.committed() == 1


async def test_an_assignment_that_cannot_be_written_makes_all_members_join_again(world: World) -> None:
    leader, follower = world.stable_pair()
    world.join(leader)
    world.join(follower)
    parked = world.sync(follower, 3)
    world.log.hold = True
    sync = world.sync(leader, 3, client_1=b"one")
    world.log.answer(NOT_ENOUGH)
    assert sync.result().error_code == parked.result().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.heartbeat(leader, 3).error_code == ErrorCode.REBALANCE_IN_PROGRESS


async def test_a_group_whose_first_record_cannot_be_written_is_not_created(world: World) -> None:
    world.log.hold = True
    join = world.join()
    world.log.answer(NOT_ENOUGH)
    assert join.result().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not world.groups.groups
    world.log.hold = False
    assert world.join().error_code == ErrorCode.MEMBER_ID_REQUIRED


async def test_a_name_too_long_for_the_format_fails_only_its_request(world: World) -> None:
    leader = world.join(version=3, group_instance_id="i" * 40_000).member_id
    assert world.sync(leader, 1).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.heartbeat(leader, 1).error_code == ErrorCode.REBALANCE_IN_PROGRESS


# -- Loading


async def test_a_group_survives_a_restart_with_new_sessions(world: World) -> None:
    leader, follower = world.stable_pair()
    world.commit(42, leader, 2)
    world.wait(9000)
    world = world.restarted()
    world.wait(9000)
    assert world.heartbeat(leader, 2).error_code == 0
    assert world.sync(follower, 2).assignment == b"two"
    assert world.committed() == 42
    world.wait(10_000)
    assert world.heartbeat(follower, 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_while_a_partition_loads_only_heartbeats_succeed() -> None:
    world = World()
    world.groups.start()
    world.commit(5)
    seen: list[int] = []
    world = World(log=world.log)

    def ask(partition: int) -> None:
        if partition == partition_for("g", 50):
            seen.append(world.heartbeat("m", 1).error_code)
            seen.append(world.join().error_code)
            seen.append(world.sync("m", 1).error_code)
            seen.append(world.leave("m").error_code)
            seen.append(code_of(world.commit(9)))
            seen.append(world.groups.describe(FakeContext(5), DescribeGroupsRequest(["g"])).groups[0].error_code)
            seen.append(world.groups.list(FakeContext(5), ListGroupsRequest()).error_code)

    world.log.while_replaying = ask
    world.groups.start()
    assert seen == [0] + [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 6
    assert world.committed() == 5


async def test_the_last_record_of_a_key_counts_and_tombstones_delete(world: World) -> None:
    world.commit(1)
    world.commit(2)
    world.commit(3, group="other")
    partition = partition_for("g", 50)
    ((key, _), *_) = world.log.partitions[partition]
    world.log.partitions[partition].append((key, None))
    world = world.restarted()
    assert world.committed() == -1
    assert world.committed("other") == 3
    assert set(world.groups.groups) == {"other"}


async def test_a_deleted_group_is_not_restored(world: World) -> None:
    world.stable_pair()
    world.log.partitions[partition_for("g", 50)].append((group_key("g"), None))
    world = world.restarted()
    assert not world.groups.groups


async def test_a_record_that_cannot_be_read_is_skipped_and_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.commit(1)
    partition = partition_for("g", 50)
    world.log.partitions[partition] += [(b"\0\2\0\5g", b"\0\3"), (b"\0\2\0\1x", b"\0\x63"), (b"\0\x11\0\1z", b"\0\0")]
    with caplog.at_level(logging.WARNING):
        world = world.restarted()
    assert world.committed() == 1
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR", "WARNING"]


# -- Unloading


async def test_stop_answers_waiting_members_and_leaves_no_timer(world: World) -> None:
    leader, follower = world.stable_pair()
    join = world.join(leader)
    assert is_waiting(join)
    world.groups.stop()
    world.groups.stop()
    assert join.result().error_code == ErrorCode.NOT_COORDINATOR
    assert not world.timers.live()
    assert world.heartbeat(follower, 2).error_code == ErrorCode.NOT_COORDINATOR
    assert world.join().error_code == ErrorCode.NOT_COORDINATOR


async def test_stop_during_an_append(world: World) -> None:
    leader, _ = world.stable_pair()
    world.log.hold = True
    commits = [world.commit(1, leader, 2), world.commit(2, leader, 2)]
    last = world.leave(leader, "client-2")
    behind = [world.heartbeat(leader, 2), world.sync(leader, 2), world.leave("x"), world.commit(3)]
    again = world.join(version=3)
    world.groups.stop()
    assert [answer.result().error_code for answer in behind[:2]] == [ErrorCode.NOT_COORDINATOR] * 2
    assert again.result().error_code == ErrorCode.NOT_COORDINATOR
    world.log.answer()
    world.log.answer(NOT_ENOUGH)
    world.log.answer(NOT_ENOUGH)
    assert code_of(commits[0].result()) == 0
    assert code_of(commits[1].result()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert last.result().members[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not world.timers.live()


async def test_a_disconnected_client_does_not_disturb_the_others(world: World) -> None:
    leader, follower = world.stable_pair()
    gone = world.join(follower, metadata=b"changed")
    gone.cancel()
    assert world.join(leader).generation_id == 3


async def test_one_partition_can_be_unloaded_alone(world: World) -> None:
    world.commit(1)
    world.commit(2, group="other")
    world.groups.unload(partition_for("g", 50))
    assert code_of(world.commit(3)) == ErrorCode.NOT_COORDINATOR
    assert world.committed("other") == 2
    world.groups.shards.load(partition_for("g", 50))
    assert world.committed() == 1


# -- Timers


async def test_heartbeats_keep_a_member_and_add_no_timers(world: World) -> None:
    leader, follower = world.stable_pair()
    for _ in range(50):
        world.wait(5000)
        assert world.heartbeat(leader, 2).error_code == 0
        assert world.heartbeat(follower, 2).error_code == 0
        assert len(world.timers.live()) == 2 + SWEEPS
    world.wait(9999)
    assert world.heartbeat(leader, 2).error_code == 0
    world.wait(1)
    assert world.heartbeat(leader, 2).error_code == ErrorCode.REBALANCE_IN_PROGRESS


async def test_a_shorter_session_ends_sooner(world: World) -> None:
    leader = world.join(version=3, session_timeout_ms=60_000).member_id
    world.sync(leader, 1)
    world.join(leader, session_timeout_ms=6000)
    world.wait(5999)
    assert world.heartbeat(leader, 2).error_code == 0
    world.wait(6000)
    assert world.heartbeat(leader, 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_heartbeat_that_waits_for_an_append_still_counts(world: World) -> None:
    leader, follower = world.stable_pair()
    world.join(leader)
    world.join(follower)
    world.log.hold = True
    world.sync(leader, 3, client_1=b"one")
    world.wait(9999)
    beat = world.heartbeat(follower, 3)
    world.wait(1)
    world.log.answer()
    assert beat.result().error_code == 0
    world.wait(9000)
    assert world.heartbeat(follower, 3).error_code == 0


async def test_an_empty_group_has_no_timers(world: World) -> None:
    leader, follower = world.stable_pair()
    world.leave(leader, follower)
    assert len(world.timers.live()) == SWEEPS
    world.join()
    assert len(world.timers.live()) == 1 + SWEEPS
    world.wait(10_000)
    assert len(world.timers.live()) == SWEEPS


# -- Expired offsets


async def test_old_offsets_expire_in_the_sweep_and_their_group_with_them(world: World) -> None:
    world.commit(1)
    world.commit(2, group="kept")
    world.wait(59 * 60_000)
    world.commit(3, group="kept")
    world.wait(59_999)
    assert set(world.groups.groups) == {"g", "kept"}
    world.wait(1)
    assert set(world.groups.groups) == {"kept"}
    assert world.restarted().committed() == -1
    world.groups.stop()
    assert not world.timers.live()


@pytest.mark.parametrize("how", ["OffsetDelete", "a deleted topic", "an aborted transaction"])
async def test_a_group_that_lost_its_last_offset_stays_until_the_sweep(world: World, how: str) -> None:
    match how:
        case "OffsetDelete":
            world.commit(1)
            world.uncommit(0)
        case "a deleted topic":
            world.commit(1)
            world.groups.forget_topic("t", TOPIC_ID)
        case _:
            assert world.commit_in_transaction(1, producer_id=7) == ErrorCode.NONE
            world.groups.end_transaction(world.groups.shards.partition_of("g"), 7, False)
    assert set(world.groups.groups) == {"g"}
    assert world.uncommit(0).error_code == 0
    world.wait(60_000)
    assert set(world.groups.groups) == set()


async def test_a_group_that_lost_its_last_offset_can_be_deleted(world: World) -> None:
    world.commit(1)
    world.uncommit(0)
    assert deleted(world.delete("g")) == {"g": 0}
    assert not world.groups.groups


async def test_a_group_with_members_keeps_its_offsets(world: World) -> None:
    leader, follower = world.stable_pair()
    world.commit(1, leader, 2)
    for _ in range(1000):
        world.wait(9000)
        world.heartbeat(leader, 2)
        world.heartbeat(follower, 2)
    assert world.committed() == 1


@pytest.mark.parametrize(("retention_ms", "is_kept"), [(2**63 - 1, True), (-(2**63), False)])
async def test_a_commit_may_be_kept_for_any_time(world: World, retention_ms: int, is_kept: bool) -> None:
    """The sum with the time of the commit does not fit into a record. A client of long ago may mean for ever."""
    assert code_of(world.commit(1, version=4, retention_time_ms=retention_ms)) == 0
    world.wait(90 * 60_000)
    assert (world.committed() == 1) is is_kept


# -- Administration


def deleted(response: Any) -> dict[str, int]:
    return {each.group_id: each.error_code for each in response.results}


async def test_a_deleted_group_leaves_tombstones_and_no_timer(world: World) -> None:
    world.commit(1)
    world.join()
    assert deleted(world.delete("g")) == {"g": 0}
    assert not world.groups.groups
    assert len(world.timers.live()) == SWEEPS
    restarted = world.restarted()
    assert not restarted.groups.groups
    assert restarted.committed() == -1


async def test_delete_groups_is_answered_after_the_last_one_with_an_error_for_each(world: World) -> None:
    leader, _ = world.stable_pair()
    world.commit(1, group="one")
    world.commit(2, group="two")
    world.log.hold = True
    answer = world.delete("g", "one", "two", "nobody")
    world.log.answer()
    assert is_waiting(answer)
    world.log.answer(NOT_ENOUGH)
    assert deleted(await answer) == {
        "g": ErrorCode.NON_EMPTY_GROUP,
        "one": 0,
        "two": ErrorCode.COORDINATOR_NOT_AVAILABLE,
        "nobody": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert set(world.groups.groups) == {"g", "two"}
    assert world.heartbeat(leader, 2).error_code == 0


@pytest.mark.parametrize("deletes", ["the group", "its offsets", "its topic"])
async def test_a_commit_under_way_does_not_survive_the_deletion(world: World, deletes: str) -> None:
    world.commit(1)
    world.log.hold = True
    commit = world.commit(2, partition=1)
    answer: Any = None
    match deletes:
        case "the group":
            answer = world.delete("g")
        case "its offsets":
            answer = world.uncommit(0, 1)
        case _:
            world.groups.forget_topic("t", TOPIC_ID)
    assert len(world.log.held) == 1
    world.log.answer()
    world.log.answer()
    assert code_of(commit.result()) == 0
    assert answer is None or await answer
    assert world.committed(partition=0) == world.committed(partition=1) == -1
    world = world.restarted()
    assert world.committed(partition=0) == world.committed(partition=1) == -1


async def test_requests_during_the_deletion_of_a_group_get_retriable_errors(world: World) -> None:
    world.commit(1)
    world.log.hold = True
    answer, join, commit, uncommit = world.delete("g"), world.join(), world.commit(2), world.uncommit(0)
    world.log.answer()
    assert deleted(await answer) == {"g": 0}
    assert join.result().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert code_of(commit.result()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert uncommit.result().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    world.log.hold = False
    assert code_of(world.commit(3)) == 0


async def test_waiting_deletions_are_answered_when_the_partition_is_unloaded(world: World) -> None:
    world.commit(1)
    world.log.hold = True
    world.commit(2)
    answers = world.delete("g"), world.uncommit(0)
    world.groups.stop()
    assert deleted(await answers[0]) == {"g": ErrorCode.NOT_COORDINATOR}
    assert answers[1].result().error_code == ErrorCode.NOT_COORDINATOR
    assert deleted(world.delete("g")) == {"g": ErrorCode.NOT_COORDINATOR}
    assert world.uncommit(0).error_code == ErrorCode.NOT_COORDINATOR


# -- Limits


async def test_checks_before_a_request_reaches_its_group(world: World) -> None:
    assert world.join(group="").error_code == ErrorCode.INVALID_GROUP_ID
    assert world.join(session_timeout_ms=5999).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert world.join(session_timeout_ms=1_800_001).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert world.join("stranger").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.join(protocol_type="").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.join(protocols=[]).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert not world.groups.groups
    assert not world.log.exists


@pytest.mark.parametrize(("blank", "is_empty"), [("", True), (" \0\x1f", True), ("\x85", False), ("\u3000", False)])
def test_names_of_a_heartbeat_are_empty_by_the_blanks_of_java(blank: str, is_empty: bool) -> None:
    for name in ("group_id", "member_id", "instance_id", "rack_id"):
        fields = {"group_id": "g", "member_id": "m", "member_epoch": 1, name: blank}
        assert (rejection(ConsumerGroupHeartbeatRequest(**fields), 1, ()) is not None) is is_empty


async def test_the_empty_group_id_can_have_offsets_but_no_members(world: World) -> None:
    assert code_of(world.commit(1, group="")) == 0
    assert world.sync("m", 1, group="").error_code == ErrorCode.INVALID_GROUP_ID
    assert world.heartbeat("m", 1, group="").error_code == ErrorCode.INVALID_GROUP_ID
    assert world.leave("m", group="").error_code == ErrorCode.INVALID_GROUP_ID


async def test_many_groups_expire_a_few_a_turn() -> None:
    world, many = World(Config(offsets_retention_check_interval_ms=HOUR_MS)), 30
    world.groups.start()
    for number in range(many):
        world.commit(7, group=f"g-{number}")
    end_slices_after(10)
    world.wait(HOUR_MS)
    assert len(world.groups.groups) == many - 10
    await until(lambda: not world.groups.groups)
    # The next round comes as ever.
    await asyncio.sleep(0)
    world.commit(7, group="late")
    world.wait(HOUR_MS)
    assert not world.groups.groups


async def test_unused_member_ids_are_bounded_and_expire(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_phase, "MAX_PENDING_MEMBERS", 3)
    for _ in range(3):
        assert world.join().error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert world.join().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    world.wait(10_000)
    assert world.join().error_code == ErrorCode.MEMBER_ID_REQUIRED


async def test_a_failed_request_leaves_no_group_behind(world: World) -> None:
    assert code_of(world.commit(1, "stranger", 3)) == ErrorCode.GROUP_ID_NOT_FOUND
    assert code_of(world.commit(1, "stranger", 3, version=8)) == ErrorCode.ILLEGAL_GENERATION
    assert code_of(world.commit(1, metadata="x" * 101)) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert world.committed() == -1
    assert not world.groups.groups


async def test_the_history_of_rebalances_is_bounded(world: World) -> None:
    leader = world.join(version=3).member_id
    for generation in range(1, 2 * MAX_HISTORY):
        world.sync(leader, generation)
        assert world.join(leader).generation_id == generation + 1
    history = world.groups.groups["g"].state.rebalances
    assert len(history) == MAX_HISTORY
    assert [cause.text for cause in history[-1].causes] == [f"leader {leader} joined again"]


async def test_each_rebalance_logs_one_line(caplog: pytest.LogCaptureFixture) -> None:
    world = World(Config(group_initial_rebalance_delay_ms=10))
    world.groups.start()
    with caplog.at_level(logging.INFO):
        member = world.join(version=8, reason="because").member_id
        world.join(member, version=8, reason="because")
        world.wait(10)
        world.sync(member, 1)
    assert [record.getMessage() for record in caplog.records] == [
        f"group g is stable in generation 1 with 1 member (range, leader {member}) after 10 ms "
        f"(joins 10 ms, assignment 0 ms): {member} joined (because)",
    ]


async def test_a_coordinator_with_an_empty_log_has_no_groups() -> None:
    world = World(log=FakeLog())
    world.groups.start()
    assert world.groups.shards.owned == set(range(50))
    assert not world.groups.shards.loading
    assert world.groups.list(FakeContext(5), ListGroupsRequest()).groups == []
