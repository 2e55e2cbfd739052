"""What a handler knows of who sends a request, and the guard before the handlers."""

from __future__ import annotations

from typing import Any

from odradek.broker import Broker
from odradek.broker.network.connection_memory import ConnectionMemory
from odradek.broker.network.dispatcher import Dispatcher
from odradek.broker.network.request import RequestContext
from odradek.broker.network.routes import Handler, Route
from odradek.broker.network.watchdog import Watchdog
from odradek.broker.security.principals import ANONYMOUS
from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.tests.support.brokers.connections import acceptor
from odradek.tests.support.clients.raw import Raw


def put_guard(broker: Broker, guard: Any) -> None:
    memory = ConnectionMemory(-1, broker.clock, broker.timers)
    for processor in acceptor(broker).processors:
        processor.dispatch = Dispatcher(broker.services, Watchdog(), memory, guard)


async def test_a_handler_knows_who_sends_the_request_and_from_where(broker: Broker) -> None:
    seen: list[RequestContext] = []

    def guard(route: Route, handle: Handler) -> Handler:
        return lambda context, request: seen.append(context) or handle(context, request)

    put_guard(broker, guard)
    async with await Raw.connect(broker.address) as raw:
        await raw.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
    context = seen[0]
    assert (context.principal, context.client_host, context.listener_name) == (ANONYMOUS, "/127.0.0.1", "PLAINTEXT")
    assert context.connection.name.startswith("127.0.0.1:")


async def test_a_guard_can_deny_one_api_and_is_made_once(broker: Broker) -> None:
    guarded: list[ApiKey] = []

    def deny(context: RequestContext, request: Any) -> Any:
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "denied")

    def guard(route: Route, handle: Handler) -> Handler:
        guarded.append(ApiKey(route.key))
        return deny if route.key is ApiKey.LIST_GROUPS else handle

    put_guard(broker, guard)
    async with await Raw.connect(broker.address) as raw:
        for _ in range(2):
            assert (await raw.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[]))).brokers
            assert (await raw.ask(ApiKey.LIST_GROUPS, 4, ListGroupsRequest())).error_code == 31
    assert guarded == [ApiKey.METADATA, ApiKey.LIST_GROUPS]
