"""Members that an administrator removes, and producers that it fences, at our broker and at a real Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from odradek.client import Admin, Consumer, NewTopic, Producer
from odradek.client.errors import ItemsFailed, KafkaError, ProducerFenced
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.tests.support.brokers.process import BrokerProcess, KafkaProcess
from odradek.tests.support.clients.others import require
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.wire import Call


@pytest.fixture(scope="module", params=[BrokerProcess, KafkaProcess], ids=["odradek", "kafka"])
def either(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of our broker, then that of a Kafka."""
    if request.param is KafkaProcess:
        require("java")
    process = request.param(tmp_path_factory.mktemp("broker"), group_initial_rebalance_delay_ms=0).start()
    yield process.address
    process.close()


async def test_a_removed_member_gives_its_place_up(either: str) -> None:
    topic = uuid4().hex
    options: dict[str, Any] = {"bootstrap_servers": either, "group_id": topic, "heartbeat_interval_ms": 60_000}
    async with Admin(either) as admin:
        await admin.create_topics([NewTopic(topic, 2)])
        static, dynamic = (
            Consumer(topic, group_instance_id="one", session_timeout_ms=300_000, **options),
            Consumer(topic, session_timeout_ms=300_000, **options),
        )
        async with static:
            while not static.assignment():
                await static.getmany(timeout_ms=20)
        [described] = (await admin.describe_groups(topic)).values()
        assert [each.group_instance_id for each in described.members] == ["one"], "a static member stays"
        await admin.remove_group_members(topic, instance_ids=["one"])
        async with dynamic:
            while len(dynamic.assignment()) < 2:
                await dynamic.getmany(timeout_ms=20)
            [member] = (await admin.describe_groups(topic))[topic].members
            with pytest.raises(ItemsFailed) as caught:
                await admin.remove_group_members(topic, member.member_id, "nobody", reason="a test")
            assert {name: error.code for name, error in caught.value.failures.items()} == {
                "nobody": ErrorCode.UNKNOWN_MEMBER_ID
            }
            assert (await admin.describe_groups(topic))[topic].members == ()


async def test_a_fenced_producer_cannot_commit(either: str) -> None:
    topic = uuid4().hex
    async with Admin(either) as admin:
        await admin.create_topics([NewTopic(topic, 1)])
        producers = [Producer(either, transactional_id=f"{topic}-{number}") for number in range(2)]
        for producer in producers:
            await producer.start()
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"x")
        await admin.fence_producers(f"{topic}-0", f"{topic}-1")
        for producer in producers:
            with pytest.raises(ProducerFenced):
                await producer.commit_transaction()
            await producer.stop()


async def test_a_broker_too_old_to_remove_members_is_told() -> None:
    async with FakeCluster() as cluster, Admin(cluster.address) as admin:
        cluster.versions[ApiKey.LEAVE_GROUP] = (0, 2)
        with pytest.raises(KafkaError, match="cannot remove members"):
            await admin.remove_group_members("g", "m")
        assert cluster.calls(ApiKey.LEAVE_GROUP) == []


async def test_a_coordinator_that_moves_is_found_again() -> None:
    async def moved(call: Call) -> Any:
        response = await call.default()
        response.error_code = ErrorCode.NOT_COORDINATOR
        return response

    async with FakeCluster({"t": 1}) as cluster, Admin(cluster.address, retry_backoff_ms=1) as admin:
        cluster.on(ApiKey.INIT_PRODUCER_ID, moved)
        await admin.fence_producers("x")
        assert len(cluster.calls(ApiKey.FIND_COORDINATOR)) == 2
