"""Long requests that are handled as a whole: others have turns meanwhile, and nothing is looked at without need."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Set
from types import SimpleNamespace
from typing import Any, cast

import pytest
from odradek.broker import Broker
from odradek.broker.handlers import (
    acls,
    client_quotas,
    configs,
    create_topics,
    list_offsets,
    replica_placement,
    scram_credentials,
    share_fetch,
)
from odradek.broker.network.request import RequestContext
from odradek.broker.quotas.entities import Entity
from odradek.broker.security.sasl.scram import Credential
from odradek.broker.share_partitions.sessions import MAX_PARTITIONS_OF_ONE
from odradek.broker.topics import disk_reads
from odradek.broker.turns import VALUES_AT_ONCE, LargeResponse
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from odradek.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from odradek.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from odradek.protocol.messages.list_config_resources import ListConfigResourcesRequest
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from odradek.protocol.messages.share_fetch import FetchPartition, FetchTopic, ForgottenTopic, ShareFetchRequest
from odradek.tests.support.brokers.slices import end_slices_after

MANY = 1_000
# Steps of a slice.
FEW = 100


def context(version: int = 0) -> RequestContext:
    found = SimpleNamespace(api_version=version, client=("u", "c"), throttle=lambda *_: None, connection=None)
    return cast(RequestContext, found)


async def turns_of_others(work: Coroutine[Any, Any, Any]) -> int:
    """Return how many turns of the loop others have while a handler works, in slices of FEW steps."""
    end_slices_after(FEW)
    task, turns = asyncio.ensure_future(work), 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    await task
    return turns


async def test_acls_are_read_in_turns_before_anything_is_said_of_them() -> None:
    services: Any = SimpleNamespace(authorizer=None)
    creations = CreateAclsRequest([AclCreation(2, "n", 3, "User:x", "*", 3, 3)] * MANY)
    filters = DeleteAclsRequest([DeleteAclsFilter(2, "n", 3, "User:x", "*", 3, 3)] * MANY)
    assert await turns_of_others(acls.create_acls(services, context(), creations)) >= MANY // FEW
    assert await turns_of_others(acls.delete_acls(services, context(), filters)) >= MANY // FEW


async def test_topics_are_counted_in_turns_before_the_first_is_created(broker: Broker) -> None:
    request = CreateTopicsRequest([CreatableTopic(f"t{at}", MANY, 1) for at in range(MANY)])
    # Each is counted, and then refused.
    assert await turns_of_others(create_topics.handle(broker.services, context(7), request)) >= 3 * MANY // FEW
    assert list(broker.services.topics.names()) == []


async def test_passwords_are_derived_in_turns_and_many_deletions_are_one_look_at_the_connections(
    broker: Broker,
) -> None:
    passwords = [ScramCredentialUpsertion(f"u{at}", 1, 4096, b"salt", b"salted") for at in range(MANY)]
    request = AlterUserScramCredentialsRequest(upsertions=passwords)
    assert await turns_of_others(
        scram_credentials.alter_user_scram_credentials(broker.services, context(), request)
    ) >= (MANY // FEW)
    looks: list[Set[tuple[str, str]]] = []
    broker.services.security.when_deleted = looks.append
    deletions = [ScramCredentialDeletion(each.name, 1) for each in passwords[:300]]
    request = AlterUserScramCredentialsRequest(deletions)
    response = await scram_credentials.alter_user_scram_credentials(broker.services, context(), request)
    assert {each.error_code for each in response.results} == {0}
    assert looks == [{(each.name, "SCRAM-SHA-256") for each in deletions}]


async def test_few_look_ups_by_time_wait_for_threads(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_reads, "READS_AT_ONCE", 3)
    broker.services.topics.create("t", 20, {})
    request = ListOffsetsRequest(topics=[ListOffsetsTopic("t", [ListOffsetsPartition(at, -1, 5) for at in range(20)])])
    response = cast("asyncio.Future[Any]", list_offsets.handle(broker.services, context(7), request))
    waiting: list[int] = []
    while not response.done():
        waiting.append(len(broker.services.threads._running))
        await asyncio.sleep(0)
    (topic,) = response.result().topics
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [(at, 0) for at in range(20)]
    assert max(waiting) == 3


@pytest.mark.parametrize("is_forgotten", [False, True])
async def test_more_partitions_than_a_share_session_has_are_not_looked_at(is_forgotten: bool) -> None:
    request = ShareFetchRequest("g", "m", share_session_epoch=1)
    if is_forgotten:
        request.forgotten_topics_data = [ForgottenTopic(bytes(16), [*range(MAX_PARTITIONS_OF_ONE + 1)])]
    else:
        request.topics = [FetchTopic(bytes(16), [FetchPartition()] * (MAX_PARTITIONS_OF_ONE + 1))]
    services: Any = SimpleNamespace(
        groups=SimpleNamespace(serves_share_groups=True), share_leader=SimpleNamespace(sessions=None)
    )
    with pytest.raises(KafkaError) as raised:
        share_fetch.handle(services, context(), request)
    assert raised.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED


def entities(services: Any) -> Any:
    services.security.quotas |= {Entity(f"u{at}"): {"producer_byte_rate": 1.0} for at in range(VALUES_AT_ONCE)}
    nobody = DescribeClientQuotasRequest([ComponentData("user", 0, "nobody")], strict=True)
    return client_quotas.describe_client_quotas(services, context(1), nobody)


def users(services: Any) -> Any:
    password = {"SCRAM-SHA-256": Credential(b"s", b"k", b"k", 4096)}
    services.security.passwords |= {f"u{at}": password for at in range(VALUES_AT_ONCE)}
    asked = DescribeUserScramCredentialsRequest([])
    return scram_credentials.describe_user_scram_credentials(services, context(), asked)


def resources(services: Any) -> Any:
    services.reconfiguration.groups.update({f"g{at}": {} for at in range(VALUES_AT_ONCE)})
    return configs.list_config_resources(services, context(1), ListConfigResourcesRequest())


def moving(services: Any) -> Any:
    change = SimpleNamespace(replicas=[1, 2], adding=[2], removing=[1])
    found = {("t", at): change for at in range(VALUES_AT_ONCE + 1)}
    admin = SimpleNamespace(replica_admin=SimpleNamespace(reassignments=lambda: found))
    asked = ListPartitionReassignmentsRequest(topics=None)
    return replica_placement.list_partition_reassignments(cast(Any, admin), context(), asked)


@pytest.mark.parametrize("ask", [entities, users, resources, moving])
async def test_what_is_told_of_very_many_is_looked_up_in_slices(broker: Broker, ask: Callable[[Any], Any]) -> None:
    large = ask(broker.services)
    assert isinstance(large, LargeResponse) and sum(1 for _ in large.steps) >= VALUES_AT_ONCE
