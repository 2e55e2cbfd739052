"""The code of the section on blocking clients in docs/client.md runs as it stands, block after block."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from odradek.broker import Broker, BrokerConfig

PAGE = Path(__file__).parents[3] / "docs" / "client.md"
_BLOCK = re.compile(r"^```py\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_every_block_runs(config: BrokerConfig) -> None:
    text = PAGE.read_text(encoding="utf-8")
    blocks = list(_BLOCK.finditer(text))
    assert len(blocks) == 3
    names: dict[str, Any] = {"__name__": "blocking_page"}
    with Broker(config) as broker:
        for block in blocks:
            line = text[: block.start()].count("\n") + 1
            code = block[1].replace("127.0.0.1:9092", broker.address)
            exec(compile("\n" * line + code, str(PAGE), "exec"), names)
