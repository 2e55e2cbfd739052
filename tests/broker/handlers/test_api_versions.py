"""ApiVersions 5: a client says which node of which cluster it means, as a running Kafka 4.4.0 answered."""

from __future__ import annotations

import pytest
from odradek.broker import Broker
from odradek.client.core.cluster import Cluster
from odradek.client.core.options import ClusterOptions
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.tests.support.clients.raw import Raw


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error"),
    [
        (None, -1, 0),
        ("this", 1, 0),
        ("another", 1, 129),
        ("", 1, 129),
        ("this", 2, 129),
        ("this", -5, 129),
        ("this", -1, 42),
        (None, 1, 42),
        ("another", -1, 42),
    ],
)
async def test_the_cluster_and_the_node_are_checked_together(
    broker: Broker, raw: Raw, cluster_id: str | None, node_id: int, error: int
) -> None:
    meant = broker.services.metadata.cluster_id if cluster_id == "this" else cluster_id
    request = ApiVersionsRequest("tests", "1", meant, node_id)
    response = await raw.ask(ApiKey.API_VERSIONS, 5, request)
    assert (response.error_code, bool(response.api_keys)) == (error, not error)
    # The connection stays, and lower versions say neither.
    assert (await raw.ask(ApiKey.API_VERSIONS, 4, request)).error_code == 0


async def test_a_client_of_an_earlier_broker_begins_again_with_its_bootstrap_servers(broker: Broker) -> None:
    cluster = await Cluster.open(ClusterOptions(broker.address))
    try:
        before = cluster.view.cluster_id
        broker.services.metadata.set_cluster_id("another")
        await cluster._connections.close()
        await cluster.refresh()
        assert (before, cluster.view.cluster_id) == (before, "another") and before != "another"
    finally:
        await cluster.close()
