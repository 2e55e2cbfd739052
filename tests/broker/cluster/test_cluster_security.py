"""ACLs and SCRAM passwords of a cluster: every broker writes them, and every broker acts on them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from hashlib import pbkdf2_hmac
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from odradek.broker import Broker
from odradek.broker.cluster import security_steps
from odradek.broker.cluster.config_watch import ConfigWatch
from odradek.broker.cluster.first_users import set_password
from odradek.broker.cluster.security import ClusterSecurity
from odradek.broker.cluster.security_steps import change_acls, change_entity
from odradek.broker.cluster.security_znodes import encode_credential, pattern_of
from odradek.broker.cluster.znodes import encode_config, encode_config_change
from odradek.broker.log_dirs.data_dir import StartError
from odradek.broker.quotas.entities import Entity
from odradek.broker.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from odradek.broker.security.principals import user
from odradek.broker.security.sasl.scram import credential_of
from odradek.broker.topics.cluster_topics import ClusterTopics
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryData, OpData
from odradek.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from odradek.protocol.messages.describe_acls import DescribeAclsRequest
from odradek.protocol.messages.describe_client_quotas import EntityData
from odradek.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from odradek.testing.zookeeper_session import ModelledSession
from odradek.tests.support.brokers.connections import acceptor
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.clusters.secure_members import BROKER, PASSWORD, SecureMembers, secure_members
from odradek.tests.support.clusters.steps import run_steps
from odradek.tests.support.waiting import until
from odradek.zookeeper.operations import Operation as Step

READ, ALLOW = int(Operation.READ), int(Permission.ALLOW)
AUTHORIZER = {
    "authorizer_class_name": "kafka.security.authorizer.AclAuthorizer",
    "super_users": "User:broker;User:ANONYMOUS",
}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[SecureMembers]:
    async with secure_members(tmp_path) as made:
        yield made


def acl(name: str = "orders", pattern: PatternType = PatternType.LITERAL, who: str = "alice") -> Acl:
    return Acl(int(ResourceType.TOPIC), name, int(pattern), f"User:{who}", "*", READ, ALLOW)


def creation(each: Acl) -> AclCreation:
    return AclCreation(*each[:2], each.pattern_type, *each[3:])


async def create(raw: Raw, *acls: Acl) -> list[int]:
    response = await raw.ask(ApiKey.CREATE_ACLS, 3, CreateAclsRequest([creation(each) for each in acls]))
    return [each.error_code for each in response.results]


async def delete(raw: Raw, name: str | None) -> Any:
    wanted = DeleteAclsFilter(int(ResourceType.TOPIC), name, int(PatternType.ANY), None, None, 1, 1)
    return (await raw.ask(ApiKey.DELETE_ACLS, 3, DeleteAclsRequest([wanted]))).filter_results[0]


def may_read(broker: Broker, name: str, who: str = "alice") -> bool:
    authorizer = broker.services.authorizer
    assert authorizer is not None
    return authorizer.decide(user(who), "10.0.0.1", Operation.READ, ResourceType.TOPIC, name).is_allowed


async def start_two(cluster: SecureMembers) -> tuple[Broker, Broker]:
    return (
        await cluster.start(1, "SASL_PLAINTEXT", **AUTHORIZER),
        await cluster.start(2, "SASL_PLAINTEXT", **AUTHORIZER),
    )


async def test_acls_are_written_at_any_broker_and_count_at_every_broker(cluster: SecureMembers) -> None:
    first, second = await start_two(cluster)
    raw = await cluster.raw(second)
    assert await create(raw, acl(), acl(), acl("ord", PatternType.PREFIXED), acl(who="bob")) == [0, 0, 0, 0]
    # Here when the response comes, elsewhere with the notification.
    assert may_read(second, "orders") and may_read(second, "ord-1") and not may_read(second, "x")
    await until(lambda: may_read(first, "orders") and may_read(first, "ord-1"))
    kept = json.loads(cluster.ensemble.get("/kafka-acl/Topic/orders") or b"")
    assert [each["principal"] for each in kept["acls"]] == ["User:alice", "User:bob"]
    told = await raw.ask(ApiKey.DESCRIBE_ACLS, 3, DescribeAclsRequest(1, None, 1, None, None, 1, 1))
    assert [(each.resource_name, len(each.acls)) for each in told.resources] == [("orders", 2), ("ord", 1)]
    found = await delete(await cluster.raw(first), "orders")
    assert len(found.matching_acls) == 2 and not any(each.error_code for each in found.matching_acls)
    assert cluster.ensemble.get("/kafka-acl/Topic/orders") is None
    await until(lambda: not may_read(second, "orders", "bob"))


async def test_a_start_reads_what_was_there_before(cluster: SecureMembers) -> None:
    """Also a start after a kill: nothing of it is in the data directory."""
    first, _ = await start_two(cluster)
    raw = await cluster.raw(first)
    assert await create(raw, acl(), acl("o", PatternType.PREFIXED, "bob")) == [0, 0]
    await first.stop()
    third = await cluster.start(3, "SASL_PLAINTEXT", **AUTHORIZER)
    assert may_read(third, "orders") and may_read(third, "other", "bob")
    assert not third.services.metadata.acls


async def test_an_unknown_user_has_one_salt_at_every_broker_and_after_a_start(cluster: SecureMembers) -> None:
    """Several salts would tell that there is no such user."""

    def salt(broker: Broker) -> bytes:
        return acceptor(broker)._strangers.credential("SCRAM-SHA-512", "nobody").salt

    first, second = await start_two(cluster)
    salts = [salt(first), salt(second)]
    await first.stop()
    salts.append(salt(await cluster.start(3, "SASL_PLAINTEXT", **AUTHORIZER)))
    assert len(salts[0]) == 24 and set(salts) == {salts[0]}


async def test_names_that_no_znode_can_have_are_rejected(cluster: SecureMembers) -> None:
    raw = await cluster.raw((await start_two(cluster))[0])
    assert await create(raw, acl("a/b"), acl(".."), acl("a\x01"), acl("fine")) == [42, 42, 42, 0]


async def test_a_change_of_another_broker_is_never_overwritten(cluster: SecureMembers) -> None:
    """It comes between the look at the znode and the write."""
    ensemble, wanted, turns = cluster.ensemble, acl(who="bob"), count()

    def interfere(_: Step) -> None:
        if next(turns) == 1:
            run_steps(ensemble, change_acls(pattern_of(wanted), {acl()}, set()))

    found = run_steps(ensemble, change_acls(pattern_of(wanted), {wanted}, set()), interfere)
    assert [each.principal for each in found] == ["User:alice", "User:bob"]


async def test_a_znode_of_acls_that_makes_no_sense_ends_a_start(cluster: SecureMembers) -> None:
    """An ACL that denies may be in it."""
    cluster.ensemble.make("/kafka-acl/Topic/orders", b"{}")
    with pytest.raises(StartError, match="the cluster cannot be joined: the znode /kafka-acl/Topic/orders"):
        await start_two(cluster)


async def test_a_znode_that_breaks_later_leaves_the_acls_of_before(
    cluster: SecureMembers, caplog: pytest.LogCaptureFixture
) -> None:
    first, _ = await start_two(cluster)
    assert await create(await cluster.raw(first), acl()) == [0]
    cluster.ensemble.put_by_hand("/kafka-acl/Topic/orders", b"{}")
    security = first.services.security
    assert isinstance(security, ClusterSecurity)
    cluster.ensemble.make("/kafka-acl-changes/acl_changes_9999999999", b"TOPIC:orders")
    await security.read_changes()
    assert may_read(first, "orders")
    assert "the ACLs of orders stay as they were" in caplog.text


async def test_a_znode_that_makes_no_sense_keeps_no_other_change_from_a_broker(cluster: SecureMembers) -> None:
    """It was cut off, and somebody has taken other ACLs and passwords away meanwhile."""
    first, _ = await start_two(cluster)
    raw, security = await cluster.raw(first), first.services.security
    assert await create(raw, acl(), acl("other")) == [0, 0]
    assert await alter(raw, [], [upsertion("carol")]) == {"carol": 0}
    assert first.services.cluster is not None
    session = first.services.cluster.zookeeper
    assert isinstance(session, ModelledSession)
    session.lose()
    cluster.ensemble.put_by_hand("/kafka-acl/Topic/orders", b"{}")
    cluster.ensemble.delete_by_hand("/kafka-acl/Topic/other")
    cluster.ensemble.put_by_hand("/config/users/carol", b'{"version":1,"config":{}}')
    session.find()
    await until(lambda: not may_read(first, "other") and security.credential("SCRAM-SHA-256", "carol") is None)
    assert may_read(first, "orders")


async def test_configs_that_make_no_sense_leave_those_of_before(cluster: SecureMembers) -> None:
    """With the broker's own, retention would delete the records of a topic that keeps them for ever."""
    first, _ = await start_two(cluster)
    assert (await (await cluster.raw(first)).create_topic("t", 1, 2, retention_ms="-1")).error_code == 0
    await until(lambda: first.topics.get("t") is not None)
    topic, member = first.topics.get("t"), first.services.cluster
    assert topic is not None and member is not None and isinstance(member.zookeeper, ModelledSession)
    member.zookeeper.lose()
    cluster.ensemble.put_by_hand("/config/topics/t", b"{")
    cluster.ensemble.make("/config/brokers/<default>", encode_config({"message.max.bytes": "99000"}))
    member.zookeeper.find()
    # The configs of topics are read after it.
    await until(lambda: first.config.message_max_bytes == 99000)
    await member.admin.refresh_configs()
    assert topic.config.retention_ms == -1


