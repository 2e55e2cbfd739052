"""The controller's machine over a model of ZooKeeper: what it does in one turn, and what brokers' responses tell it."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from odradek.broker.cluster.controller import machine, outbox, partition_states, repetition
from odradek.broker.cluster.controller.channels import Channels
from odradek.broker.cluster.controller.controller import Controller, _Asked, _Term
from odradek.broker.cluster.controller.machine import ControllerMachine
from odradek.broker.cluster.controller.outbox import BecomeLeaderOrFollower, Message, StopReplicas, TellMetadata
from odradek.broker.cluster.controller.repetition import Repetition
from odradek.broker.cluster.lost_records import leave_isrs
from odradek.broker.cluster.znodes import (
    Assignment,
    LeaderAndIsr,
    Registration,
    Replicas,
    TopicPartition,
    broker_path,
    decode_assignment,
    encode_assignment,
    encode_registration,
    encode_state,
    state_path,
    topic_path,
)
from odradek.broker.configs.broker_config import BrokerConfig
from odradek.broker.replication.controller_door import OwnBroker
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from odradek.protocol.messages.stop_replica import StopReplicaPartitionError, StopReplicaResponse
from odradek.protocol.messages.update_metadata import UpdateMetadataResponse
from odradek.testing.zookeeper import FakeZookeeper
from odradek.tests.support.clusters.steps import run_steps
from odradek.tests.support.fakes.clock import FakeClock
from odradek.zookeeper import operations
from odradek.zookeeper.operations import Operation, Steps, WriteAll
from odradek.zookeeper.session import Session

PARTITIONS = 95
PLACE = TopicPartition("t", 0)
TOPIC_ID = bytes(15) + b"t"


class World:
    """Three brokers, a topic whose replicas are on all of them, and the controller of epoch 2, which is broker 1."""

    def __init__(self, partitions: int = PARTITIONS) -> None:
        self.zookeeper = FakeZookeeper()
        self.zookeeper.make("/controller_epoch", b"2")
        for broker in (1, 2, 3):
            at = Registration(broker, (f"PLAINTEXT://h:{broker}",), {"PLAINTEXT": "PLAINTEXT"})
            self.zookeeper.make(broker_path(broker), encode_registration(at))
        spread = {index: Replicas(tuple((index + each) % 3 + 1 for each in range(3))) for index in range(partitions)}
        self.zookeeper.make(topic_path("t"), encode_assignment(Assignment(TOPIC_ID, spread)))
        for index, each in spread.items():
            state = LeaderAndIsr(each.replicas[0], 0, each.replicas, 1, 0)
            self.zookeeper.make(state_path(TopicPartition("t", index)), encode_state(state))
        self.machine = ControllerMachine(1, 2)
        # Turns of the event loop so far.
        self.turns = 0
        self._session = self.zookeeper.connect()

    def run(self, steps: Steps[Any]) -> None:
        """Run steps to their end."""
        run_steps(self.zookeeper, steps, self._end_turn, self._session)
        self.turns += 1

    def _end_turn(self, _: Operation) -> None:
        self.turns += 1

    def messages(self) -> list[Message]:
        """What brokers are to be told now."""
        found: list[Message] = []
        for each in self.machine.take_messages():
            if each is None:
                self.turns += 1
            else:
                found.append(each)
        return found

    def state(self, index: int) -> LeaderAndIsr:
        return self.machine.cluster.states[TopicPartition("t", index)]


def leading(partitions: int = 1) -> World:
    """A controller in its term. Broker 1 leads the first partition, with 2 and 3 in sync."""
    world = World(partitions)
    world.run(world.machine.take_over())
    return world


# -- Turns


def test_no_turn_handles_more_than_so_many_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "PARTITIONS_A_TURN", 10)
    world, handled, told = World(), Counter[int](), Counter[int]()

    def counted(function: Callable[..., Any], handled: Counter[int] = handled) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            handled[world.turns] += 1
            return function(*arguments)

        return call

    for module in (machine, partition_states):
        monkeypatch.setattr(module, "decode_state", counted(module.decode_state))
    monkeypatch.setattr(outbox, "_update", counted(outbox._update, told))
    world.run(world.machine.take_over())
    assert len(world.messages()) == 6
    world.zookeeper.delete_by_hand(broker_path(3))
    world.run(world.machine.brokers_changed())
    assert len(world.messages()) == 6
    assert max(handled.values()) == 10
    # A clock ends the turns in which brokers are told.
    assert max(told.values()) == 1
    # Read, told, and read again for the leaders and for the ISRs of the dead broker.
    assert sum(handled.values()) + sum(told.values()) >= 3 * PARTITIONS


# -- What cannot be read


def restart(world: World, *brokers: int) -> None:
    """Let brokers register again, while nobody looks."""
    for broker in brokers:
        registration = world.zookeeper.get(broker_path(broker))
        assert registration is not None
        world.zookeeper.delete_by_hand(broker_path(broker))
        world.zookeeper.make(broker_path(broker), registration)


def test_a_leader_that_was_back_before_a_new_controller_looked_leads_no_more_in_its_epoch() -> None:
    world = World(3)
    restart(world, 1)
    world.run(world.machine.take_over())
    found = [(each.leader, each.leader_epoch, each.isr) for each in map(world.state, range(3))]
    assert found == [(2, 1, (2, 3)), (2, 1, (2, 3)), (3, 1, (3, 2))]
    assert world.machine.cluster.failed == set()


def test_where_all_in_sync_were_back_a_new_epoch_begins_and_the_isr_stays() -> None:
    world = World(3)
    restart(world, 1, 2, 3)
    world.run(world.machine.take_over())
    found = [(each.leader, each.leader_epoch, each.isr) for each in map(world.state, range(3))]
    assert found == [(1, 1, (1, 2, 3)), (2, 1, (2, 3, 1)), (3, 1, (3, 1, 2))]


def test_a_new_controller_writes_no_state_where_nobody_has_restarted() -> None:
    world = World(3)
    before = len(world.zookeeper.history)
    world.run(world.machine.take_over())
    assert world.zookeeper.history[before:] == []


def full_messages(world: World) -> list[bool]:
    """Take the controller over; whether each broker is told to give up what it is not told of."""
    world.run(world.machine.take_over())
    return [each.is_full for each in world.messages() if isinstance(each, BecomeLeaderOrFollower)]


def test_where_a_leader_leaves_the_isr_by_itself_another_leads_at_once() -> None:
    """Its session lives on after the process that has lost records: the next leader waits for no end of it."""
    world = leading(3)
    world.run(leave_isrs(1, [PLACE]))
    world.run(world.machine.isr_changed())
    assert (world.state(0).leader, world.state(0).isr) == (2, (2, 3))


def test_no_broker_gives_up_a_partition_whose_znodes_cannot_be_read() -> None:
    assert full_messages(World(3)) == [True] * 3
    world = World(3)
    world.zookeeper.put_by_hand(state_path(PLACE), b"nonsense")
    assert full_messages(world) == [False] * 3
    world = World(3)
    world.zookeeper.make(topic_path("u"), b"nonsense")
    assert full_messages(world) == [False] * 3
    # Once somebody has mended or removed it, brokers are told to give up what is not theirs again.
    world.zookeeper.delete_by_hand(topic_path("u"))
    world.run(world.machine.topics_changed())
    world.run(world.machine.welcome(1))
    assert [each.is_full for each in world.messages() if isinstance(each, BecomeLeaderOrFollower)] == [True]


# -- Beside others who write


def test_a_reassignment_goes_beside_partitions_that_are_written_by_hand_at_the_same_moment() -> None:
    world, tries = leading(), 0

    def grow(operation: Operation) -> None:
        """Between the controller's read and its write."""
        nonlocal tries
        if isinstance(operation, WriteAll) and operation.groups[0][0].path == topic_path("t"):
            tries += 1
            if tries % 2:
                known = decode_assignment("t", world.zookeeper.get(topic_path("t")))
                grown = Assignment(TOPIC_ID, known.partitions | {len(known.partitions): Replicas((3,))})
                world.zookeeper.put_by_hand(topic_path("t"), encode_assignment(grown))

    errors = run_steps(world.zookeeper, world.machine.reassign({PLACE: (2, 3)}), grow)
    assert (tries, errors) == (4, {}), "the replicas with the old ones, and then without them"
    written = decode_assignment("t", world.zookeeper.get(topic_path("t")))
    assert written.partitions == {0: Replicas((2, 3)), 1: Replicas((3,)), 2: Replicas((3,))}
    assert world.machine.cluster.replicas[PLACE] == Replicas((2, 3))


