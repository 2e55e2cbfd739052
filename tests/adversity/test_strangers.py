"""Strangers at the doors of a secure broker: bounded memory, no long turn, few lines in the log, others are served.

`make soak` does each a hundred times as often.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest

pytest.importorskip("trustme", reason="the certificates are trustme's")

from odradek.broker import BrokerConfig
from odradek.broker.network.line_limit import MAX_LOG_LINES
from odradek.protocol.apis import ApiKey
from odradek.tests.support.brokers.loop_turns import LIMIT_MS, MeasuredBroker, measured_broker
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.security.sasl import set_password
from odradek.tests.support.security.strangers import ATTACKS, METADATA, WAIT_S, Doors, Guarded
from odradek.tests.support.seeds import IS_SOAK

MIB = 1024 * 1024
LARGE = batch_of(bytes(MIB))
UNKNOWN_TOPIC_OR_PARTITION = 3
# What 20,000 ACLs, or 8 MiB of names, cost beside what the broker had. Over minutes it is what arriving requests may
# hold (queued.max.request.bytes): messages of half a megabyte leave holes in the heap, to a level that stays.
MAX_GROWTH = (256 if IS_SOAK else 96) * MIB
# Lines of one door in ten seconds, those of all doors, and those of the broker itself.
MAX_LOG_BYTES = 4 * MIB


# What these hold, or have the broker do, is little: `make soak` does each of them in both tests.
HOLD_NOTHING = {"half_handshakes", "one_byte_at_a_time", "renegotiations"}
ASK_LITTLE = {"half_logins", "client_ids"}
# How often somebody else asks meanwhile.
NEIGHBOUR_S = 0.01 if IS_SOAK else 0.1


def rooms(but: set[str]) -> list[tuple[str, str]]:
    """Strangers come to one broker, one kind after the other, but for those who fill what holds the ACLs."""
    return [(name if "acl" in name else "others", name) for name in ATTACKS if IS_SOAK or name not in but]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], tuple[Guarded, int]]]:
    """Yield what returns the broker of a room and its size after the first connections, which are no growth.

    With a parameter each, pytest would start it anew for each test.
    """
    with ExitStack() as stack:

        @cache
        def of(room: str) -> tuple[Guarded, int]:
            process = Guarded(tmp_path_factory.mktemp(room))
            process.start()
            stack.callback(process.close)
            asyncio.run(attacked("half_handshakes", process.doors))
            return process, process.memory_bytes()

        yield of


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], tuple[MeasuredBroker, Doors]]]:
    with ExitStack() as stack:

        @cache
        def of(room: str) -> tuple[MeasuredBroker, Doors]:
            folder = tmp_path_factory.mktemp(room)
            doors = Doors.make(folder / "tls")
            config, _ = BrokerConfig.parse(doors.configs(folder / "data"))
            return stack.enter_context(measured_broker(config)), doors

        yield of


async def attacked(name: str, doors: Doors, share: int = 1) -> int:
    """Have strangers at the doors while somebody else is served. Return how often that one was."""
    attack, few, many = ATTACKS[name]
    few = few if "acl" in name else -(-few // share)
    async with await Raw.connect(doors.at("PLAINTEXT"), WAIT_S) as neighbour:
        assert await set_password(neighbour) == 0
        strangers = asyncio.ensure_future(attack(doors, many if IS_SOAK else few))
        served = 0
        while not strangers.done():
            assert (await neighbour.ask(ApiKey.METADATA, 12, METADATA)).brokers
            # A large request needs memory beside the first buffer of a connection.
            assert (await neighbour.produce("unknown", LARGE)).error_code == UNKNOWN_TOPIC_OR_PARTITION
            served += 1
            await asyncio.wait([strangers], timeout=NEIGHBOUR_S)
        await strangers
        assert (await neighbour.ask(ApiKey.METADATA, 12, METADATA)).brokers
    async with await Raw.connect(doors.at("TLS"), WAIT_S, ssl=doors.authority.context()) as raw:
        assert (await raw.ask(ApiKey.METADATA, 12, METADATA)).brokers
    return served


@pytest.mark.parametrize(("room", "name"), rooms(HOLD_NOTHING))
def test_memory_and_the_log_stay_bounded(guarded: Callable[[str], tuple[Guarded, int]], room: str, name: str) -> None:
    process, before = guarded(room)
    lines = process.log.read_text().count("\n")
    assert asyncio.run(attacked(name, process.doors))
    grown = process.memory_bytes() - before
    assert grown < MAX_GROWTH, f"{grown >> 20} MiB"
    log = process.log.read_text()
    assert "Traceback" not in log
    if not IS_SOAK:
        # Three processors, two doors with TLS, and what a loaded machine stretches over two windows.
        assert log.count("\n") - lines < 10 * MAX_LOG_LINES
    assert len(log) < MAX_LOG_BYTES


# The broker's loop is its own; which loop the client runs on says nothing about it.
@pytest.mark.asyncio(loop_factories=["uvloop"])
@pytest.mark.parametrize(("room", "name"), rooms(ASK_LITTLE))
async def test_no_turn_is_long(measured: Callable[[str], tuple[MeasuredBroker, Doors]], room: str, name: str) -> None:
    broker, doors = measured(room)
    for key, version in ((ApiKey.METADATA, 12), (ApiKey.PRODUCE, 9), (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0)):
        await broker.warm_up(key, version)
    broker.begin()
    # A turn is no longer for what many have sent before.
    assert await attacked(name, doors, share=3)
    assert broker.longest_turn_ms <= LIMIT_MS
