"""The assignor that most members ask for: another one raises the epoch of the group, as in Kafka 4.4."""

from __future__ import annotations

from odradek.tests.broker.coordination.classic.world import World


async def test_another_assignor_raises_the_epoch_and_a_tie_does_not_move() -> None:
    world = World()
    world.config.group_consumer_assignment_interval_ms = 0
    world.groups.start()
    world.topics.add("t", 4)
    world.beat("m1")
    world.beat("m2")
    assert vote(world, "m1", "uniform") == 3, "it is the default"
    assert vote(world, "m1", "range") == vote(world, "m1", "range") == 4
    assert vote(world, "m2", "range") == vote(world, "m1", None) == 4
    # Kafka 4.4.0 raises it with every heartbeat of m1 from here on.
    assert vote(world, "m2", "uniform") == 5
    assert vote(world, "m1", None) == vote(world, "m2", None) == vote(world, "m1", "range") == 5
    assert vote(world, "m2", "range") == 6


def vote(world: World, member: str, assignor: str | None) -> int:
    """Send a heartbeat that asks for an assignor. Return the epoch of the group."""
    body = world.groups.groups["g"].state.consumer
    assert body is not None
    response = world.beat(member, body.members[member].current.epoch, server_assignor=assignor)
    assert response.error_code == 0, response
    return body.epoch
