"""A broker whose TLS connections are those of aiofastnet instead of uvloop's (docs/decisions/0032).

It is not among the dependencies: `pip install aiofastnet`, then `make bench ARGS="security --fastnet"`.
"""

from __future__ import annotations

import asyncio
import runpy
from typing import Any

from .brokers import Odradek


class Fastnet(Odradek):
    """The broker as a process."""

    name = "aiofastnet"
    module = "odradek.benchmarks.fastnet"


def _patch() -> None:
    """Have the loops of this process accept connections by aiofastnet."""
    import aiofastnet  # pyright: ignore[reportMissingImports]
    import uvloop

    async def connect_accepted_socket(loop: asyncio.AbstractEventLoop, *arguments: Any, **options: Any) -> Any:
        return await aiofastnet.connect_accepted_socket(loop, *arguments, **options)

    setattr(uvloop.Loop, "connect_accepted_socket", connect_accepted_socket)  # noqa: B010 - its type forbids that


if __name__ == "__main__":
    _patch()
    runpy.run_module("odradek", run_name="__main__")
