"""Every error at every request of an administrator: survived, or raised once, for the item that it is about.

Each call is about two items, of which one is answered with an error (or about nothing: then the whole answer is one). A
retriable error is asked again, for that item alone where a request may name several; another one is told with what
became of the other item, and asked once. Here is a sample of the codes; `make soak` has all of them.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvloop
from odradek.client import (
    Acl,
    AclFilter,
    Admin,
    ConfigChange,
    ConfigResource,
    KafkaError,
    NewTopic,
    OffsetAndMetadata,
    QuotaEntity,
    ScramPassword,
    TopicPartition,
)
from odradek.client.core.descriptions import ActiveProducer
from odradek.client.errors import ItemsFailed
from odradek.protocol.apis import ApiKey, message
from odradek.protocol.errors import ErrorCode
from odradek.protocol.shapes.answers import has_whole, rejected, whole_rejection
from odradek.protocol.shapes.table import lists_in
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.wire import Call, Step, answer
from odradek.tests.support.seeds import IS_SOAK

CODES = [code for code in ErrorCode if code is not ErrorCode.NONE]
NAMED = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.ELECTION_NOT_NEEDED,
    ErrorCode.UNKNOWN_MEMBER_ID,
}
SAMPLE = [code for number, code in enumerate(CODES) if IS_SOAK or number % 6 == 0 or code in NAMED]
A, B = TopicPartition("a", 0), TopicPartition("b", 0)
ACLS = tuple(Acl("User:u", "read", "topic", name) for name in "ab")
FILTERS = tuple(AclFilter(resource_name=name) for name in "ab")
TOPICS = tuple(ConfigResource.topic(name) for name in "ab")
USERS = tuple(QuotaEntity(user=name) for name in "ab")


@dataclass
class Case:
    """A call about items, of which the first is named a. Without items it is about nothing, and fails as a whole."""

    call: Callable[[Admin], Awaitable[object]]
    items: tuple[Any, ...] = ()
    # Whether each item has a request of its own.
    one_by_one: bool = False
    key: ApiKey | None = None
    # Codes that are no error here, and retriable ones that are told: a topic that is not there will not come by itself.
    fine: tuple[ErrorCode, ...] = ()
    final: tuple[ErrorCode, ...] = ()
    # A code that the client tells as another one.
    told_as: dict[ErrorCode, ErrorCode] = field(default_factory=dict[ErrorCode, ErrorCode])


CASES: dict[str, Case] = {
    "create_topics": Case(lambda admin: admin.create_topics([NewTopic("a"), NewTopic("b")]), ("a", "b")),
    "delete_topics": Case(
        lambda admin: admin.delete_topics("a", "b"), ("a", "b"), final=(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,)
    ),
    "create_partitions": Case(
        lambda admin: admin.create_partitions({"a": 2, "b": 2}),
        ("a", "b"),
        final=(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,),
    ),
    "delete_records": Case(lambda admin: admin.delete_records({A: 0, B: 0}), (A, B)),
    "list_offsets": Case(lambda admin: admin.list_offsets({A: -1, B: -1}), (A, B)),
    "describe_configs": Case(
        lambda admin: admin.describe_configs(TOPICS),
        TOPICS,
        one_by_one=True,
        final=(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,),
    ),
    "alter_configs": Case(
        lambda admin: admin.alter_configs({each: [ConfigChange("x", "1")] for each in TOPICS}),
        TOPICS,
        one_by_one=True,
        key=ApiKey.INCREMENTAL_ALTER_CONFIGS,
        final=(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,),
    ),
    "alter_partition_reassignments": Case(lambda admin: admin.alter_partition_reassignments({A: [1], B: [1]}), (A, B)),
    "elect_leaders": Case(lambda admin: admin.elect_leaders([A, B]), (A, B), fine=(ErrorCode.ELECTION_NOT_NEEDED,)),
    "list_partition_reassignments": Case(lambda admin: admin.list_partition_reassignments()),
    "describe_cluster": Case(lambda admin: admin.describe_cluster()),
    "describe_log_dirs": Case(lambda admin: admin.describe_log_dirs()),
    "alter_replica_log_dirs": Case(
        lambda admin: admin.alter_replica_log_dirs({(1, A): "/x", (1, B): "/x"}), ((1, A), (1, B))
    ),
    "alter_group_offsets": Case(
        lambda admin: admin.alter_group_offsets("g", {A: OffsetAndMetadata(1), B: OffsetAndMetadata(2)}),
        (A, B),
        key=ApiKey.OFFSET_COMMIT,
        told_as={ErrorCode.UNKNOWN_MEMBER_ID: ErrorCode.NON_EMPTY_GROUP},
    ),
    "update_features": Case(lambda admin: admin.update_features({"a": 1, "b": 1})),
    "describe_user_scram_credentials": Case(lambda admin: admin.describe_user_scram_credentials("a", "b"), ("a", "b")),
    "alter_user_scram_credentials": Case(
        lambda admin: admin.alter_user_scram_credentials(ScramPassword("a"), ScramPassword("b")), ("a", "b")
    ),
    "describe_client_quotas": Case(lambda admin: admin.describe_client_quotas()),
    "alter_client_quotas": Case(lambda admin: admin.alter_client_quotas({each: {"x": 1.0} for each in USERS}), USERS),
    "describe_acls": Case(lambda admin: admin.describe_acls()),
    "create_acls": Case(lambda admin: admin.create_acls(*ACLS), ACLS),
    "delete_acls": Case(lambda admin: admin.delete_acls(*FILTERS), FILTERS),
    "list_groups": Case(lambda admin: admin.list_groups()),
    "describe_groups": Case(lambda admin: admin.describe_groups("a", "b"), ("a", "b"), one_by_one=True),
    "delete_groups": Case(lambda admin: admin.delete_groups("a", "b"), ("a", "b"), one_by_one=True),
    "delete_group_offsets": Case(
        lambda admin: admin.delete_group_offsets("g", [A, B]), (A, B), key=ApiKey.OFFSET_DELETE
    ),
    "list_share_group_offsets": Case(
        lambda admin: admin.list_share_group_offsets("g"), key=ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS
    ),
    "alter_share_group_offsets": Case(lambda admin: admin.alter_share_group_offsets("g", {A: 1, B: 2}), (A, B)),
    "delete_share_group_offsets": Case(lambda admin: admin.delete_share_group_offsets("g", ["a", "b"]), ("a", "b")),
    "remove_group_members": Case(
        lambda admin: admin.remove_group_members("g", "a", "b"), ("a", "b"), key=ApiKey.LEAVE_GROUP
    ),
    "list_transactions": Case(lambda admin: admin.list_transactions()),
    "describe_transactions": Case(lambda admin: admin.describe_transactions("a", "b"), ("a", "b"), one_by_one=True),
    "describe_producers": Case(lambda admin: admin.describe_producers(A, B), (A, B)),
    "fence_producers": Case(
        lambda admin: admin.fence_producers("a", "b"), ("a", "b"), one_by_one=True, key=ApiKey.INIT_PRODUCER_ID
    ),
    "abort_transaction": Case(
        lambda admin: admin.abort_transaction(A, ActiveProducer(1, 0, 0, 0, 0, 0)), key=ApiKey.WRITE_TXN_MARKERS
    ),
}
# Calls that send requests which the consumer sends, too (test_error_table.py), or that have tests of their own.
ELSEWHERE = {
    "begin_backup": "of Odradek's brokers alone (test_odradek_begin_backup.py)",
    "check_health": "test_admin_health.py",
    "describe_features": "ApiVersions",
    "describe_share_queue": "DescribeConfigs, and of Odradek's brokers",
    "describe_topics": "Metadata",
    "explain_group": "DescribeGroups",
    "list_group_offsets": "OffsetFetch",
    "list_queries": "of Odradek's brokers alone",
    "list_topics": "Metadata",
    "placed_partitions": "test_admin_health.py",
    "renew_backup": "of Odradek's brokers alone (test_odradek_begin_backup.py)",
    "start": "Metadata",
    "stop": "nothing",
}


def test_every_call_of_an_administrator_is_here() -> None:
    calls = {name for name, _ in inspect.getmembers(Admin, inspect.iscoroutinefunction) if not name.startswith("_")}
    assert calls == CASES.keys() | ELSEWHERE.keys()


def answering(case: Case, key: ApiKey, code: ErrorCode) -> Step:
    """Answer what is about a, or a request about nothing, with an error, and the rest with none."""

    def code_of(asked: Any) -> int:
        return code if not case.items or "'a'" in repr(asked) else ErrorCode.NONE

    async def step(call: Call) -> Any:
        lists = lists_in(key, call.version)
        if has_whole(key, call.version) and not (case.items and lists):
            return whole_rejection(key, call.version, code_of(call.request))
        response = message(key, "response")()
        for items in lists:
            for item in items.of(call.request):
                found = rejected(key, items, [item], call.version, code_of(item))
                getattr(response, items.results).extend(found)
        return response

    return step


async def meet(name: str, codes: list[ErrorCode]) -> None:
    case = CASES[name]
    key = case.key or ApiKey[name.upper()]
    failing = case.items[0] if case.items else None
    async with FakeCluster({"a": 1, "b": 1}) as cluster, asyncio.timeout(60):
        cluster.defaults[key] = answering(case, key, ErrorCode.NONE)
        async with Admin(cluster.address, retry_backoff_ms=0.1, retry_backoff_max_ms=0.1) as admin:
            await case.call(admin)
            requests = len(cluster.calls(key))
            assert requests == (2 if case.one_by_one else 1)
            for code in codes:
                before = len(cluster.calls(key))
                cluster.on(key, answering(case, key, code))
                try:
                    await case.call(admin)
                    error = None
                except KafkaError as caught:
                    error = caught
                again = len(cluster.calls(key)) - before - requests
                why = f"{name}, {code.name}: {error!r}"
                survived = code.retriable and code not in (*case.fine, *case.final)
                told = case.told_as.get(code, code)
                assert (error is None) == (survived or code in case.fine), why
                assert again == survived, why
                if error is not None and case.items:
                    assert isinstance(error, ItemsFailed), why
                    assert {item: each.code for item, each in error.failures.items()} == {failing: told}, why
                    assert error.results.keys() == set(case.items), why
                if error is not None:
                    assert error.code is told and error.message, why


@pytest.mark.parametrize("name", CASES)
def test_each_error_is_survived_or_told_once(name: str) -> None:
    uvloop.run(meet(name, SAMPLE))


async def leave_out(name: str) -> None:
    case = CASES[name]
    key = case.key or ApiKey[name.upper()]
    async with FakeCluster({"a": 1, "b": 1}) as cluster, asyncio.timeout(60):
        cluster.defaults[key] = answering(case, key, ErrorCode.NONE)
        cluster.on(key, answer(message(key, "response")()))
        async with Admin(cluster.address, retry_backoff_ms=0.1, retry_backoff_max_ms=0.1) as admin:
            await case.call(admin)
        assert len(cluster.calls(key)) == (3 if case.one_by_one else 2)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.items and name != "fence_producers"])
def test_an_item_that_an_answer_leaves_out_is_asked_for_again(name: str) -> None:
    uvloop.run(leave_out(name))
