"""The code of docs/work-queues.md runs as it stands, block after block, beside a broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.broker import Broker
from odradek.tests.support.documents.page import run_blocks

PAGE = Path(__file__).parents[3] / "docs" / "work-queues.md"


# A worker learns of its partitions with the next heartbeat.
QUICK = {"group.share.heartbeat.interval.ms": "100", "group.share.min.heartbeat.interval.ms": "100"}


async def test_every_block_runs(capsys: pytest.CaptureFixture[str]) -> None:
    async with Broker.ephemeral(QUICK) as broker:
        await run_blocks("work-queues.md", PAGE.read_text(encoding="utf-8"), {"127.0.0.1:9092": broker.address})
    assert capsys.readouterr().out.splitlines() == [
        "19 jobs are done",
        "b'13' jobs Offset rejected by client.",
    ]
