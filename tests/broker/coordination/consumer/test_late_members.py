"""Members of a consumer group that do not do in time what they have to do, where the log cannot be written."""

from __future__ import annotations

from typing import Any

from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from odradek.tests.broker.coordination.classic.world import TOPIC_ID, FakeContext, World


def beat(world: World, member: str, epoch: int, owned: list[int] | None = None) -> Any:
    """Send a heartbeat; one with epoch 0 joins."""
    request = ConsumerGroupHeartbeatRequest("g", member, epoch)
    if epoch == 0:
        request.rebalance_timeout_ms, request.subscribed_topic_names, request.topic_partitions = 20_000, ["t"], []
    elif owned is not None:
        request.topic_partitions = [TopicPartitions(TOPIC_ID, owned)]
    return world.groups.consumer_heartbeat(FakeContext(1), request)


def test_a_member_that_gives_nothing_up_goes_though_the_log_failed_when_its_time_was_over() -> None:
    world = World()
    world.groups.start()
    epoch = beat(world, "one", 0).member_epoch
    world.wait(2000)
    beat(world, "two", 0)
    world.wait(2000)
    beat(world, "one", epoch)
    world.log.hold = True
    world.wait(20_000)
    world.log.answer(KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "a test's disk is full"))
    world.log.hold = False
    body = world.groups.groups["g"].state.consumer
    assert body is not None and "one" in body.members
    for _ in range(12):
        world.wait(2000)
        beat(world, "one", epoch)
        beat(world, "two", body.members["two"].current.epoch)
    assert "one" not in body.members
