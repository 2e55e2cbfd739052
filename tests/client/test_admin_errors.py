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
from importlib import import_module
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
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.wire import Call, Step
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
# Returns the code of an item in an answer.
CodeOf = Callable[[Any], int]


@dataclass
class Case:
    """A call, and the answer to its request. Without items it is about nothing, and fails as a whole."""

    call: Callable[[Admin], Awaitable[object]]
    # (the module of the messages, the request, the code of each item) -> the response
    answer: Callable[[Any, Any, CodeOf], Any]
    items: tuple[Any, ...] = ()
    # Whether each item has a request of its own.
    one_by_one: bool = False
    key: ApiKey | None = None
    # Codes that are no error here, and retriable ones that are told: a topic that is not there will not come by itself.
    fine: tuple[ErrorCode, ...] = ()
    final: tuple[ErrorCode, ...] = ()
    # A code that the client tells as another one.
    told_as: dict[ErrorCode, ErrorCode] = field(default_factory=dict[ErrorCode, ErrorCode])


def by_partition(
    topics: list[Any], made: Callable[[str, list[Any]], Any], one: Callable[[int, TopicPartition], Any]
) -> list[Any]:
    """The answer about the partitions of a request's topics."""
    numbers = {topic.name: [each.partition_index for each in topic.partitions] for topic in topics}
    return [
        made(name, [one(number, TopicPartition(name, number)) for number in some]) for name, some in numbers.items()
    ]


