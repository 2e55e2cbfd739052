"""Share states in a cluster, with a real ZooKeeper: brokers ask the coordinator of each key, and it moves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from odradek.broker import Broker
from odradek.broker.coordination.share_states.coordinator import key_text
from odradek.broker.coordination.share_states.persister import Progress, ShareKey, StateBatch
from odradek.broker.topics.topic_names import SHARE_STATE_TOPIC
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from odradek.tests.broker.cluster.test_changes import assign, view
from odradek.tests.broker.cluster.test_member import WAIT_S, until
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.clusters.members import Members

OWN = {
    "share_coordinator_state_topic_num_partitions": 2,
    "share_coordinator_state_topic_replication_factor": 2,
    "share_coordinator_state_topic_min_isr": 1,
    "offsets_topic_replication_factor": 2,
}
BATCHES = [StateBatch(0, 4, 2, 1), StateBatch(5, 9, 0, 2)]


async def in_time(ask: Callable[[], Awaitable[Any]]) -> Any:
    """Ask again while a coordinator comes up or moves."""
    for _ in range(20):
        try:
            return await ask()
        except KafkaError as error:
            assert error.retriable, error
    return await ask()


async def test_every_broker_reaches_every_state_and_states_move_with_their_leaders(cluster: Members) -> None:
    first = await cluster.start(1, **OWN)
    second = await cluster.start(2, **OWN)
    await assign(await cluster.raw(first), [[1, 2], [2, 1], [1, 2], [2, 1]])
    await until(lambda: second.topics.get("t") is not None)
    topic = first.topics.get("t")
    assert topic is not None
    keys = [ShareKey("g", topic.id, index) for index in range(4)]
    brokers = (first, second, first, second)
    for number, (broker, key) in enumerate(zip(brokers, keys, strict=True)):
        persister = broker.services.coordinators.persister
        await in_time(lambda persister=persister, key=key: persister.initialize(key, 1, 0))
        await in_time(lambda persister=persister, key=key: persister.read(key, 3))
        await persister.write(key, 1, 3, lambda number=number: Progress(number, 5), BATCHES)
    leaders = {leader_of(first, key) for key in keys}
    assert leaders == {1, 2}
    for broker in (first, second):
        for number, key in enumerate(keys):
            state = await in_time(lambda key=key, broker=broker: broker.services.coordinators.persister.read(key, 3))
            assert (state.state_epoch, state.start_offset, state.batches[-1]) == (1, number, BATCHES[1])
    await first.stop()
    for number, key in enumerate(keys):
        summary = await in_time(lambda key=key: second.services.coordinators.persister.read_summary(key))
        assert (summary.leader_epoch, summary.start_offset, summary.delivery_complete_count) == (3, number, 5)


def leader_of(broker: Broker, key: ShareKey) -> int:
    index = broker.services.share_states.shards.partition_of(key_text(key))
    return view(broker, SHARE_STATE_TOPIC, index).leader


async def test_a_share_group_of_a_cluster_gets_partitions(cluster: Members) -> None:
    first = await cluster.start(1, **OWN)
    second = await cluster.start(2, **OWN)
    raw = await cluster.raw(first)
    await assign(raw, [[1, 2], [2, 1]])
    raw = await coordinator(cluster, (first, second), raw)
    epoch, found = 0, None

    async def beat() -> bool:
        nonlocal epoch, found
        request = ShareGroupHeartbeatRequest("g", "m", epoch, None, None if epoch else ["t"])
        response = await raw.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, request)
        if response.error_code == 0:
            epoch = response.member_epoch
        if response.assignment is not None and response.assignment.topic_partitions:
            found = response.assignment.topic_partitions[0].partitions
        return found is not None

    await eventually(beat)
    assert found == [0, 1]


async def eventually(is_true: Callable[[], Awaitable[bool]]) -> None:
    """Ask until the answer is yes, with a bound that only a hanging test meets."""
    async with asyncio.timeout(WAIT_S):
        while not await is_true():
            await asyncio.sleep(0.02)


async def coordinator(cluster: Members, brokers: tuple[Broker, ...], raw: Raw) -> Raw:
    """Return a connection to the coordinator of group g, once there is one."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    node_id = -1

    async def ask() -> bool:
        nonlocal node_id
        (answer,) = (await raw.ask(ApiKey.FIND_COORDINATOR, 6, request)).coordinators
        node_id = answer.node_id
        return answer.error_code == 0

    await eventually(ask)
    return await cluster.raw(next(each for each in brokers if each.node_id == node_id))
