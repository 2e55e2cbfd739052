"""The code of the pages on clients runs as it stands, block after block, beside a broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.client import Producer, blocking
from odradek.tests.support.documents.page import begin, python_of, run_blocks

DOCS = Path(__file__).parents[2] / "docs"
ADDRESS = "127.0.0.1:9092"


def read(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


@pytest.mark.parametrize(("page", "blocks"), [("client.md", 6), ("admin.md", 1)])
async def test_every_block_runs(broker: Broker, page: str, blocks: int) -> None:
    # The blocks on consuming have their own test, which sets the default address.
    text = read(page).partition("\n## Consuming\n")[0]
    assert await run_blocks(page, text, {ADDRESS: broker.address}) >= blocks


async def test_the_page_on_security_makes_a_producer() -> None:
    assert await run_blocks("security.md", read("security.md"), {}, {"Producer": Producer, "password": "secret"}) == 1


def test_blocking_clients_and_transactions_run_without_a_loop(config: BrokerConfig) -> None:
    with Broker(config) as broker:
        # What the page waits for when all is read.
        own = {ADDRESS: broker.address, "timeout_ms=1000": "timeout_ms=300"}
        blocks = list(python_of(read("client.md"), own, "py"))
        assert len(blocks) == 3
        confluent, transactions = python_of(read("transactions.md"), own)
        with blocking.Producer(broker.address) as producer:
            producer.send_and_wait("flights", b"UA 1")
        names = {"__name__": "page"}
        for line, code in (*blocks, transactions):
            begin(code, dict(names) if (line, code) == transactions else names, "page", line)
        with blocking.Consumer("counts", bootstrap_servers=broker.address, auto_offset_reset="earliest") as counts:
            assert next(counts).value == b"4"
            # Confluent's program, which never ends, counts the same flight in a group of the same name: it reads on.
            with blocking.Producer(broker.address) as producer:
                producer.send_and_wait("flights", b"UA 100")
            names |= {"counted": lambda: counts.getmany(timeout_ms=100)}
            line, code = confluent
            begin(code.replace("while True:", "while not counted():").replace("timeout=1", "timeout=0.1"), names)
            names["consumer"].close()
            del names["producer"]
