"""Dead letters for the leaders of other brokers: a leader that is slow for one topic holds up no other one."""

from __future__ import annotations

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import Any

from odradek.broker.replication.inter_broker import Peers
from odradek.broker.replication.remote_dead_letters import RemoteDeadLetters
from odradek.protocol.messages.produce import ProduceRequest, ProduceResponse


class OneByOne:
    """A connection, which has one request at a time. Those of "slow" are never answered."""

    def __init__(self, *_: object) -> None:
        self._turn = asyncio.Lock()

    async def request(self, request: ProduceRequest, *_: object) -> ProduceResponse:
        async with self._turn:
            if request.transactional_id == "slow":
                await asyncio.Event().wait()
            return ProduceResponse()


async def test_a_request_that_waits_for_replicas_holds_up_no_other_one() -> None:
    made: list[OneByOne] = []

    def peer(*where: object) -> OneByOne:
        made.append(OneByOne(*where))
        return made[-1]

    leader = SimpleNamespace(id=2, endpoints=())
    view: Any = SimpleNamespace(leader=lambda *_: leader, brokers={2: leader})
    config: Any = SimpleNamespace(node_id=1)
    brokers: Any = SimpleNamespace(address_of=lambda _: ("h", 1), listener="L", peer=peer)
    nothing: Any = None
    wire = RemoteDeadLetters(1, view, partial(Peers, config, view, brokers), nothing, None)
    slow = asyncio.create_task(wire.produce("dlq.slow", 0, ProduceRequest("slow")))
    await asyncio.sleep(0)
    async with asyncio.timeout(20):
        for _ in range(3):
            await wire.produce("dlq.fine", 0, ProduceRequest("fine"))
    assert (len(made), slow.done()) == (2, False)
    slow.cancel()