async def test_configs_that_change_before_their_topic_is_known_are_those_that_it_gets(cluster: SecureMembers) -> None:
    """A broker that gets thousands of partitions has read their topics' configs seconds before."""
    services, ensemble = (await start_two(cluster))[0].services, cluster.ensemble
    assert isinstance(services.topics, ClusterTopics) and isinstance(services.security, ClusterSecurity)
    assert services.cluster is not None
    session = services.cluster.zookeeper
    watch = ConfigWatch(session, 1, services.topics, services.reconfiguration, services.security, lambda: None)
    ensemble.make("/config/topics/new", encode_config({"retention.ms": "1"}))
    configs = await watch.topic_configs(["new"])
    assert configs == {"new": {"retention.ms": "1"}}
    ensemble.put_by_hand("/config/topics/new", encode_config({"retention.ms": "2"}))
    ensemble.make("/config/changes/config_change_9999999999", encode_config_change("topics", "new"))
    await watch.read_changes()
    assert configs == {"new": {"retention.ms": "2"}}


async def test_notifications_of_long_ago_are_removed(cluster: SecureMembers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security_steps, "CHANGES_KEPT", 3)
    raw = await cluster.raw((await start_two(cluster))[0])
    for number in range(6):
        assert await create(raw, acl(str(number))) == [0]
    assert len(cluster.ensemble.children_of("/kafka-acl-changes")) == 3


