"""Members of a consumer group that do not do in time what they have to do, where the log cannot be written."""

from __future__ import annotations

from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.tests.broker.coordination.classic.world import World


def test_a_member_that_gives_nothing_up_goes_though_the_log_failed_when_its_time_was_over() -> None:
    world = World()
    world.groups.start()
    epoch = world.beat("one", rebalance_timeout_ms=20_000).member_epoch
    world.wait(2000)
    world.beat("two", rebalance_timeout_ms=20_000)
    world.wait(2000)
    world.beat("one", epoch)
    world.log.hold = True
    world.wait(20_000)
    world.log.answer(KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "a test's disk is full"))
    world.log.hold = False
    body = world.groups.groups["g"].state.consumer
    assert body is not None and "one" in body.members
    for _ in range(12):
        world.wait(2000)
        world.beat("one", epoch)
        world.beat("two", body.members["two"].current.epoch)
    assert "one" not in body.members
