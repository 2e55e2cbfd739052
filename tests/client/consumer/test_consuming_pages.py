"""The code of the pages on consuming runs as it stands, block after block, beside a broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.broker import Broker
from odradek.client import Admin, Consumer, NewTopic, Producer, read_topic
from odradek.tests.support.documents.page import run_blocks

DOCS = Path(__file__).parents[3] / "docs"


def section(page: str) -> str:
    """The part of docs/client.md on consuming, or the whole of another page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    if page != "client.md":
        return text
    begin = text.index("\n## Consuming\n")
    end = text.find("\n## ", begin + 1)
    return text[begin : end if end > 0 else None]


@pytest.mark.parametrize("page", ["client.md", "from-other-clients.md"])
async def test_every_block_runs(
    broker: Broker, page: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address that the pages leave out is that of the test's broker."""
    for function in (Consumer.__init__, read_topic):
        monkeypatch.setitem(function.__kwdefaults__, "bootstrap_servers", broker.address)
    for package in ("pyarrow", "prometheus_client"):
        pytest.importorskip(package, reason="pip install 'odradek[tables,metrics]'")
    async with Admin(broker.address) as admin, Producer(broker.address) as producer:
        await admin.create_topics([NewTopic("flights", 3), NewTopic("flights-dead", 1)])
        for number in range(1_000):
            await producer.send("flights", b"%d" % number, partition=number % 3)
    port = broker.address.rpartition(":")[2]
    own = {"127.0.0.1:9092": broker.address, '"127.0.0.1", 9092': f'"127.0.0.1", {port}'}
    assert await run_blocks(page, section(page), own)
    assert "Traceback" not in capsys.readouterr().out
