"""KIP-714: ApiVersions offers no client telemetry, as that of a Kafka without a reporter."""

from __future__ import annotations

from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.tests.support.clients.raw import Raw


async def test_requests_of_client_telemetry_are_not_offered(raw: Raw) -> None:
    response = await raw.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("raw", "1"))
    offered = {each.api_key for each in response.api_keys}
    assert not offered & {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