def test_a_reassignment_is_cancelled_though_one_of_the_old_replicas_is_dead() -> None:
    world, found = leading(), list[Any]()

    def reassign(target: tuple[int, ...] | None) -> None:
        found.append(run_steps(world.zookeeper, world.machine.reassign({PLACE: target})))

    registration = Registration(4, ("PLAINTEXT://h:4",), {"PLAINTEXT": "PLAINTEXT"})
    world.zookeeper.make(broker_path(4), encode_registration(registration))
    world.run(world.machine.brokers_changed())
    reassign((1, 2, 4))
    world.zookeeper.delete_by_hand(broker_path(3))
    world.run(world.machine.brokers_changed())
    reassign(None)
    assert world.machine.cluster.replicas[PLACE] == Replicas((1, 2, 3))
    # It may stay dead where it stays; one that comes must be alive.
    reassign((3, 1, 2))
    world.zookeeper.delete_by_hand(broker_path(4))
    world.run(world.machine.brokers_changed())
    reassign((3, 1, 4))
    assert [error.code for each in found for error in each.values()] == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]


# -- What brokers answer


def answer(codes: dict[int, ErrorCode]) -> LeaderAndIsrResponse:
    """A response to LeaderAndIsr with an error for each of these partitions."""
    errors = [LeaderAndIsrPartitionError("", index, int(code)) for index, code in codes.items()]
    return LeaderAndIsrResponse(topics=[LeaderAndIsrTopicError(TOPIC_ID, errors)])


