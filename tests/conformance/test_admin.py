"""The admin client and a real Kafka: quotas, SCRAM users, ACLs, features, leaders, reassignments, log directories."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from odradek.client import (
    ANY_ENTITY,
    DEFAULT_ENTITY,
    Acl,
    AclFilter,
    Admin,
    KafkaError,
    NewTopic,
    QuotaEntity,
    ScramPassword,
    TopicPartition,
)
from odradek.client.errors import ItemsFailed
from odradek.protocol.errors import ErrorCode
from odradek.tests.support.brokers.process import KafkaProcess
from odradek.tests.support.clients.others import require


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaProcess]:
    """A Kafka with an authorizer and two data directories."""
    require("java")
    folder = tmp_path_factory.mktemp("kafka")
    process = KafkaProcess(
        folder,
        log_dirs=f"{folder}/one,{folder}/two",
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:ANONYMOUS",
    )
    try:
        process.start()
        yield process
    finally:
        process.close()


@pytest.fixture
async def admin(kafka: KafkaProcess) -> AsyncIterator[Admin]:
    async with Admin(kafka.address, default_api_timeout_ms=10_000) as each:
        yield each


async def until(ask: Callable[[], Awaitable[object]], wanted: object) -> None:
    """Ask until the answer is there: a broker learns a moment later what the controller has done."""
    async with asyncio.timeout(30):
        while await ask() != wanted:
            await asyncio.sleep(0.05)


async def test_quotas(admin: Admin) -> None:
    name = uuid4().hex
    user, both = QuotaEntity(user=name), QuotaEntity(user=name, client_id=DEFAULT_ENTITY)
    await admin.alter_client_quotas({user: {"producer_byte_rate": 1.5e6}, both: {"consumer_byte_rate": 7}})
    await until(
        lambda: admin.describe_client_quotas(user=name),
        {user: {"producer_byte_rate": 1.5e6}, both: {"consumer_byte_rate": 7.0}},
    )
    assert await admin.describe_client_quotas(user=name, strict=True) == {user: {"producer_byte_rate": 1.5e6}}
    assert both in await admin.describe_client_quotas(user=ANY_ENTITY, client_id=DEFAULT_ENTITY)
    await admin.alter_client_quotas({user: {"producer_byte_rate": None}}, validate_only=True)
    with pytest.raises(ItemsFailed) as caught:
        await admin.alter_client_quotas({user: {"no_such_quota": 1}, both: {"consumer_byte_rate": None}})
    assert [(entity, error.code) for entity, error in caught.value.failures.items()] == [
        (user, ErrorCode.INVALID_REQUEST)
    ]
    await until(lambda: admin.describe_client_quotas(user=name), {user: {"producer_byte_rate": 1.5e6}})


async def test_scram_users(admin: Admin) -> None:
    one, other = uuid4().hex, uuid4().hex
    await admin.alter_user_scram_credentials(
        ScramPassword(one, "SCRAM-SHA-256", "x", iterations=8192),
        ScramPassword(one, "SCRAM-SHA-512", "x"),
        ScramPassword(other, "SCRAM-SHA-512", "x"),
    )
    both = {one: {"SCRAM-SHA-256": 8192, "SCRAM-SHA-512": 4096}, other: {"SCRAM-SHA-512": 4096}}
    await until(lambda: described(admin, one, other), both)
    assert set(both) <= set(await admin.describe_user_scram_credentials())
    await admin.alter_user_scram_credentials(ScramPassword(other, "SCRAM-SHA-512"))
    with pytest.raises(ItemsFailed) as caught:
        await admin.alter_user_scram_credentials(
            ScramPassword(one, "SCRAM-SHA-256", "y", iterations=1), ScramPassword(other, "SCRAM-SHA-256")
        )
    assert {name: error.code for name, error in caught.value.failures.items()} == {
        one: ErrorCode.UNACCEPTABLE_CREDENTIAL,
        other: ErrorCode.RESOURCE_NOT_FOUND,
    }
    with pytest.raises(KafkaError, match="has no SCRAM password") as missing:
        await admin.describe_user_scram_credentials("nobody")
    assert missing.value.code is ErrorCode.RESOURCE_NOT_FOUND


async def described(admin: Admin, *users: str) -> object:
    try:
        return await admin.describe_user_scram_credentials(*users)
    except KafkaError as error:
        return error


async def test_acls(admin: Admin) -> None:
    prefix = uuid4().hex
    read = Acl("User:alice", "read", "topic", prefix, pattern_type="prefixed")
    deny = Acl("User:bob", "all", "group", f"{prefix}-g", "deny", "127.0.0.1")
    await admin.create_acls(read, deny)
    await until(lambda: admin.describe_acls(AclFilter(resource_name=prefix)), [read])
    applies = AclFilter(resource_type="topic", resource_name=f"{prefix}-more", pattern_type="match")
    assert await admin.describe_acls(applies) == [read]
    assert {read, deny} <= set(await admin.describe_acls())
    everything = AclFilter(principal="User:bob")
    assert (await admin.delete_acls(everything, applies)) == {everything: [deny], applies: [read]}
    with pytest.raises(KafkaError, match="was not created"):
        await admin.create_acls(Acl("no kind", "read", "topic", "t"))


async def test_features(admin: Admin) -> None:
    found = await admin.describe_features()
    feature = found["transaction.version"]
    assert feature.lowest <= feature.level <= feature.highest and feature.level >= 2
    await admin.update_features({"transaction.version": 1}, change="safe_downgrade", validate_only=True)
    with pytest.raises(KafkaError) as caught:
        await admin.update_features({"transaction.version": 99})
    assert caught.value.code in (ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FEATURE_UPDATE_FAILED)


async def test_leaders_and_reassignments(admin: Admin) -> None:
    topic = uuid4().hex
    await admin.create_topics([NewTopic(topic, 2)])
    one, other, missing = TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition(topic, 7)
    assert await admin.elect_leaders([one, other]) == []
    await admin.elect_leaders()
    with pytest.raises(ItemsFailed) as caught:
        await admin.elect_leaders([one, missing])
    assert set(caught.value.failures) == {missing} and caught.value.results[one] is False
    await admin.alter_partition_reassignments({one: [1]})
    assert await admin.list_partition_reassignments() == {}
    with pytest.raises(ItemsFailed) as caught:
        await admin.alter_partition_reassignments({one: [99], other: [1], missing: None})
    assert set(caught.value.failures) == {one, missing} and caught.value.results[other] is None


async def test_a_replica_moves_to_another_directory(admin: Admin) -> None:
    topic = uuid4().hex
    await admin.create_topics([NewTopic(topic, 1)])
    place = TopicPartition(topic, 0)

    async def where() -> str:
        found = await admin.describe_log_dirs(1, partitions=[place])
        return next((Path(each.path).name for each in found if each.replicas and not each.replicas[0].is_future), "")

    async with asyncio.timeout(30):
        while not (before := await where()):
            await asyncio.sleep(0.05)
    folders = {Path(each.path).name: each.path for each in await admin.describe_log_dirs(1)}
    target = "two" if before == "one" else "one"
    await admin.alter_replica_log_dirs({(1, place): folders[target]})
    await until(where, target)
    with pytest.raises(KafkaError) as caught:
        await admin.alter_replica_log_dirs({(1, place): "/nowhere"})
    assert caught.value.code is ErrorCode.LOG_DIR_NOT_FOUND
