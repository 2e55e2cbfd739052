"""CreateAcls, DescribeAcls and DeleteAcls where there is an authorizer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from odradek.broker import Broker, BrokerConfig, turns
from odradek.broker.handlers import acls as handlers
from odradek.broker.security.acls import Acl, Operation, ResourceType
from odradek.broker.security.principals import user
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from odradek.protocol.messages.describe_acls import DescribeAclsRequest
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.security.principals import allow, connect_as, secured

ANY, LITERAL, PREFIXED = 1, 3, 4


@pytest.fixture
async def admin(guarded: Broker) -> AsyncIterator[Raw]:
    async with await connect_as(guarded, "admin") as raw:
        yield raw


def creation(name: str, pattern: int = LITERAL, who: str = "User:alice") -> AclCreation:
    return AclCreation(2, name, pattern, who, "*", 3, 3)


def every(name: str | None = None) -> DeleteAclsFilter:
    return DeleteAclsFilter(ANY, name, ANY, None, None, ANY, ANY)


async def create(raw: Raw, *acls: AclCreation) -> list[int]:
    response = await raw.ask(ApiKey.CREATE_ACLS, 3, CreateAclsRequest(list(acls)))
    return [each.error_code for each in response.results]


async def test_what_is_wrong_is_rejected_and_the_rest_is_created(guarded: Broker, admin: Raw) -> None:
    codes = await create(admin, creation("orders"), creation(""), creation("ord", PREFIXED), creation("a", who="alice"))
    assert codes == [0, ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]
    assert [(each.resource_name, each.pattern_type) for each in guarded.services.security.acls] == [
        ("orders", LITERAL),
        ("ord", PREFIXED),
    ]


async def test_an_acl_that_is_there_is_kept_once(guarded: Broker, admin: Raw) -> None:
    assert await create(admin, creation("orders"), creation("orders")) == [0, 0]
    assert await create(admin, creation("orders")) == [0]
    assert len(guarded.services.security.acls) == 1


async def test_acls_are_described_resource_by_resource(admin: Raw) -> None:
    await create(admin, creation("orders"), creation("pay"), creation("orders", who="User:bob"))
    response = await admin.ask(ApiKey.DESCRIBE_ACLS, 3, DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY))
    found = {each.resource_name: [acl.principal for acl in each.acls] for each in response.resources}
    assert found == {"orders": ["User:alice", "User:bob"], "pay": ["User:alice"]}


async def test_a_filter_deletes_what_it_means_and_says_what_that_was(guarded: Broker, admin: Raw) -> None:
    await create(admin, creation("orders"), creation("pay"))
    deleted = await admin.ask(ApiKey.DELETE_ACLS, 3, DeleteAclsRequest([every("orders"), every(), every("nothing")]))
    names = [[each.resource_name for each in result.matching_acls] for result in deleted.filter_results]
    # Two filters may mean the same ACL.
    assert names == [["orders"], ["orders", "pay"], []]
    assert not guarded.services.security.acls


async def test_only_who_may_alter_the_cluster_changes_acls(guarded: Broker) -> None:
    async with await connect_as(guarded, "alice") as raw:
        assert await create(raw, creation("orders")) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
        allow(guarded, "alice", Operation.ALTER, ResourceType.CLUSTER, "kafka-cluster")
        assert await create(raw, creation("orders")) == [0]


async def test_an_acl_that_is_on_disk_counts_also_where_its_request_is_cancelled(
    guarded: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every slice is over at once.
    monkeypatch.setattr(turns, "SLICE_NS", 0)
    security, authorizer = guarded.services.security, guarded.services.authorizer
    assert authorizer is not None
    acl = Acl(2, "orders", LITERAL, "User:alice", "*", Operation.READ, 3)
    asked = user("alice"), "h", Operation.READ, ResourceType.TOPIC, "orders"
    creating = asyncio.ensure_future(security.change_acls([acl]))
    await asyncio.sleep(0)
    assert acl in security.acls and not creating.done()
    creating.cancel()
    await asyncio.wait([creating])
    assert authorizer.decide(*asked).is_allowed
    creating, deleting = security.change_acls([acl]), security.change_acls((), [acl])
    await asyncio.gather(creating, deleting)
    assert not security.acls and not authorizer.decide(*asked).is_allowed


async def test_acls_have_bounds(guarded: Broker, admin: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "MAX_CHANGED", 2)
    assert await create(admin, *map(creation, "abc")) == [ErrorCode.POLICY_VIOLATION] * 3
    monkeypatch.setattr(handlers, "MAX_ACLS", 2)
    assert await create(admin, creation("a"), creation("b")) == [0, 0]
    assert await create(admin, creation("c")) == [ErrorCode.POLICY_VIOLATION]
    assert await create(admin, creation("a")) == [0]
    monkeypatch.setattr(handlers, "MAX_ACLS", 100)
    monkeypatch.setattr(handlers, "MAX_ACL_CHARS", 40)
    assert await create(admin, creation("c" * 40)) == [ErrorCode.POLICY_VIOLATION]
    assert len(guarded.services.security.acls) == 2
    monkeypatch.setattr(handlers, "MAX_CHANGED", 1)
    deleted = await admin.ask(ApiKey.DELETE_ACLS, 3, DeleteAclsRequest([every()]))
    assert deleted.filter_results[0].error_code == ErrorCode.INVALID_REQUEST
    assert len(guarded.services.security.acls) == 2


async def test_ten_thousand_acls_are_one_request_and_survive_a_restart(config: BrokerConfig) -> None:
    async with Broker(secured(config)) as broker, await connect_as(broker, "admin") as raw:
        acls = [creation(f"topic-{at}") for at in range(handlers.MAX_CHANGED)]
        assert set(await create(raw, *acls)) == {0}
        allow(broker, "bob", Operation.READ, ResourceType.TOPIC, "orders")
    async with Broker(secured(config)) as broker:
        kept = list(broker.services.security.acls)
        assert len(kept) == handlers.MAX_CHANGED + 1
        assert kept[0] == Acl(2, "topic-0", LITERAL, "User:alice", "*", 3, 3)