class Shell:
    """A controller in its term whose events are run at once."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.controller = Controller(
            BrokerConfig(), cast("Session", None), FakeClock(), cast("OwnBroker", None), cast("Any", None)
        )
        again = Repetition(self.controller._put)
        self.controller._term = _Term(world.machine, 0, cast("Channels", None), again)

    async def hear(self, broker: int, message: Message, response: Any) -> None:
        """Take a broker's response, and run what follows."""
        self.controller._note_response(self.world.machine.cluster.live[broker], message, response)
        self.run_events()

    async def repeated(self, broker: int) -> list[Message]:
        """What a broker is told again, once the pause is over."""
        self.world.messages()
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        self.run_events()
        return [each for each in self.world.messages() if each.broker_id == broker and getattr(each, "updates", True)]

    def run_events(self) -> None:
        """Have the machine take up what waits."""
        while not self.controller._events.empty():
            event = self.controller._events.get_nowait()
            assert isinstance(event, _Asked)
            self.world.run(event.event(self.world.machine))
            event.outcome.set_result(None)

    def roles_of(self, broker: int) -> BecomeLeaderOrFollower:
        """What the broker was told last."""
        return next(
            each
            for each in reversed(self.world.messages())
            if isinstance(each, BecomeLeaderOrFollower) and each.broker_id == broker
        )


def in_term() -> tuple[World, Shell, BecomeLeaderOrFollower]:
    """A controller in its term over three partitions, and what it has told broker 1."""
    world = leading(3)
    shell = Shell(world)
    return world, shell, shell.roles_of(1)


async def test_a_replica_without_its_log_directory_leads_no_more_until_it_is_back() -> None:
    world, shell, roles = in_term()
    assert world.state(0).leader == 1
    await shell.hear(1, roles, answer({0: ErrorCode.KAFKA_STORAGE_ERROR}))
    assert (world.state(0).leader, world.state(0).isr) == (2, (2, 3))
    assert world.machine.cluster.failed == {(1, PLACE)}
    # The same again is no news.
    world.messages()
    await shell.hear(1, roles, answer({0: ErrorCode.KAFKA_STORAGE_ERROR}))
    assert world.messages() == []
    await shell.hear(1, roles, answer({}))
    assert world.machine.cluster.failed == set()


async def test_an_answer_from_before_a_brokers_start_says_nothing_of_its_disk() -> None:
    world, shell, roles = in_term()
    before = world.machine.cluster.live[1]
    world.machine.cluster.live[1] = replace(before, epoch=before.epoch + 1)
    shell.controller._note_response(before, roles, answer({0: ErrorCode.KAFKA_STORAGE_ERROR}))
    event = shell.controller._events.get_nowait()
    assert isinstance(event, _Asked)
    world.run(event.event(world.machine))
    assert world.machine.cluster.failed == set() and world.state(0).leader == 1


async def test_errors_of_brokers_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    world, shell, roles = in_term()
    metadata, stop = TellMetadata(1, (), ()), StopReplicas(1, {})
    storage = ErrorCode.KAFKA_STORAGE_ERROR
    await shell.hear(1, roles, answer({1: ErrorCode.UNKNOWN_SERVER_ERROR, 2: ErrorCode.UNKNOWN_SERVER_ERROR}))
    await shell.hear(1, roles, LeaderAndIsrResponse(int(ErrorCode.STALE_CONTROLLER_EPOCH)))
    await shell.hear(1, metadata, UpdateMetadataResponse(int(ErrorCode.STALE_BROKER_EPOCH)))
    await shell.hear(1, stop, StopReplicaResponse(partition_errors=[StopReplicaPartitionError("t", 2, int(storage))]))
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING] == [
        "broker 1 cannot do what it is told of 2 partitions: UNKNOWN_SERVER_ERROR, the first is t-1",
        "broker 1 rejects UpdateMetadata: STALE_BROKER_EPOCH",
        "broker 1 cannot do what it is told of 1 partitions: KAFKA_STORAGE_ERROR, the first is t-2",
    ]
    assert world.machine.cluster.failed == set()


