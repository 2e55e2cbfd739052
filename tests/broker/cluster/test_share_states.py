"""Share states in a cluster, with a real ZooKeeper: brokers ask the coordinator of each key, and it moves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from odradek.broker import Broker
from odradek.broker.coordination.share_states.coordinator import key_text
from odradek.broker.coordination.share_states.share_state import Progress, ShareKey, StateBatch
from odradek.broker.share_partitions import dead_letter_topics
from odradek.broker.topics.topic_names import SHARE_STATE_TOPIC
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from odradek.tests.broker.cluster.test_changes import assign, view
from odradek.tests.broker.cluster.test_member import WAIT_S
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.clients.share_member import REJECT, ShareMember, acquired, data_of
from odradek.tests.support.clusters.members import Members
from odradek.tests.support.waiting import until

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


async def test_the_leader_of_a_record_writes_its_dead_letter_to_the_leader_of_another_partition(
    cluster: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letter_topics, "PAUSES_S", (0.1,) * 50)
    own = {**OWN, "errors_deadletterqueue_auto_create_topics_enable": True, "num_partitions": 2}
    own["default_replication_factor"] = 2
    first, second = await cluster.start(1, **own), await cluster.start(2, **own)
    raw = await cluster.raw(first)
    await assign(raw, [[1, 2]])
    await until(lambda: second.topics.get("t") is not None and first.topics.get("t") is not None)
    for name in ("dlq.g", "dlq.h"):
        for broker in (first, second):
            group = name.removeprefix("dlq.")
            broker.services.metadata.put_group_configs(group, {"errors.deadletterqueue.topic.name": name})
    topic = first.topics.get("t")
    assert topic is not None
    await raw.produce("t", batch_of(*[b"x"] * 4))
    made = {"errors.deadletterqueue.group.enable": "true"}
    asked = CreatableTopic("dlq.g", assignments=[CreatableReplicaAssignment(0, [2, 1])])
    asked.num_partitions = asked.replication_factor = -1
    asked.configs = [CreatableTopicConfig(*each) for each in made.items()]
    controller = await cluster.raw(first if first.services.replicas.view.controller_id == 1 else second)  # type: ignore[union-attr]
    response = await controller.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([asked], 10_000))
    assert response.topics[0].error_code == 0
    persister = first.services.coordinators.persister
    for group in ("g", "h"):
        await in_time(lambda group=group: persister.initialize(ShareKey(group, topic.id, 0), 1, 0))
        ann = ShareMember(await cluster.raw(first), group, "ann", topic.id)
        assert (await ann.fetch(0, max_records=0)).error_code == 0
        async with asyncio.timeout(WAIT_S):
            while not acquired(await ann.fetch(max_wait_ms=50)):
                pass
        assert data_of(await ann.acknowledge(0, (0, 3, (REJECT,)))).error_code == 0
        actor = first.services.share_leader.partitions.find(group, (topic.id, 0))
        assert actor is not None
        async with asyncio.timeout(WAIT_S):
            await actor.settled()
        leader = second if group == "g" else None
        found = [
            record
            for broker in (first, second)
            for partition in broker.topics.get(f"dlq.{group}").partitions  # type: ignore[union-attr]
            if broker is leader or (leader is None and partition.is_online and partition.replication is not None)
            for _, records in partition.replay_batches()
            for record in records
        ]
        assert len({dict(each.headers)["__dlq.errors.offset"] for each in found}) == 4
    assert first.topics.get("dlq.h").record.configs == {**made, "message.timestamp.type": "CreateTime"}  # type: ignore[union-attr]
