"""What clients cost that have not logged in: memory of their own, fair by address, and few large tokens at a time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.network import stranger_memory
from odradek.broker.network.stranger_memory import MAX_LARGE, StrangerMemory, TokenChecks
from odradek.broker.timers import Timers
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.tests.support.brokers.connections import acceptor, connections
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.fakes.clock import FakeClock
from odradek.tests.support.security.sasl import bearer, handshake, sasl_config

LIMIT = 1_000


@pytest.fixture
def memory() -> StrangerMemory:
    clock = FakeClock()
    return StrangerMemory(LIMIT, clock, Timers(clock))


@dataclass(eq=False)
class Stranger:
    """A connection from an address."""

    memory: StrangerMemory
    client_host: str
    is_stalled: bool = False
    is_dropped: bool = False

    def resume(self) -> None:
        """Do nothing."""

    def drop(self, why: str) -> None:
        self.is_dropped = True
        self.memory.release(self)

    def take(self, size: int) -> bool:
        """Hold so many bytes in all, if there is room."""
        has_room = self.memory.has_room(self, size)
        if has_room:
            self.memory.hold(self, size)
        return has_room


def test_the_address_that_holds_the_most_gives_way(memory: StrangerMemory) -> None:
    many = [Stranger(memory, "10.0.0.1") for _ in range(9)]
    assert all(each.take(100) for each in many)
    other = Stranger(memory, "10.0.0.2")
    assert other.take(300)
    assert [each.is_dropped for each in many] == [True, True, *[False] * 7]
    assert memory.held_bytes == LIMIT


def test_one_address_does_not_drop_its_own_nor_those_that_hold_less(memory: StrangerMemory) -> None:
    first, second = Stranger(memory, "10.0.0.1"), Stranger(memory, "10.0.0.2")
    assert first.take(500) and second.take(500)
    assert not Stranger(memory, "10.0.0.1").take(100)
    assert not second.take(600)
    assert not first.is_dropped and not second.is_dropped
    for each in (first, second):
        memory.release(each)
    assert memory._by_address == {} and memory.held_bytes == 0


def test_one_alone_may_hold_more(memory: StrangerMemory) -> None:
    assert Stranger(memory, "10.0.0.1").take(2 * LIMIT)


def test_the_limit_is_small_and_never_above_that_of_requests() -> None:
    clock = FakeClock()
    limits = {given: StrangerMemory(given, clock, Timers(clock))._limit_bytes for given in (-1, 1000, 1 << 40)}
    most = stranger_memory.STRANGER_BYTES
    assert limits == {-1: most, 1000: 1000, 1 << 40: most}


async def test_nothing_is_kept_of_a_connection_that_closes_while_its_token_waits(config: BrokerConfig) -> None:
    """While threads hang, tokens that come and go would otherwise stay in a queue without a bound."""
    async with Broker(sasl_config(config)) as broker:
        checks = acceptor(broker).processors[0].token_checks
        checks._large = MAX_LARGE
        clients = [await Raw.connect(broker.addresses[1]) for _ in range(5)]
        for each in clients:
            await handshake(each, "OAUTHBEARER")
            each.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(bearer("a" * 60_000)))
        async with asyncio.timeout(10):
            while len(checks._waiting) < len(clients):
                await asyncio.sleep(0.01)
        for each in connections(broker):
            # As after the time for a login.
            each.drop("it did not log in")
        async with asyncio.timeout(10):
            while checks._waiting:
                await asyncio.sleep(0.01)
        checks._large = 0
        for each in clients:
            each.close()


async def test_a_large_request_waits_while_threads_check_many_large_tokens() -> None:
    checks, woken = TokenChecks(), asyncio.Event()
    works = [checks.counted(int, 60_000) for _ in range(MAX_LARGE)]
    assert checks.have_room(1_000) and not checks.have_room(60_000)
    checks.wait(woken.set)
    await asyncio.sleep(0)
    assert not woken.is_set()
    await asyncio.to_thread(works[0])
    await asyncio.wait_for(woken.wait(), 10)
    assert checks.have_room(60_000)
