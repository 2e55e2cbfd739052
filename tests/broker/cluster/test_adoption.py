"""The topics of a broker that was alone become those of a cluster, however many partitions they have."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.broker.cluster import adoption
from odradek.broker.cluster.adoption import adopt_topic
from odradek.broker.cluster.controller.machine import ControllerMachine
from odradek.broker.cluster.znodes import (
    Registration,
    Replicas,
    TopicPartition,
    broker_path,
    decode_assignment,
    decode_state,
    encode_registration,
    state_path,
    topic_path,
)
from odradek.testing.zookeeper import FakeZookeeper
from odradek.zookeeper.operations import Create, Steps, WriteAll

TOPIC_ID = bytes(range(16))


def run(fake: FakeZookeeper, session: int, steps: Steps[Any], operations: int = 1_000_000) -> Any:
    """Run steps, at most so many operations of them: then the broker is killed."""
    result: object = None
    for _ in range(operations):
        try:
            operation = steps.send(result)
        except StopIteration as end:
            return end.value
        result = fake.run(session, operation)
    return None


def adopt(fake: FakeZookeeper, session: int, partitions: int, topic_id: bytes = TOPIC_ID, **bound: int) -> Any:
    return run(fake, session, adopt_topic("t", topic_id, partitions, {"retention.ms": "7"}, 1, 4), **bound)


def register(fake: FakeZookeeper, broker: int) -> None:
    registration = encode_registration(Registration(broker, ("PLAINTEXT://h:1",), {"PLAINTEXT": "PLAINTEXT"}))
    fake.run(fake.connect(), WriteAll(((Create(broker_path(broker), registration, ephemeral=True),),)))


def check_whole(fake: FakeZookeeper, partitions: int) -> None:
    assignment = decode_assignment("t", fake.get(topic_path("t")))
    assert assignment.topic_id == TOPIC_ID
    assert assignment.partitions == dict.fromkeys(range(partitions), Replicas((1,)))
    for index in (0, partitions - 1):
        data = fake.get(state_path(TopicPartition("t", index)))
        state = decode_state(TopicPartition("t", index), data, 0)
        # A controller that has come before the broker may have noted that it is away.
        assert (state.leader, state.leader_epoch) in ((1, 4), (-1, 5)) and state.isr == (1,)


def test_a_topic_of_many_partitions_is_taken_over() -> None:
    """No operation has more than ZooKeeper takes, which is 1 MB."""
    fake = FakeZookeeper()
    assert adopt(fake, fake.connect(), 10_000) is True
    check_whole(fake, 10_000)


@pytest.mark.parametrize("operations", range(1, 14))
def test_a_start_goes_on_where_an_earlier_one_was_killed(operations: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller that comes in between begins no partition at epoch 0."""
    monkeypatch.setattr(adoption, "_PARTITIONS_AT_ONCE", 5)
    fake = FakeZookeeper()
    session = fake.connect()
    adopt(fake, session, 12, operations=operations)
    register(fake, 2)
    machine = ControllerMachine(2, 1)
    run(fake, session, machine.take_over())
    adopt(fake, session, 12)
    check_whole(fake, 12)
    run(fake, session, machine.partitions_changed("t"))
    register(fake, 1)
    run(fake, session, machine.brokers_changed())
    states = machine.cluster.states.values()
    assert len(states) == 12
    assert {(each.leader, each.leader_epoch >= 4) for each in states} == {(1, True)}


def test_a_topic_that_the_cluster_has_already_stays_as_it_is() -> None:
    fake = FakeZookeeper()
    session = fake.connect()
    assert adopt(fake, session, 3) is True
    assert adopt(fake, session, 3) is False
    assert adopt(fake, session, 5, topic_id=bytes(16)) is False
    check_whole(fake, 3)
