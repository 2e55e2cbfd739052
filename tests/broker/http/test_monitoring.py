"""The board and the alert rules: written from one table, and every metric that they name is in a scrape."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import odradek
import pytest
from odradek.broker import Broker
from odradek.tests.support.brokers.http import get

ROOT = Path(odradek.__path__[0])
MONITORING = runpy.run_path(str(ROOT / "tools" / "monitoring.py"))
EXPRESSIONS = [
    *(expression for panel in MONITORING["PANELS"] for expression, _ in panel.lines),
    *(alert.expression for alert in MONITORING["ALERTS"]),
]
NAME = re.compile(r"\b(?:odradek|process|kafka)_[a-z_]+\b")


@pytest.mark.parametrize("path", MONITORING["FILES"], ids=lambda path: path.name)
def test_the_files_are_those_of_the_table(path: Path) -> None:
    made = MONITORING["FILES"][path]()
    assert path.read_text(encoding="utf-8") == made, "run: python tools/monitoring.py write"


async def test_every_metric_of_an_expression_is_in_a_scrape(broker: Broker) -> None:
    assert broker.http_address is not None
    text = (await get(broker.http_address, "/metrics")).text
    known = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    for expression in EXPRESSIONS:
        names = {name.removesuffix("_bucket") for name in NAME.findall(expression.replace('"odradek"', ""))}
        assert names <= known, expression
        assert names or "up{" in expression
