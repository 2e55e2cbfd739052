"""Calls of the admin client about several things: each has a result of its own, and only failed ones are sent again."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from odradek.client import Admin, KafkaError, NewTopic, QuotaEntity, ScramPassword, TopicPartition
from odradek.client.admin.brokers import Feature
from odradek.client.errors import ItemsFailed, UnknownTopic, UnsupportedVersion
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from odradek.protocol.messages.api_versions import FinalizedFeatureKey, SupportedFeatureKey
from odradek.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from odradek.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from odradek.tests.support.fakes.fake_cluster import FakeCluster
from odradek.tests.support.fakes.wire import Call


def admin(cluster: FakeCluster) -> Admin:
    return Admin(cluster.address, retry_backoff_ms=1, retry_backoff_max_ms=1, default_api_timeout_ms=2_000)


def creating(**codes: ErrorCode) -> Any:
    """A step that answers CreateTopics with a code for some names."""

    async def step(call: Call) -> Any:
        return CreateTopicsResponse(
            topics=[
                CreatableTopicResult(name=each.name, error_code=codes.get(each.name, ErrorCode.NONE))
                for each in call.request.topics
            ]
        )

    return step


async def test_only_what_is_retriable_is_sent_again() -> None:
    async with FakeCluster() as cluster, admin(cluster) as client:
        cluster.on(ApiKey.CREATE_TOPICS, creating(b=ErrorCode.NOT_CONTROLLER), creating())
        await client.create_topics([NewTopic("a"), NewTopic("b")])
        asked = [[each.name for each in call.request.topics] for call in cluster.calls(ApiKey.CREATE_TOPICS)]
        assert asked == [["a", "b"], ["b"]]


async def test_what_became_of_each_is_told() -> None:
    async with FakeCluster() as cluster, admin(cluster) as client:
        cluster.on(ApiKey.CREATE_TOPICS, creating(a=ErrorCode.TOPIC_ALREADY_EXISTS))
        with pytest.raises(ItemsFailed, match="1 of 2 failed: topic 'a' already exists") as caught:
            await client.create_topics([NewTopic("a"), NewTopic("b")])
        assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS and not caught.value.retriable
        assert caught.value.results["b"] is None and list(caught.value.failures) == ["a"]


async def test_a_single_item_and_a_request_that_fails_as_a_whole_keep_their_error() -> None:
    async with FakeCluster() as cluster, admin(cluster) as client:
        missing = DeletableTopicResult(name="a", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

        async def step(call: Call) -> Any:
            return DeleteTopicsResponse(responses=[missing])

        cluster.on(ApiKey.DELETE_TOPICS, step)
        with pytest.raises(UnknownTopic):
            await client.delete_topics("a")
    async with FakeCluster() as cluster:
        del cluster.versions[ApiKey.CREATE_TOPICS]
        client = admin(cluster)
        await client.start()
        with pytest.raises(KafkaError) as caught:
            await client.create_topics([NewTopic("a"), NewTopic("b")])
        assert isinstance(caught.value, UnsupportedVersion)
        await client.stop()


async def test_topics_that_cannot_be_described_have_their_own_errors() -> None:
    async def step(call: Call) -> Any:
        response = await call.default()
        response.topics[0].error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return response

    async with FakeCluster({"a": 1, "b": 1}) as cluster, admin(cluster) as client:
        cluster.on(ApiKey.METADATA, step)
        with pytest.raises(ItemsFailed) as caught:
            await client.describe_topics("a", "b", "c")
        codes = {name: error.code for name, error in caught.value.failures.items()}
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes == {"a": ErrorCode.TOPIC_AUTHORIZATION_FAILED, "c": unknown}
        assert caught.value.results["b"].name == "b"


async def test_an_item_that_the_broker_leaves_out_is_an_error() -> None:
    async def step(call: Call) -> Any:
        return CreateTopicsResponse(topics=[CreatableTopicResult(name="a")])

    async with FakeCluster() as cluster, Admin(cluster.address, default_api_timeout_ms=300) as client:
        cluster.defaults[ApiKey.CREATE_TOPICS] = step
        with pytest.raises(ItemsFailed, match="left 'b' out of its answer"):
            await client.create_topics([NewTopic("a"), NewTopic("b")])


SCRAM = ScramPassword("u")
REPLICA = (1, TopicPartition("t", 0))
Ask = Callable[[Admin], Awaitable[object]]


async def test_a_broker_that_lacks_an_api_is_told_with_its_name() -> None:
    async with FakeCluster() as cluster:
        calls: list[tuple[ApiKey, Ask]] = [
            (ApiKey.DESCRIBE_CLIENT_QUOTAS, lambda client: client.describe_client_quotas()),
            (ApiKey.ALTER_CLIENT_QUOTAS, lambda client: client.alter_client_quotas({QuotaEntity("u"): {"x": 1}})),
            (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, lambda client: client.describe_user_scram_credentials()),
            (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, lambda client: client.alter_user_scram_credentials(SCRAM)),
            (ApiKey.ALTER_REPLICA_LOG_DIRS, lambda client: client.alter_replica_log_dirs({REPLICA: "/x"})),
            (ApiKey.UPDATE_FEATURES, lambda client: client.update_features({"x": 1})),
            (ApiKey.ELECT_LEADERS, lambda client: client.elect_leaders()),
        ]
        for key, call in calls:
            del cluster.versions[key]
            name = "".join(word.capitalize() for word in key.name.split("_"))
            async with admin(cluster) as client:
                with pytest.raises(UnsupportedVersion, match=f"{name}: the broker does not offer it"):
                    await call(client)


async def test_two_passwords_of_one_user_go_in_two_requests_and_no_password_is_sent() -> None:
    async def step(call: Call) -> Any:
        users = {each.name for each in (*call.request.upsertions, *call.request.deletions)}
        return AlterUserScramCredentialsResponse(results=[AlterUserScramCredentialsResult(user) for user in users])

    passwords = [
        ScramPassword("u", "SCRAM-SHA-256", "secret"),
        ScramPassword("u", "SCRAM-SHA-512", "secret"),
        ScramPassword("v"),
    ]
    assert "secret" not in repr(passwords)
    async with FakeCluster() as cluster, admin(cluster) as client:
        cluster.on(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, step, step)
        await client.alter_user_scram_credentials(*passwords)
        first, second = (call.request for call in cluster.calls(ApiKey.ALTER_USER_SCRAM_CREDENTIALS))
        assert [(each.name, each.mechanism) for each in first.upsertions + second.upsertions] == [("u", 1), ("u", 2)]
        assert [(each.name, each.mechanism) for each in first.deletions] == [("v", 2)]
        assert len(second.upsertions[0].salted_password) == 64 and b"secret" not in second.upsertions[0].salted_password


def test_a_call_has_the_parameters_and_the_documentation_of_its_function() -> None:
    admin = Admin("127.0.0.1:1")
    assert list(inspect.signature(admin.delete_topics).parameters) == ["names", "timeout_ms"]
    assert (admin.delete_topics.__doc__ or "").startswith("Delete topics with all their records.")


async def test_features_have_their_range_and_the_level_in_use() -> None:
    class WithFeatures(FakeCluster):
        def versions_answer(self) -> Any:
            answer = super().versions_answer()
            answer.supported_features = [SupportedFeatureKey("one", 0, 3), SupportedFeatureKey("two", 1, 1)]
            answer.finalized_features = [FinalizedFeatureKey("one", 2, 0)]
            return answer

    async with WithFeatures() as cluster, admin(cluster) as client:
        assert await client.describe_features() == {"one": Feature(0, 3, 2), "two": Feature(1, 1, 0)}
