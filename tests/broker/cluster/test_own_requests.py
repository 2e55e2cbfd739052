"""A broker that is the controller, and cannot be reached at its own advertised address: it need not ask over it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

from odradek.broker import Broker, BrokerConfig
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.clusters.lone_cluster import modelled_zookeeper
from odradek.tests.support.waiting import until


@contextmanager
def hole() -> Iterator[int]:
    """The port of a socket that lets nobody in: its backlog is full."""
    with closing(socket.socket()) as listening, closing(socket.socket()) as first:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        first.connect(listening.getsockname())
        yield listening.getsockname()[1]


def config(folder: Path, number: int, advertised: tuple[str, ...] = ()) -> BrokerConfig:
    return BrokerConfig(
        listeners=("PLAINTEXT://127.0.0.1:0",),
        advertised_listeners=advertised,
        zookeeper_connect="modelled:2181",
        broker_id=number,
        log_dirs=(str(folder / str(number)),),
        controller_socket_timeout_ms=500,
        controlled_shutdown_retry_backoff_ms=20,
        replica_lag_time_max_ms=300,
        replica_fetch_wait_max_ms=300,
        replica_fetch_backoff_ms=20,
    )


async def test_the_controller_leads_without_its_own_address(tmp_path: Path) -> None:
    """It learns what it leads, shrinks its ISR, creates a topic at first need, and leaves."""
    with modelled_zookeeper(), hole() as port:
        async with AsyncExitStack() as stack:
            lone = await stack.enter_async_context(Broker(config(tmp_path, 1, (f"PLAINTEXT://127.0.0.1:{port}",))))
            other = await Broker(replace(config(tmp_path, 2), controlled_shutdown_enable=False)).__aenter__()
            raw = await stack.enter_async_context(await Raw.connect(lone.address))
            topic = CreatableTopic("t", -1, -1, [CreatableReplicaAssignment(0, [1, 2])])
            # The other broker is told of the leader, whom it cannot reach.
            answer = await raw.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([topic], 20_000))
            assert answer.topics[0].error_code == 0
            view = lone.services.replicas.view  # type: ignore[union-attr]
            await until(lambda: view.topics["t"].partitions[0].isr == (1,))
            assert (await raw.produce("t", batch_of(b"x"), timeout_ms=20_000)).error_code == 0
            await raw.ask(ApiKey.METADATA, 12, MetadataRequest([MetadataRequestTopic(name="u")]))
            await until(lambda: "u" in view.topics)
            await other.__aexit__(None, None, None)
