"""The code of docs/work-queues.md runs as it stands, block after block, beside a broker."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from odradek.broker import Broker

PAGE = Path(__file__).parents[3] / "docs" / "work-queues.md"
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


# A worker learns of its partitions with the next heartbeat.
QUICK = {"group.share.heartbeat.interval.ms": "100", "group.share.min.heartbeat.interval.ms": "100"}


async def test_every_block_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "work_queues_page"}
    async with Broker.ephemeral(QUICK) as broker:
        for block in _BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
            code = block[1].replace("127.0.0.1:9092", broker.address)
            result = eval(compile(code, str(PAGE), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
            if inspect.iscoroutine(result):
                await result
    assert capsys.readouterr().out.splitlines() == [
        "19 jobs are done",
        "b'13' jobs Offset rejected by client.",
    ]