# -- Passwords


def upsertion(name: str, mechanism: int = 1) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(name, mechanism, 4096, b"salt", b"salted")


async def alter(raw: Raw, deletions: list[Any], upsertions: list[Any]) -> dict[str, int]:
    request = AlterUserScramCredentialsRequest(deletions, upsertions)
    response = await raw.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request)
    return {each.user: each.error_code for each in response.results}


async def test_passwords_are_written_at_the_controller_and_count_at_every_broker(cluster: SecureMembers) -> None:
    first, second = await start_two(cluster)
    cluster.ensemble.make("/config/users/a%20b", b'{"version":1,"config":{"producer_byte_rate":"1024"}}')
    raw = await cluster.raw(first)
    # Two mechanisms of a user are two changes, as in Kafka 3.9.
    assert await alter(raw, [], [upsertion("a b"), upsertion("a b", 2), upsertion("c")]) == {"a b": 0, "c": 0}
    kept = json.loads(cluster.ensemble.get("/config/users/a%20b") or b"")["config"]
    assert sorted(kept) == ["SCRAM-SHA-256", "SCRAM-SHA-512", "producer_byte_rate"]
    await until(lambda: second.services.security.credential("SCRAM-SHA-512", "a b") is not None)
    told = await (await cluster.raw(second)).ask(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, DescribeUserScramCredentialsRequest(None)
    )
    assert sorted((each.user, len(each.credential_infos)) for each in told.results) == [("a b", 2), ("c", 1)]
    gone, missing = ScramCredentialDeletion("a b", 2), ScramCredentialDeletion("c", 2)
    assert await alter(raw, [gone, missing], []) == {"a b": 0, "c": int(ErrorCode.RESOURCE_NOT_FOUND)}
    await until(lambda: second.services.security.credential("SCRAM-SHA-512", "a b") is None)
    assert second.services.security.credential("SCRAM-SHA-256", "c") is not None


