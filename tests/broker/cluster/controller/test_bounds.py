"""What ZooKeeper would not take is refused with words, and the controller goes on."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.broker.cluster.config_watch import write_config
from odradek.broker.cluster.controller.topic_changes import NewTopic, add_partitions, create_topic
from odradek.broker.cluster.security_steps import change_acls, change_entity
from odradek.broker.cluster.security_znodes import pattern_of
from odradek.broker.cluster.znodes import REASSIGN_PARTITIONS, TopicPartition, encode_reassignment
from odradek.broker.security.acls import Acl
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.tests.broker.cluster.controller.test_machine import World
from odradek.zookeeper import operations
from odradek.zookeeper.operations import Failure, Steps, TooLarge, WriteAll


@pytest.fixture
def world() -> World:
    made = World(3)
    made.run(made.machine.take_over())
    made.messages()
    return made


def limit(monkeypatch: pytest.MonkeyPatch, size: int = 300) -> None:
    """Let ZooKeeper take so many bytes at once: more than the present assignment, less than a larger one."""
    monkeypatch.setattr(operations, "MAX_WRITE_BYTES", size)


@pytest.mark.parametrize("validate_only", [True, False])
def test_a_topic_is_neither_made_nor_grown_beyond_what_zookeeper_takes(
    world: World, monkeypatch: pytest.MonkeyPatch, validate_only: bool
) -> None:
    limit(monkeypatch)
    before = dict(world.zookeeper.nodes)
    for steps in (
        create_topic(world.machine, NewTopic("u", 50, 3, {}), validate_only=validate_only),
        add_partitions(world.machine, "t", 50, None, validate_only=validate_only),
    ):
        with pytest.raises(TooLarge, match="and ZooKeeper takes 300 at once") as raised:
            world.run(steps)
        assert raised.value.code is ErrorCode.POLICY_VIOLATION
    assert world.zookeeper.nodes == before
    assert not world.messages()


def test_brokers_that_nobody_knows_are_refused_and_few_of_them_named(world: World) -> None:
    chosen = {0: tuple(range(1, 300))}
    for validate_only in (True, False):
        with pytest.raises(KafkaError, match=r"Unknown broker\(s\) .*: 4, 5, .* 13, \.\.\.\.") as raised:
            world.run(create_topic(world.machine, NewTopic("u", 1, 1, {}, chosen), validate_only=validate_only))
        assert raised.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_reassignment_that_does_not_fit_is_an_error_of_its_partition(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, unknown = TopicPartition("t", 0), TopicPartition("t", 9)
    limit(monkeypatch, 250)
    steps = world.machine.reassign({place: (1,), unknown: (1,)})
    errors: dict[Any, KafkaError] = {}

    def note() -> Steps[None]:
        errors.update((yield from steps))

    world.run(note())
    assert errors[place].code is ErrorCode.POLICY_VIOLATION
    assert errors[unknown].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    # An operator's wish, of which a new controller must not fail either.
    world.zookeeper.make(REASSIGN_PARTITIONS, encode_reassignment({place: (1,)}))
    world.run(world.machine.reassignment.take_up())
    assert world.zookeeper.get(REASSIGN_PARTITIONS) is None
    assert world.machine.cluster.replicas[place].replicas == (1, 2, 3)


def test_configs_acls_and_passwords_that_do_not_fit_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch)
    before = dict(world.zookeeper.nodes)
    acls = {Acl(2, "t", 3, f"User:{number}", "*", 3, 3) for number in range(20)}
    for steps in (
        write_config("topics", "t", {"retention.ms": "1" * 300}),
        change_acls(pattern_of(next(iter(acls))), acls, set()),
        change_entity("users/alice", lambda _: {"SCRAM-SHA-256": "x" * 300}),
    ):
        with pytest.raises(TooLarge):
            world.run(steps)
    assert world.zookeeper.nodes == before


def test_configs_whose_znodes_are_removed_again_and_again_are_an_error() -> None:
    steps = write_config("topics", "t", {"retention.ms": "1"})
    operation, tries = next(steps), 0
    with pytest.raises(KafkaError, match="the znode /config/topics/t is removed by others all the time: try again"):
        while True:
            is_whole = isinstance(operation, WriteAll) and len(operation.groups[0]) == 2
            tries += is_whole
            operation = steps.send([Failure("/config/topics/t", missing=True)] if is_whole else [None])
    assert tries == 2
