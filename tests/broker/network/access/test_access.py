"""What an ACL means for requests: at once, on every connection, and after a restart."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.network import line_limit
from odradek.broker.network.access import caller
from odradek.broker.network.routes import CLUSTER_ROUTES, OWN_ROUTES, ROUTES
from odradek.broker.security.acls import CLUSTER_NAME, Acl, Operation, ResourceType
from odradek.broker.security.principals import ANONYMOUS
from odradek.protocol.apis import ApiKey, OwnApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.odradek_begin_backup import OdradekBeginBackupRequest
from odradek.protocol.messages.odradek_describe_queries import OdradekDescribeQueriesRequest
from odradek.protocol.messages.odradek_end_query_batch import OdradekEndQueryBatchRequest, Participant
from odradek.protocol.messages.odradek_join_query import OdradekJoinQueryRequest
from odradek.protocol.messages.odradek_lease_segments import OdradekLeaseSegmentsRequest
from odradek.protocol.messages.odradek_renew_lease import OdradekRenewLeaseRequest
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.fakes.clock import FakeClock
from odradek.tests.support.security.principals import allow, connect_as, forbid, secured

TOPIC, READ, WRITE, DESCRIBE = ResourceType.TOPIC, Operation.READ, Operation.WRITE, Operation.DESCRIBE
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture
async def admin(guarded: Broker) -> AsyncIterator[Raw]:
    async with await connect_as(guarded, "admin") as raw:
        await raw.create_topic("orders")
        await raw.create_topic("secrets")
        await raw.produce("orders", batch_of(b"a"))
        yield raw


@pytest.fixture
async def alice(guarded: Broker, admin: Raw) -> AsyncIterator[Raw]:
    async with await connect_as(guarded, "alice") as raw:
        yield raw


def test_every_route_says_what_it_requires() -> None:
    """A route cannot be made without an access. One that is open to all gives its reason."""
    for route in (*ROUTES, *CLUSTER_ROUTES, *OWN_ROUTES):
        assert route.access.needs
        assert route.access.check is not None or route.access.needs.startswith("nothing: ")


async def test_an_acl_counts_at_once_and_for_every_connection(guarded: Broker, admin: Raw, alice: Raw) -> None:
    assert (await alice.produce("orders", batch_of(b"b"))).error_code == DENIED
    creation = AclCreation(int(TOPIC), "orders", 3, "User:alice", "*", int(WRITE), 3)
    assert (await admin.ask(ApiKey.CREATE_ACLS, 3, CreateAclsRequest([creation]))).results[0].error_code == 0
    assert (await alice.produce("orders", batch_of(b"b"))).error_code == 0
    assert (await alice.fetch("orders", 0)).error_code == DENIED
    forbid(guarded, Acl(int(TOPIC), "orders", 3, "User:alice", "*", int(WRITE), 3))
    assert (await alice.produce("orders", batch_of(b"b"))).error_code == DENIED


async def test_acls_are_there_after_a_restart(config: BrokerConfig) -> None:
    async with Broker(secured(config)) as broker:
        kept = allow(broker, "alice", READ, TOPIC, "orders")
        forbid(broker, allow(broker, "bob", READ, TOPIC, "orders"))
    async with Broker(secured(config)) as broker:
        assert list(broker.services.metadata.acls) == [kept]
        async with await connect_as(broker, "alice") as raw:
            assert (await raw.fetch("orders", 0)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_everyone_may_use_what_has_no_acl_where_that_is_set(config: BrokerConfig) -> None:
    async with Broker(replace(secured(config), allow_everyone_if_no_acl_found=True)) as broker:
        async with await connect_as(broker, "alice") as raw:
            assert (await raw.create_topic("orders")).error_code == 0
            assert (await raw.produce("orders", batch_of(b"a"))).error_code == 0
            allow(broker, "bob", READ, TOPIC, "orders")
            assert (await raw.produce("orders", batch_of(b"a"))).error_code == DENIED


async def test_a_request_for_several_topics_is_answered_for_each(guarded: Broker, alice: Raw) -> None:
    allow(guarded, "alice", DESCRIBE, TOPIC, "orders")
    topics = [ListOffsetsTopic(name, [ListOffsetsPartition(0, timestamp=-1)]) for name in ("orders", "secrets")]
    response = await alice.ask(ApiKey.LIST_OFFSETS, 7, ListOffsetsRequest(topics=topics))
    found = {each.name: each.partitions[0] for each in response.topics}
    assert (found["orders"].error_code, found["orders"].offset) == (0, 1)
    assert (found["secrets"].error_code, found["secrets"].offset, found["secrets"].timestamp) == (DENIED, -1, -1)


async def test_all_topics_are_those_that_the_client_may_see(guarded: Broker, alice: Raw) -> None:
    allow(guarded, "alice", READ, TOPIC, "ord", prefixed=True)
    response = await alice.ask(ApiKey.METADATA, 9, MetadataRequest(None, include_topic_authorized_operations=True))
    (topic,) = response.topics
    assert (topic.name, topic.topic_authorized_operations) == ("orders", 1 << READ | 1 << DESCRIBE)
    named = MetadataRequest([MetadataRequestTopic(name="secrets"), MetadataRequestTopic(name="nothing")])
    response = await alice.ask(ApiKey.METADATA, 9, named)
    assert [(each.name, each.error_code) for each in response.topics] == [("secrets", DENIED), ("nothing", DENIED)]


async def test_a_fetch_session_learns_of_a_lost_right(guarded: Broker, alice: Raw) -> None:
    acl = allow(guarded, "alice", READ, TOPIC, "orders")
    wanted = FetchTopic("orders", partitions=[FetchPartition(0, fetch_offset=1, partition_max_bytes=1000)])
    first = await alice.ask(ApiKey.FETCH, 11, FetchRequest(session_epoch=0, topics=[wanted], max_bytes=1000))
    assert first.session_id and first.responses[0].partitions[0].error_code == 0

    def again(epoch: int) -> FetchRequest:
        return FetchRequest(session_id=first.session_id, session_epoch=epoch, max_bytes=1000)

    assert not (await alice.ask(ApiKey.FETCH, 11, again(1))).responses
    forbid(guarded, acl)
    response = await alice.ask(ApiKey.FETCH, 11, again(2))
    assert response.responses[0].partitions[0].error_code == DENIED
    allow(guarded, "alice", READ, TOPIC, "orders")
    response = await alice.ask(ApiKey.FETCH, 11, again(3))
    assert response.responses[0].partitions[0].error_code == 0


async def test_a_lost_right_ends_a_lease_when_it_is_renewed(guarded: Broker, alice: Raw) -> None:
    lease = OdradekLeaseSegmentsRequest(topic="orders", end_offset=1, max_files=1, current_leader_epoch=-1)
    assert (await alice.ask(OwnApiKey.ODRADEK_LEASE_SEGMENTS, 0, lease)).error_code == DENIED
    acl = allow(guarded, "alice", READ, TOPIC, "orders")
    leased = await alice.ask(OwnApiKey.ODRADEK_LEASE_SEGMENTS, 0, lease)
    renew = OdradekRenewLeaseRequest(leased.lease_id)
    assert (await alice.ask(OwnApiKey.ODRADEK_RENEW_LEASE, 0, renew)).error_code == 0
    forbid(guarded, acl)
    assert (await alice.ask(OwnApiKey.ODRADEK_RENEW_LEASE, 0, renew)).error_code == DENIED
    assert len(guarded.services.segment_leases) == 0


async def test_a_denial_is_one_line_of_the_audit_log(alice: Raw, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "odradek.authorizer"):
        await alice.fetch("orders", 0)
    (line,) = [each.getMessage() for each in caplog.records if each.name == "odradek.authorizer"]
    assert line == (
        "Principal = User:alice is Denied operation = READ from host = 127.0.0.1 "
        "on resource = TOPIC:orders for request = FETCH based on rule DefaultDeny"
    )


async def test_a_request_fills_no_log(alice: Raw, caplog: pytest.LogCaptureFixture) -> None:
    names = [f"line\n{at}" + "x" * 1000 for at in range(100)]
    with caplog.at_level(logging.INFO, "odradek.authorizer"):
        await alice.ask(ApiKey.METADATA, 9, MetadataRequest([MetadataRequestTopic(name=name) for name in names]))
    lines = [each.getMessage() for each in caplog.records if each.name == "odradek.authorizer"]
    assert len(lines) == caller.MAX_LINES
    assert all(line.isprintable() and len(line) < 1000 for line in lines)


async def test_a_client_that_is_denied_again_and_again_fills_no_log(
    config: BrokerConfig, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    async with Broker(secured(config), clock=clock) as broker, await connect_as(broker, "alice") as raw:
        with caplog.at_level(logging.INFO, "odradek.authorizer"):
            for _ in range(line_limit.DENIALS_PER_SECOND + 5):
                await raw.fetch("orders", 0)
            clock.advance(1000)
            await raw.fetch("orders", 0)
    lines = [each.getMessage() for each in caplog.records if each.name == "odradek.authorizer"]
    assert len(lines) == line_limit.DENIALS_PER_SECOND + 1
    assert lines[-1].endswith("based on rule DefaultDeny (5 denials of this user before it are not listed)")


async def test_one_user_fills_no_log_by_new_connections(config: BrokerConfig, caplog: pytest.LogCaptureFixture) -> None:
    async with Broker(secured(config), clock=FakeClock()) as broker:
        with caplog.at_level(logging.INFO, "odradek.authorizer"):
            for _ in range(line_limit.DENIALS_PER_SECOND + 5):
                async with await connect_as(broker, "alice") as raw:
                    await raw.fetch("orders", 0)
            async with await connect_as(broker, "bob") as raw:
                await raw.fetch("orders", 0)
    lines = [each.getMessage() for each in caplog.records if each.name == "odradek.authorizer"]
    assert [sum(f"User:{name} " in line for line in lines) for name in ("alice", "bob")] == [
        line_limit.DENIALS_PER_SECOND,
        1,
    ]


def test_who_was_denied_long_ago_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_limit, "MAX_DENIED", 2)
    denials = line_limit.Denials()
    for host in ("a", "b", "a", "c"):
        assert denials.take(ANONYMOUS, host, 0) == 0
    assert list(denials._limits) == ["a", "c"]


async def test_what_is_left_out_is_no_line(alice: Raw, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "odradek.authorizer"):
        assert not (await alice.ask(ApiKey.METADATA, 9, MetadataRequest(None))).topics
    assert not [each for each in caplog.records if each.name == "odradek.authorizer"]


async def test_acks_0_closes_the_connection_after_the_batches_that_are_allowed(guarded: Broker, alice: Raw) -> None:
    from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

    allow(guarded, "alice", WRITE, TOPIC, "orders")
    data = [
        TopicProduceData(name, partition_data=[PartitionProduceData(0, batch_of(b"b"))])
        for name in ("secrets", "orders")
    ]
    alice.send(ApiKey.PRODUCE, 9, ProduceRequest(acks=0, timeout_ms=1000, topic_data=data))
    assert await alice.is_closed()
    ends = {each.topic: each.log.log_end_offset for each in guarded.topics.partitions()}
    assert (ends["orders"], ends["secrets"]) == (2, 0)


async def test_an_idempotent_producer_needs_one_topic_to_write_to(guarded: Broker, alice: Raw) -> None:
    from odradek.protocol.messages.init_producer_id import InitProducerIdRequest

    request = InitProducerIdRequest(None, 1000)
    denied = await alice.ask(ApiKey.INIT_PRODUCER_ID, 4, request)
    assert denied.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    acl = allow(guarded, "alice", WRITE, TOPIC, "orders")
    assert (await alice.ask(ApiKey.INIT_PRODUCER_ID, 4, request)).error_code == 0
    forbid(guarded, acl)
    allow(guarded, "alice", Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME)
    assert (await alice.ask(ApiKey.INIT_PRODUCER_ID, 4, request)).error_code == 0


class TestOwnApis:
    """What Odradek's own APIs answer a client that may do nothing, and what they need."""

    ID_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    async def test_a_query_is_denied_until_its_id_may_be_written(self, guarded: Broker, alice: Raw) -> None:
        join = OdradekJoinQueryRequest("spark-1", "run", 0, "0")
        end = OdradekEndQueryBatchRequest("spark-1", "run", 0, True, [Participant("other-1", 1, 0)])
        assert (await alice.ask(OwnApiKey.ODRADEK_JOIN_QUERY, 0, join)).error_code == self.ID_DENIED
        assert (await alice.ask(OwnApiKey.ODRADEK_END_QUERY_BATCH, 0, end)).error_code == self.ID_DENIED
        allow(guarded, "alice", WRITE, ResourceType.TRANSACTIONAL_ID, "spark-1", prefixed=True)
        assert (await alice.ask(OwnApiKey.ODRADEK_JOIN_QUERY, 0, join)).error_code != self.ID_DENIED
        # Each of the transactions that it ends needs the right, too.
        assert (await alice.ask(OwnApiKey.ODRADEK_END_QUERY_BATCH, 0, end)).error_code == self.ID_DENIED

    async def test_queries_of_others_are_left_out(self, guarded: Broker, admin: Raw, alice: Raw) -> None:
        for query in ("mine-1", "other-1"):
            await admin.ask(OwnApiKey.ODRADEK_JOIN_QUERY, 0, OdradekJoinQueryRequest(query, "run", 0, "0"))
        allow(guarded, "alice", DESCRIBE, ResourceType.TRANSACTIONAL_ID, "mine", prefixed=True)
        found = await alice.ask(OwnApiKey.ODRADEK_DESCRIBE_QUERIES, 0, OdradekDescribeQueriesRequest())
        everything = await admin.ask(OwnApiKey.ODRADEK_DESCRIBE_QUERIES, 0, OdradekDescribeQueriesRequest())
        assert len(everything.queries) == 2
        assert [each.query_id for each in found.queries] == ["mine-1"]

    async def test_a_backup_needs_alter_on_the_cluster(self, guarded: Broker, admin: Raw, alice: Raw) -> None:
        denied, begin = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, OdradekBeginBackupRequest()
        assert (await alice.ask(OwnApiKey.ODRADEK_BEGIN_BACKUP, 0, begin)).error_code == denied
        begun = await admin.ask(OwnApiKey.ODRADEK_BEGIN_BACKUP, 0, begin)
        renew = OdradekRenewLeaseRequest(begun.lease_id)
        assert (await alice.ask(OwnApiKey.ODRADEK_RENEW_LEASE, 0, renew)).error_code == denied
