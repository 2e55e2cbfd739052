"""The code of docs/client.md runs as it stands, block after block, beside a broker."""

from __future__ import annotations

import ast
import inspect
import re
import warnings
from pathlib import Path
from typing import Any

from odradek.broker import Broker

PAGE = Path(__file__).parents[2] / "docs" / "client.md"
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
ADDRESS = "127.0.0.1:9092"


async def test_every_block_runs(broker: Broker) -> None:
    # The blocks on consuming have their own test, which sets the default address.
    text = PAGE.read_text(encoding="utf-8").partition("\n## Consuming\n")[0]
    blocks = list(_BLOCK.finditer(text))
    assert len(blocks) > 5
    names: dict[str, Any] = {"__name__": "client_page"}
    for block in blocks:
        line = text[: block.start()].count("\n") + 1
        code = block[1].replace(ADDRESS, broker.address)
        compiled = compile("\n" * line + code, str(PAGE), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = eval(compiled, names)
            if inspect.iscoroutine(result):
                await result