async def test_passwords_are_not_written_at_other_brokers(cluster: SecureMembers) -> None:
    _, second = await start_two(cluster)
    code = int(ErrorCode.NOT_CONTROLLER)
    assert await alter(await cluster.raw(second), [], [upsertion("a")]) == {"a": code}


async def test_brokers_log_in_with_a_password_that_was_there_before_the_first_start(cluster: SecureMembers) -> None:
    salted = pbkdf2_hmac("sha512", PASSWORD.encode(), b"salt", 4096)
    text = encode_credential(credential_of("SCRAM-SHA-512", salted, b"salt", 4096))
    steps = change_entity(f"users/{BROKER}", lambda present: {**present, "SCRAM-SHA-512": text})
    run_steps(cluster.ensemble, steps)
    first = await cluster.start(1, "SASL_SSL", "SCRAM-SHA-512", **AUTHORIZER)
    await cluster.start(2, "SASL_SSL", "SCRAM-SHA-512", **AUTHORIZER)
    raw = await cluster.raw(first)
    assert (await raw.create_topic("t", 2, 2)).error_code == 0
    replicas = first.services.replicas
    assert replicas is not None
    await until(lambda: all(len(each.isr) == 2 for each in replicas.view.topics["t"].partitions.values()))


async def test_a_user_that_cannot_be_read_is_left_out(cluster: SecureMembers, caplog: pytest.LogCaptureFixture) -> None:
    cluster.ensemble.make("/config/users/alice", b'{"version":1,"config":{"SCRAM-SHA-256":"salt=c2VjcmV0"}}')
    first, _ = await start_two(cluster)
    assert first.services.security.credential("SCRAM-SHA-256", "alice") is None
    assert "/config/users/alice cannot be read" in caplog.text and "c2VjcmV0" not in caplog.text


# -- Quotas


async def set_quota(raw: Raw, names: dict[str, str | None], **quotas: float) -> int:
    entity = [EntityData(*each) for each in names.items()]
    ops = [OpData(key, value, False) for key, value in quotas.items()]
    request = AlterClientQuotasRequest([EntryData(entity, ops)], False)
    return (await raw.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, request)).entries[0].error_code


async def test_quotas_are_written_at_any_broker_and_count_at_every_broker(cluster: SecureMembers) -> None:
    first, second = await start_two(cluster)
    raw = await cluster.raw(second)
    written = [
        ({"user": "a b"}, {"producer_byte_rate": 1024.0, "request_percentage": 12.5}),
        ({"user": "a b", "client-id": None}, {"consumer_byte_rate": 99.0}),
        ({"client-id": "c"}, {"consumer_byte_rate": 77.0}),
        ({"ip": None}, {"connection_creation_rate": 5.0}),
    ]
    for names, quotas in written:
        assert await set_quota(raw, names, **quotas) == 0
    contents = {
        "users/a%20b": {"producer_byte_rate": "1024", "request_percentage": "12.5"},
        "users/a%20b/clients/<default>": {"consumer_byte_rate": "99"},
        "clients/c": {"consumer_byte_rate": "77"},
        "ips/<default>": {"connection_creation_rate": "5"},
    }
    for place, configs in contents.items():
        kept: dict[str, Any] = json.loads(cluster.ensemble.get(f"/config/{place}") or b"")
        assert kept == {"version": 1, "config": configs}
    await until(lambda: len(first.services.security.quotas) == len(written))
    assert first.services.security.quotas == second.services.security.quotas
    # A restart reads them; a password of the user stays beside its quotas.
    assert await alter(await cluster.raw(first), [], [upsertion("a b")]) == {"a b": 0}
    third = await cluster.start(3, "SASL_PLAINTEXT", **AUTHORIZER)
    assert third.services.security.quotas == second.services.security.quotas
    assert third.services.quotas.most_fetched_bytes("x", "c", 10**9) < 10**9


