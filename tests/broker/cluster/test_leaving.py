"""How a broker that stops asks the controller to move its leaders: how often, and how long it waits."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.broker import BrokerConfig
from odradek.broker.cluster.leaving import move_leaders_away
from odradek.broker.replication.controller_door import ControllerDoor
from odradek.broker.replication.inter_broker import InterBroker
from odradek.broker.replication.metadata_cache import BrokerView, MetadataCache
from odradek.broker.replication.peer import PeerLost
from odradek.protocol.messages.controlled_shutdown import ControlledShutdownResponse, RemainingPartition

CONFIG = BrokerConfig(controlled_shutdown_max_retries=2, controlled_shutdown_retry_backoff_ms=0)


class Door:
    """A controller that answers each request with the next of `answers`."""

    def __init__(self, *answers: ControlledShutdownResponse | PeerLost) -> None:
        self.left = list(answers)

    async def request(self, *_: Any) -> ControlledShutdownResponse:
        answer = self.left.pop(0)
        if isinstance(answer, PeerLost):
            raise answer
        return answer


async def leave(door: Any, *brokers: int, config: BrokerConfig = CONFIG) -> None:
    replicas: Any = SimpleNamespace(view=SimpleNamespace(brokers=dict.fromkeys(brokers)), broker_epoch=5)
    await move_leaders_away(config, door, replicas)


DONE = ControlledShutdownResponse()
BUSY = ControlledShutdownResponse(remaining_partitions=[RemainingPartition("t", 0)])


async def test_it_asks_until_it_leads_nothing_or_often_enough() -> None:
    for answers, left in (((DONE, DONE), 1), ((BUSY, PeerLost("gone"), DONE), 0), ((BUSY, BUSY, BUSY, BUSY), 1)):
        door = Door(*answers)
        await leave(door, 1, 2)
        assert len(door.left) == left


async def test_it_waits_for_the_backoff_between_two_requests() -> None:
    door = Door(BUSY, DONE)
    config = replace(CONFIG, controlled_shutdown_retry_backoff_ms=3_600_000)
    asking = asyncio.ensure_future(leave(door, 1, 2, config=config))
    done, _ = await asyncio.wait([asking], timeout=0.05)
    assert not done and len(door.left) == 1
    asking.cancel()


async def test_the_last_broker_of_a_cluster_stops_at_once() -> None:
    await leave(Door(), 1)


async def test_a_controller_that_does_not_answer_is_given_up() -> None:
    held: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: held.append(writer), "127.0.0.1", 0)
    view = MetadataCache()
    config = BrokerConfig(controller_socket_timeout_ms=50)
    door = ControllerDoor(config, view, InterBroker(config), None)
    with pytest.raises(PeerLost, match="no controller"):
        await door.request(DONE, 3, ControlledShutdownResponse)
    view.controller_id = 2
    view.brokers = {2: BrokerView(2, {"PLAINTEXT": server.sockets[0].getsockname()}, None)}
    from odradek.protocol.messages.controlled_shutdown import ControlledShutdownRequest

    with pytest.raises(PeerLost, match=r"did not answer ControlledShutdown within 0.05 s"):
        await door.request(ControlledShutdownRequest(1, 5), 3, ControlledShutdownResponse)
    door.close()
    for each in held:
        each.transport.abort()
    server.close()