CASES: dict[str, Case] = {
    "create_topics": Case(
        lambda admin: admin.create_topics([NewTopic("a"), NewTopic("b")]),
        lambda m, q, code: m.CreateTopicsResponse(
            topics=[m.CreatableTopicResult(name=each.name, error_code=code(each.name)) for each in q.topics]
        ),
        ("a", "b"),
    ),
    "delete_topics": Case(
        lambda admin: admin.delete_topics("a", "b"),
        lambda m, q, code: m.DeleteTopicsResponse(
            responses=[m.DeletableTopicResult(name=each.name, error_code=code(each.name)) for each in q.topics]
        ),
        ("a", "b"),
        final=(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,),
    ),
    "create_partitions": Case(
        lambda admin: admin.create_partitions({"a": 2, "b": 2}),
        lambda m, q, code: m.CreatePartitionsResponse(
            results=[m.CreatePartitionsTopicResult(each.name, code(each.name)) for each in q.topics]
        ),
        ("a", "b"),
        final=(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,),
    ),
    "delete_records": Case(
        lambda admin: admin.delete_records({A: 0, B: 0}),
        lambda m, q, code: m.DeleteRecordsResponse(
            topics=by_partition(
                q.topics,
                m.DeleteRecordsTopicResult,
                lambda number, item: m.DeleteRecordsPartitionResult(number, 0, code(item)),
            )
        ),
        (A, B),
    ),
    "list_offsets": Case(
        lambda admin: admin.list_offsets({A: -1, B: -1}),
        lambda m, q, code: m.ListOffsetsResponse(
            topics=by_partition(
                q.topics,
                lambda name, partitions: m.ListOffsetsTopicResponse(name=name, partitions=partitions),
                lambda number, item: m.ListOffsetsPartitionResponse(number, code(item), offset=0),
            )
        ),
        (A, B),
    ),
    "describe_configs": Case(
        lambda admin: admin.describe_configs(TOPICS),
        lambda m, q, code: m.DescribeConfigsResponse(
            results=[
                m.DescribeConfigsResult(code(ConfigResource.topic(each.resource_name)), None, 2, each.resource_name)
                for each in q.resources
            ]
        ),
        TOPICS,
        one_by_one=True,
        final=(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,),
    ),
    "alter_configs": Case(
        lambda admin: admin.alter_configs({each: [ConfigChange("x", "1")] for each in TOPICS}),
        lambda m, q, code: m.IncrementalAlterConfigsResponse(
            responses=[
                m.AlterConfigsResourceResponse(
                    code(ConfigResource.topic(each.resource_name)), None, 2, each.resource_name
                )
                for each in q.resources
            ]
        ),
        TOPICS,
        one_by_one=True,
        key=ApiKey.INCREMENTAL_ALTER_CONFIGS,
        final=(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,),
    ),
    "alter_partition_reassignments": Case(
        lambda admin: admin.alter_partition_reassignments({A: [1], B: [1]}),
        lambda m, q, code: m.AlterPartitionReassignmentsResponse(
            responses=by_partition(
                q.topics,
                m.ReassignableTopicResponse,
                lambda number, item: m.ReassignablePartitionResponse(number, code(item)),
            )
        ),
        (A, B),
    ),
    "elect_leaders": Case(
        lambda admin: admin.elect_leaders([A, B]),
        lambda m, q, code: m.ElectLeadersResponse(
            replica_election_results=[
                m.ReplicaElectionResult(
                    each.topic,
                    [m.PartitionResult(number, code(TopicPartition(each.topic, number))) for number in each.partitions],
                )
                for each in q.topic_partitions
            ]
        ),
        (A, B),
        fine=(ErrorCode.ELECTION_NOT_NEEDED,),
    ),
    "list_partition_reassignments": Case(
        lambda admin: admin.list_partition_reassignments(),
        lambda m, q, code: m.ListPartitionReassignmentsResponse(error_code=code(None)),
    ),
    "describe_cluster": Case(
        lambda admin: admin.describe_cluster(), lambda m, q, code: m.DescribeClusterResponse(error_code=code(None))
    ),
    "describe_log_dirs": Case(
        lambda admin: admin.describe_log_dirs(), lambda m, q, code: m.DescribeLogDirsResponse(error_code=code(None))
    ),
    "alter_replica_log_dirs": Case(
        lambda admin: admin.alter_replica_log_dirs({(1, A): "/x", (1, B): "/x"}),
        lambda m, q, code: m.AlterReplicaLogDirsResponse(
            results=[
                m.AlterReplicaLogDirTopicResult(
                    topic.name,
                    [
                        m.AlterReplicaLogDirPartitionResult(number, code((1, TopicPartition(topic.name, number))))
                        for number in topic.partitions
                    ],
                )
                for each in q.dirs
                for topic in each.topics
            ]
        ),
        ((1, A), (1, B)),
    ),
    "alter_group_offsets": Case(
        lambda admin: admin.alter_group_offsets("g", {A: OffsetAndMetadata(1), B: OffsetAndMetadata(2)}),
        lambda m, q, code: m.OffsetCommitResponse(
            topics=by_partition(
                q.topics,
                lambda name, some: m.OffsetCommitResponseTopic(name=name, partitions=some),
                lambda number, place: m.OffsetCommitResponsePartition(number, code(place)),
            )
        ),
        (A, B),
        key=ApiKey.OFFSET_COMMIT,
        told_as={ErrorCode.UNKNOWN_MEMBER_ID: ErrorCode.NON_EMPTY_GROUP},
    ),
    "update_features": Case(
        lambda admin: admin.update_features({"a": 1, "b": 1}),
        lambda m, q, code: m.UpdateFeaturesResponse(error_code=code(None)),  # all of them, or none
    ),
    "describe_user_scram_credentials": Case(
        lambda admin: admin.describe_user_scram_credentials("a", "b"),
        lambda m, q, code: m.DescribeUserScramCredentialsResponse(
            results=[m.DescribeUserScramCredentialsResult(each.name, code(each.name)) for each in q.users]
        ),
        ("a", "b"),
    ),
    "alter_user_scram_credentials": Case(
        lambda admin: admin.alter_user_scram_credentials(ScramPassword("a"), ScramPassword("b")),
        lambda m, q, code: m.AlterUserScramCredentialsResponse(
            results=[m.AlterUserScramCredentialsResult(each.name, code(each.name)) for each in q.deletions]
        ),
        ("a", "b"),
    ),
    "describe_client_quotas": Case(
        lambda admin: admin.describe_client_quotas(),
        lambda m, q, code: m.DescribeClientQuotasResponse(error_code=code(None)),
    ),
    "alter_client_quotas": Case(
        lambda admin: admin.alter_client_quotas({each: {"x": 1.0} for each in USERS}),
        lambda m, q, code: m.AlterClientQuotasResponse(
            entries=[
                m.EntryResult(code(QuotaEntity(user=each.entity[0].entity_name)), None, each.entity)
                for each in q.entries
            ]
        ),
        USERS,
    ),
    "describe_acls": Case(
        lambda admin: admin.describe_acls(), lambda m, q, code: m.DescribeAclsResponse(error_code=code(None))
    ),
    "create_acls": Case(
        lambda admin: admin.create_acls(*ACLS),
        lambda m, q, code: m.CreateAclsResponse(
            results=[
                m.AclCreationResult(code(Acl("User:u", "read", "topic", each.resource_name))) for each in q.creations
            ]
        ),
        ACLS,
    ),
    "delete_acls": Case(
        lambda admin: admin.delete_acls(*FILTERS),
        lambda m, q, code: m.DeleteAclsResponse(
            filter_results=[
                m.DeleteAclsFilterResult(code(AclFilter(resource_name=each.resource_name_filter))) for each in q.filters
            ]
        ),
        FILTERS,
    ),
    "list_groups": Case(
        lambda admin: admin.list_groups(), lambda m, q, code: m.ListGroupsResponse(error_code=code(None))
    ),
    "describe_groups": Case(
        lambda admin: admin.describe_groups("a", "b"),
        lambda m, q, code: m.DescribeGroupsResponse(
            groups=[m.DescribedGroup(code(each), None, each) for each in q.groups]
        ),
        ("a", "b"),
        one_by_one=True,
    ),
    "delete_groups": Case(
        lambda admin: admin.delete_groups("a", "b"),
        lambda m, q, code: m.DeleteGroupsResponse(
            results=[m.DeletableGroupResult(each, code(each)) for each in q.groups_names]
        ),
        ("a", "b"),
        one_by_one=True,
    ),
    "delete_group_offsets": Case(
        lambda admin: admin.delete_group_offsets("g", [A, B]),
        lambda m, q, code: m.OffsetDeleteResponse(
            topics=by_partition(
                q.topics,
                m.OffsetDeleteResponseTopic,
                lambda number, item: m.OffsetDeleteResponsePartition(number, code(item)),
            )
        ),
        (A, B),
        key=ApiKey.OFFSET_DELETE,
    ),
    "list_share_group_offsets": Case(
        lambda admin: admin.list_share_group_offsets("g"),
        lambda m, q, code: m.DescribeShareGroupOffsetsResponse(
            groups=[m.DescribeShareGroupOffsetsResponseGroup("g", [], code(None))]
        ),
        key=ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    ),
    "alter_share_group_offsets": Case(
        lambda admin: admin.alter_share_group_offsets("g", {A: 1, B: 2}),
        lambda m, q, code: m.AlterShareGroupOffsetsResponse(
            responses=[
                m.AlterShareGroupOffsetsResponseTopic(
                    topic.topic_name,
                    partitions=[
                        m.AlterShareGroupOffsetsResponsePartition(
                            each.partition_index, code(TopicPartition(topic.topic_name, each.partition_index))
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in q.topics
            ]
        ),
        (A, B),
    ),
    "delete_share_group_offsets": Case(
        lambda admin: admin.delete_share_group_offsets("g", ["a", "b"]),
        lambda m, q, code: m.DeleteShareGroupOffsetsResponse(
            responses=[
                m.DeleteShareGroupOffsetsResponseTopic(each.topic_name, error_code=code(each.topic_name))
                for each in q.topics
            ]
        ),
        ("a", "b"),
    ),
    "remove_group_members": Case(
        lambda admin: admin.remove_group_members("g", "a", "b"),
        lambda m, q, code: m.LeaveGroupResponse(
            members=[m.MemberResponse(each.member_id, None, code(each.member_id)) for each in q.members]
        ),
        ("a", "b"),
        key=ApiKey.LEAVE_GROUP,
    ),
    "list_transactions": Case(
        lambda admin: admin.list_transactions(), lambda m, q, code: m.ListTransactionsResponse(error_code=code(None))
    ),
    "describe_transactions": Case(
        lambda admin: admin.describe_transactions("a", "b"),
        lambda m, q, code: m.DescribeTransactionsResponse(
            transaction_states=[m.TransactionState(code(each), each) for each in q.transactional_ids]
        ),
        ("a", "b"),
        one_by_one=True,
    ),
    "describe_producers": Case(
        lambda admin: admin.describe_producers(A, B),
        lambda m, q, code: m.DescribeProducersResponse(
            topics=[
                m.TopicResponse(
                    each.name,
                    [
                        m.PartitionResponse(number, code(TopicPartition(each.name, number)))
                        for number in each.partition_indexes
                    ],
                )
                for each in q.topics
            ]
        ),
        (A, B),
    ),
    "fence_producers": Case(
        lambda admin: admin.fence_producers("a", "b"),
        lambda m, q, code: m.InitProducerIdResponse(error_code=code(q.transactional_id)),
        ("a", "b"),
        one_by_one=True,
        key=ApiKey.INIT_PRODUCER_ID,
    ),
    "abort_transaction": Case(
        lambda admin: admin.abort_transaction(A, ActiveProducer(1, 0, 0, 0, 0, 0)),
        lambda m, q, code: m.WriteTxnMarkersResponse(
            markers=[
                m.WritableTxnMarkerResult(
                    1, [m.WritableTxnMarkerTopicResult("a", [m.WritableTxnMarkerPartitionResult(0, code(None))])]
                )
            ]
        ),
        key=ApiKey.WRITE_TXN_MARKERS,
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


def answering(case: Case, module: Any, failing: Any, code: ErrorCode) -> Step:
    """Answer the item `failing` with an error, and the others with none."""

    async def step(call: Call) -> Any:
        return case.answer(module, call.request, lambda item: code if item == failing else ErrorCode.NONE)

    return step


async def meet(name: str, codes: list[ErrorCode]) -> None:
    case = CASES[name]
    key = case.key or ApiKey[name.upper()]
    module: Any = import_module(f"odradek.protocol.messages.{key.name.lower()}")
    failing = case.items[0] if case.items else None
    good = answering(case, module, "none of them", ErrorCode.NONE)
    async with FakeCluster({"a": 1, "b": 1}) as cluster, asyncio.timeout(60):
        cluster.defaults[key] = good
        async with Admin(cluster.address, retry_backoff_ms=0.1, retry_backoff_max_ms=0.1) as admin:
            await case.call(admin)
            requests = len(cluster.calls(key))
            assert requests == (2 if case.one_by_one else 1)
            for code in codes:
                before = len(cluster.calls(key))
                cluster.on(key, answering(case, module, failing, code))
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
