"""Small requests that arrive together in one packet: as many are handled in a turn as a slice has time for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from odradek.broker import BrokerConfig
from odradek.broker.network.routes import ALONE_ROUTES, Route
from odradek.broker.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from odradek.protocol import frame
from odradek.protocol.apis import AnyKey, ApiKey, message
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.list_config_resources import ListConfigResourcesRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.schema import Message
from odradek.tests.support.brokers.loop_turns import LIMIT_MS, WAIT_S, MeasuredBroker, measured_broker
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.security.principals import secured
from odradek.tests.support.seeds import IS_SOAK

TOGETHER = 64
# All APIs have the connection's slices, so that a few of each tell of its handler.
OF_EVERY_API = 64 if IS_SOAK else 8
TOPICS = 400
OTHERS = 19_000
pytestmark = pytest.mark.asyncio(loop_factories=["uvloop"])


def acl(name: str, who: str, operation: Operation, kind: ResourceType = ResourceType.TOPIC) -> Acl:
    return Acl(kind, name, PatternType.LITERAL, who, "*", operation, Permission.ALLOW)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeasuredBroker]:
    """A broker with an authorizer, very many ACLs of others, and many topics that this client may describe."""
    config = secured(
        BrokerConfig(
            listeners=("PLAINTEXT://127.0.0.1:0",),
            log_dirs=(str(tmp_path_factory.mktemp("data")),),
            group_initial_rebalance_delay_ms=0,
            offsets_topic_num_partitions=1,
            transaction_state_log_num_partitions=1,
        )
    )
    others = [acl(f"other-{number}", f"User:{number}", Operation.WRITE) for number in range(OTHERS)]
    own = [acl("*", "User:ANONYMOUS", Operation.DESCRIBE), acl("*", "User:ANONYMOUS", Operation.DESCRIBE_CONFIGS)]
    cluster = [
        acl("kafka-cluster", "User:ANONYMOUS", each, ResourceType.CLUSTER)
        for each in (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
    ]
    with measured_broker(config) as each:
        broker = each.broker
        authorizer = broker.services.authorizer
        assert authorizer is not None
        each.run(lambda: authorizer.change([*others, *own, *cluster]))
        for number in range(TOPICS):
            each.run(lambda number=number: broker.topics.create(f"topic-{number}", 1, {}))
        yield each


async def exchange(measured: MeasuredBroker, key: AnyKey, version: int, request: Message, times: int) -> int:
    """Send a request many times in one packet. Return how many were answered before the connection was closed."""
    await measured.warm_up(key, version)
    frames = [b"".join(frame.encode_request(key, version, at, "together", request)) for at in range(times)]
    answered = 0
    async with await Raw.connect(measured.address, WAIT_S) as raw:
        measured.begin()
        raw.send_bytes(b"".join(frames))
        try:
            while answered < times:
                await raw.receive_bytes()
                answered += 1
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
    return answered


@pytest.mark.parametrize(
    ("version", "request_of_much"),
    [
        (4, InitProducerIdRequest(None)),
        (0, DescribeTopicPartitionsRequest()),
        (12, MetadataRequest(topics=None, include_topic_authorized_operations=True)),
        (4, DescribeConfigsRequest([DescribeConfigsResource(4, "1"), DescribeConfigsResource(4, "")])),
        (1, ListConfigResourcesRequest()),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Message) else str(each),
)
async def test_requests_that_each_take_a_while(
    measured: MeasuredBroker, version: int, request_of_much: Message
) -> None:
    assert request_of_much.KEY is not None
    assert await exchange(measured, request_of_much.KEY, version, request_of_much, TOGETHER) == TOGETHER
    assert measured.longest_turn_ms <= LIMIT_MS


# The one above is of this and of more.
ABOVE = {ApiKey.INIT_PRODUCER_ID, ApiKey.DESCRIBE_TOPIC_PARTITIONS, ApiKey.LIST_CONFIG_RESOURCES}


@pytest.mark.parametrize(
    "route", [each for each in ALONE_ROUTES if each.key not in ABOVE], ids=lambda route: route.key.name
)
async def test_requests_of_every_api(measured: MeasuredBroker, route: Route) -> None:
    request = message(route.key, "request")()
    if isinstance(request, ProduceRequest):
        request.acks = 1
    await exchange(measured, route.key, route.versions[-1], request, OF_EVERY_API)
    assert measured.longest_turn_ms <= LIMIT_MS