async def test_a_quota_that_another_broker_has_changed_meanwhile_stays(cluster: SecureMembers) -> None:
    first, _ = await start_two(cluster)
    raw = await cluster.raw(first)
    assert await set_quota(raw, {"user": "a"}, producer_byte_rate=1.0) == 0
    # Nobody has told of it yet.
    changed = b'{"version":1,"config":{"producer_byte_rate":"1","consumer_byte_rate":"2"}}'
    cluster.ensemble.put_by_hand("/config/users/a", changed)
    assert await set_quota(raw, {"user": "a"}, producer_byte_rate=3.0) == 0
    kept = json.loads(cluster.ensemble.get("/config/users/a") or b"")["config"]
    assert kept == {"producer_byte_rate": "3", "consumer_byte_rate": "2"}


# -- From one broker to a cluster


async def test_what_a_broker_had_alone_becomes_the_clusters_once(cluster: SecureMembers) -> None:
    """A later start brings nothing back that was deleted meanwhile. What the cluster has, wins."""
    together = cluster.config(1, "SASL_PLAINTEXT", **AUTHORIZER)
    alone = replace(together, zookeeper_connect=None)
    kept, shared = credential_of("SCRAM-SHA-256", b"x", b"salt", 4096), Entity(user="alice")
    async with Broker(alone) as broker:
        security = broker.services.security
        await security.change_acls([acl(), acl("a/b")])
        await security.put_passwords([("alice", "SCRAM-SHA-256", kept), ("bob", "SCRAM-SHA-256", kept)])
        await security.put_quotas(
            [(shared, {"producer_byte_rate": 1.0}), (Entity(ip="10.0.0.1"), {"connection_creation_rate": 2.0})]
        )
    theirs = credential_of("SCRAM-SHA-256", b"other", b"salt", 4096)
    configs = {"SCRAM-SHA-256": encode_credential(theirs)}
    cluster.ensemble.make("/config/users/alice", json.dumps({"version": 1, "config": configs}).encode())
    async with Broker(together) as broker:
        security = broker.services.security
        assert list(security.acls) == [acl()]
        assert security.credential("SCRAM-SHA-256", "alice") == theirs
        assert security.credential("SCRAM-SHA-256", "bob") == kept
        assert security.quotas[shared] == {"producer_byte_rate": 1.0}
        # No znode can have this name: it stays for the day on which the broker is alone again.
        assert list(broker.services.metadata.acls) == [acl("a/b")]
        await security.change_acls([], [acl()])
        await security.put_passwords([("bob", "SCRAM-SHA-256", None)])
    async with Broker(together) as broker:
        assert not broker.services.security.acls
        assert broker.services.security.credential("SCRAM-SHA-256", "bob") is None


async def test_a_first_password_is_written_before_the_first_broker(cluster: SecureMembers) -> None:
    salted = pbkdf2_hmac("sha256", PASSWORD.encode(), b"salt", 4096)
    config = cluster.config(1, "SASL_PLAINTEXT", "SCRAM-SHA-256", **AUTHORIZER)
    await set_password(config, BROKER, "SCRAM-SHA-256", credential_of("SCRAM-SHA-256", salted, b"salt", 4096))
    first = await cluster.start(1, "SASL_PLAINTEXT", "SCRAM-SHA-256", **AUTHORIZER)
    second = await cluster.start(2, "SASL_PLAINTEXT", "SCRAM-SHA-256", **AUTHORIZER)
    assert first.services.replicas is not None and second.services.replicas is not None
