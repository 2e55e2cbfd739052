"""Strangers at listeners with TLS and SASL: bounded in time and memory, without a long turn, and others are served."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import ssl
from collections.abc import Iterator
from pathlib import Path
from struct import pack

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.network import tls_door
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.tests.support.brokers.connections import acceptor, connections
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.security.sasl import authenticate, bearer, handshake, log_in, sasl_config
from odradek.tests.support.security.tls import Authority, connect, tls_config
from odradek.tests.support.seeds import seeds

METADATA = MetadataRequest(topics=[])


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    config = BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:0",), log_dirs=(str(tmp_path_factory.mktemp("data")),))
    with Broker(sasl_config(config)) as broker:
        yield broker


async def is_served(broker: Broker) -> bool:
    async with await Raw.connect(broker.address) as raw:
        return bool((await raw.ask(ApiKey.METADATA, 12, METADATA)).brokers)


@pytest.mark.parametrize("seed", range(20))
async def test_any_bytes_end_in_an_answer_or_a_closed_connection(secure: Broker, seed: int) -> None:
    rolls = random.Random(seed)
    async with await Raw.connect(secure.addresses[1]) as raw:
        if rolls.random() < 0.7:
            await handshake(raw, rolls.choice(list(secure.config.sasl_enabled_mechanisms)), rolls.randrange(2))
        sent = rolls.randbytes(rolls.randrange(1, 3000))
        raw.send_bytes(pack(">i", len(sent)) + sent)
        raw.send_bytes(pack(">i", -1))
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                await raw.receive_bytes()
    assert await is_served(secure)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
@pytest.mark.parametrize("seed", range(5))
async def test_any_token_is_refused_and_closes(secure: Broker, mechanism: str, seed: int) -> None:
    rolls = random.Random(seed)
    token = rolls.choice([b"", b"n,,", b"\0" * 100_000, b"n,,n=" + b"a" * 500_000, rolls.randbytes(1000)])
    async with await Raw.connect(secure.addresses[1]) as raw:
        response = await log_in(raw, token, mechanism)
        if response.error_code == 0:
            response = await authenticate(raw, rolls.randbytes(100))
        assert response.error_code == 58
        assert await raw.is_closed()


async def test_a_deep_token_does_not_hold_the_loop(secure: Broker) -> None:
    deep = "eyJhbGciOiJub25lIn0." + "W1tb" * 100_000 + "."
    async with await Raw.connect(secure.addresses[1]) as raw:
        assert (await log_in(raw, bearer(deep), "OAUTHBEARER")).auth_bytes == b'{"status":"invalid_token"}'
    assert await is_served(secure)


async def test_many_half_logins_leave_nothing_behind(config: BrokerConfig) -> None:
    async with Broker(sasl_config(config)) as broker:
        for _ in range(300):
            raw = await Raw.connect(broker.addresses[1])
            raw.send_bytes(pack(">i", 400_000) + bytes(1000))
            raw.close()
        async with asyncio.timeout(20):
            while connections(broker):
                await asyncio.sleep(0.01)
        assert await is_served(broker)


@pytest.mark.parametrize("seed", seeds(range(2), range(10)))
async def test_strangers_at_a_tls_listener_leave_others_served(
    config: BrokerConfig, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_door, "HANDSHAKE_MS", 2_000)
    authority, rolls = Authority(tmp_path), random.Random(seed)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        authority.context().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1").do_handshake()
    hello = outgoing.read()
    async with Broker(tls_config(config, authority)) as broker:
        strangers = [await Raw.connect(broker.addresses[1]) for _ in range(40)]
        for each in strangers:
            sent = bytearray(hello)
            if rolls.random() < 0.5:
                sent[rolls.randrange(len(sent))] ^= 1 << rolls.randrange(8)
            each.send_bytes(bytes(sent[: rolls.choice([1, 5, 100, len(sent)])]) + rolls.choice([b"", os.urandom(300)]))
        async with await connect(broker.addresses[1], authority.context()) as raw:
            assert (await raw.ask(ApiKey.METADATA, 12, METADATA)).brokers
        for each in strangers:
            each.close()
        async with asyncio.timeout(20):
            while acceptor(broker).has_arrivals:
                await asyncio.sleep(0.01)
        assert await is_served(broker)