async def test_what_a_broker_could_not_do_is_repeated_until_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the whole of a request, and the stop of a replica; what is outdated is not."""
    monkeypatch.setattr(repetition, "FIRST_PAUSE_S", 0.0)
    _, shell, roles = in_term()
    storage = int(ErrorCode.KAFKA_STORAGE_ERROR)
    fenced = answer({1: ErrorCode.FENCED_LEADER_EPOCH, 2: ErrorCode.FENCED_LEADER_EPOCH})
    for response in (fenced, LeaderAndIsrResponse(int(ErrorCode.STALE_BROKER_EPOCH))):
        await shell.hear(1, roles, response)
        assert await shell.repeated(1) == []
    for _ in range(3):
        await shell.hear(1, roles, answer({1: ErrorCode.UNKNOWN_SERVER_ERROR}))
        (again,) = [each for each in await shell.repeated(1) if isinstance(each, BecomeLeaderOrFollower)]
        assert [str(each.place) for each in again.updates] == ["t-1"] and not again.is_full
    await shell.hear(1, roles, LeaderAndIsrResponse(storage))
    told = await shell.repeated(1)
    assert [type(each) for each in told] == [TellMetadata, BecomeLeaderOrFollower]
    assert all(each.is_full for each in told if not isinstance(each, StopReplicas))
    stop = StopReplicas(1, {TopicPartition("gone", 0): (3, True), TopicPartition("t", 0): (0, False)})
    errors = [StopReplicaPartitionError("gone", 0, storage), StopReplicaPartitionError("t", 0, storage)]
    await shell.hear(1, stop, StopReplicaResponse(partition_errors=errors))
    assert await shell.repeated(1) == [StopReplicas(1, {TopicPartition("gone", 0): (3, True)})]


# -- Full disks


def answer_full(world: World, broker: int, *indexes: int) -> None:
    """Let a broker answer that its disk has no room for these partitions, and has room for all others."""
    full = [TopicPartition("t", each) for each in indexes]
    back = [each for each in world.machine.cluster.states if each not in full]
    world.run(world.machine.replicas_answered(broker, registered(world, broker), (), back, full))


def registered(world: World, broker: int) -> int:
    return world.machine.cluster.live[broker].epoch


def led(world: World, index: int = 0) -> tuple[int, tuple[int, ...]]:
    state = world.state(index)
    return state.leader, state.isr


def test_a_full_leader_makes_place_for_one_in_sync_and_comes_back_with_room() -> None:
    world = leading()
    answer_full(world, 1, 0)
    assert led(world) == (2, (2, 3))
    # Neither by the request, nor by itself, nor into the ISR while there is no room.
    state = world.state(0)
    world.run(world.machine.elect([PLACE], unclean=False))
    world.run(world.machine.balance(0))
    wanted = {PLACE: replace(state, isr=(2, 3, 1))}

    def alter() -> Any:
        return run_steps(world.zookeeper, world.machine.alter_partitions(2, registered(world, 2), wanted))

    assert alter() == {PLACE: ErrorCode.INELIGIBLE_REPLICA}
    assert led(world) == (2, (2, 3))
    answer_full(world, 1)
    assert alter() == {PLACE: ErrorCode.NONE} and led(world) == (2, (2, 3, 1))
    world.run(world.machine.balance(0))
    assert led(world) == (1, (2, 3, 1))


def test_where_all_in_sync_are_full_the_last_leads_on_until_another_has_room() -> None:
    world = leading()
    for broker in (1, 2, 3):
        answer_full(world, broker, 0)
    assert led(world) == (3, (3,))
    # The first with room comes into the ISR, and leads at once.
    answer_full(world, 2)
    wanted = {PLACE: replace(world.state(0), isr=(3, 2))}
    world.run(world.machine.alter_partitions(3, registered(world, 3), wanted))
    assert led(world) == (2, (2,))


def test_no_unclean_leader_takes_the_place_of_a_full_one() -> None:
    """The leader is the only one in sync, and full: it can be read, and another would lose records."""
    world = World(1)
    world.machine = machine.ControllerMachine(1, 2, lambda: True)
    alone = LeaderAndIsr(1, 0, (1,), 1, 0)
    world.zookeeper.put_by_hand(state_path(PLACE), encode_state(alone))
    world.run(world.machine.take_over())
    answer_full(world, 1, 0)
    world.run(world.machine.lead_everything())
    assert led(world) == (1, (1,))
