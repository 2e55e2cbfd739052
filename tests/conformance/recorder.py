"""A pytest plugin that notes which tests ask which (API key, version), and how they end.

    pytest -p odradek.tests.conformance.recorder --pairs FILE ...

FILE gets a line of JSON a test that asked: [test, outcome, [[key, version], ...]]. A request counts where its response
came and was decoded in that version.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from odradek.tests.support.clients.raw import Raw

_asked: dict[str, set[tuple[int, int]]] = defaultdict(set)
_outcomes: dict[str, str] = {}
_running = ""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pairs", type=Path, required=True)


def pytest_collection_finish() -> None:
    _listen(Raw)


def _listen(raw: Any) -> None:
    receive = raw.receive

    async def noted(self: Any, key: int, version: int) -> Any:
        response = await receive(self, key, version)
        _asked[_running].add((int(key), version))
        return response

    raw.receive = noted


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    global _running
    _running = item.nodeid
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if _outcomes.get(report.nodeid, "passed") == "passed":
        _outcomes[report.nodeid] = report.outcome


def pytest_sessionfinish(session: pytest.Session) -> None:
    lines = [json.dumps([test, _outcomes.get(test, "unknown"), sorted(pairs)]) for test, pairs in _asked.items()]
    session.config.getoption("--pairs").write_text("".join(f"{line}\n" for line in lines))
