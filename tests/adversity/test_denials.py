"""Requests of clients that may do nothing: a denial comes before work, and holds up nobody, however large they are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.network.routes import ALONE_ROUTES, CLUSTER_ROUTES, Route
from odradek.broker.security.acls import Acl, Operation, ResourceType
from odradek.broker.security.principals import user
from odradek.protocol import frame
from odradek.protocol.apis import ApiKey, message
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.describe_acls import DescribeAclsRequest
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.schema import Message
from odradek.tests.support.brokers.connections import connections
from odradek.tests.support.brokers.large_messages import largest_requests
from odradek.tests.support.brokers.loop_turns import LIMIT_MS, WAIT_S, MeasuredBroker, measured_broker
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.clusters.lone_cluster import lone_member, modelled_zookeeper
from odradek.tests.support.security.principals import change_acls, secured
from odradek.tests.support.seeds import IS_SOAK

# More than what is decoded before anybody is asked.
BODY_BYTES = 64 * 1024
# Kafka's own clients cannot ask for more than 99,000 at once.
MAX_TOPICS = 99_000 if IS_SOAK else 12_000
# Values beyond those of one turn.
MORE = 5_000 if IS_SOAK else 500
pytestmark = pytest.mark.asyncio(loop_factories=["uvloop"])


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeasuredBroker]:
    config = BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:0",), log_dirs=(str(tmp_path_factory.mktemp("data")),))
    with measured_broker(secured(config)) as each:
        others = [
            Acl(int(ResourceType.TOPIC), f"t{n}", 3, "User:bob", "*", int(Operation.ALL), 3) for n in range(2_000)
        ]
        each.run(lambda: change_acls(each.broker, others))
        yield each


def requests_of(route: Route) -> Iterator[Message]:
    """Requests of as many values as a turn handles, or of more where these are taken."""
    values = route.max_values
    if route.is_cut or route.is_whole:
        values = min(4 * values, values + MORE)
    for _, request in largest_requests(message(route.key, "request"), route.versions[-1], values):
        if isinstance(request, ProduceRequest):
            request.acks = 1
        elif isinstance(request, DescribeAclsRequest):
            request.resource_type_filter = request.operation = request.permission_type = 1
        yield request
    if route.key is ApiKey.CREATE_TOPICS:
        yield CreateTopicsRequest([CreatableTopic(f"denied-{number}", 1, 1) for number in range(MAX_TOPICS)])


@pytest.mark.parametrize("route", ALONE_ROUTES, ids=lambda route: route.key.name)
async def test_who_may_do_nothing_holds_nobody_up(measured: MeasuredBroker, route: Route) -> None:
    await measured.warm_up(route.key, route.versions[-1])
    for request in requests_of(route):
        assert await measured.exchange(route.key, route.versions[-1], request)
        assert measured.longest_turn_ms <= LIMIT_MS


@pytest.fixture
async def member(config: BrokerConfig) -> AsyncIterator[Broker]:
    """Yield the only broker of a cluster, whose own principal is the super user."""
    with modelled_zookeeper():
        async with Broker(replace(secured(lone_member(config)), super_users="User:ANONYMOUS")) as each:
            yield each


async def test_what_brokers_ask_each_other_is_not_read_for_anybody_else(member: Broker) -> None:
    sent = {(route, version) for route in CLUSTER_ROUTES for version in (route.versions[0], route.versions[-1])}
    for route, version in sent:
        own = set(connections(member))
        async with await Raw.connect(member.address, WAIT_S) as raw:
            await raw.ask(ApiKey.API_VERSIONS, 0, message(ApiKey.API_VERSIONS, "request")())
            (new,) = set(connections(member)) - own
            new.principal = user("mallory")
            head = b"".join(
                map(bytes, frame.encode_request(route.key, version, 7, "c", message(route.key, "request")()))
            )
            size = frame.decode_request_header(head[4:])[1]
            body = head[4 : 4 + size] + b"\xff" * BODY_BYTES
            raw.send_bytes(len(body).to_bytes(4, "big") + body)
            response = await raw.receive(route.key, version)
        assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
