"""Board and alerts evaluated by Prometheus: each expression of the board finds samples, and no alert fires for nothing.

Two scrapes of a broker become series, which `promtool test rules` reads.
"""

from __future__ import annotations

import asyncio
import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import odradek
import pytest
from odradek.broker import Broker
from odradek.client import Consumer, Producer
from odradek.tests.support.brokers.http import get
from odradek.tests.support.clients.raw import Raw
from prometheus_client.parser import text_string_to_metric_families

PROMTOOL = shutil.which("promtool")
ROOT = Path(odradek.__path__[0])
MONITORING = runpy.run_path(str(ROOT / "tools" / "monitoring.py"))
RULES = ROOT / "docker" / "monitoring" / "alerts.yaml"
COMPARISON = re.compile(r" (?:==|!=|<|>) [\d.]+$")

pytestmark = pytest.mark.skipif(PROMTOOL is None, reason="no promtool (Debian: prometheus)")


async def scrape(broker: Broker) -> dict[str, float]:
    """Return each sample, by its name and labels as PromQL writes them."""
    assert broker.http_address is not None
    text = (await get(broker.http_address, "/metrics")).text
    labels = 'job="odradek",instance="here"'
    found = {f"up{{{labels}}}": 1.0}
    for sample in (sample for family in text_string_to_metric_families(text) for sample in family.samples):
        pairs = "".join(f",{name}={json.dumps(value)}" for name, value in sample.labels.items())
        found[f"{sample.name}{{{labels}{pairs}}}"] = sample.value
    return found


async def work(broker: Broker, raw: Raw) -> None:
    """Do some of everything that is counted."""
    async with (
        Producer(bootstrap_servers=broker.address) as producer,
        Consumer("t", bootstrap_servers=broker.address, group_id="g", auto_offset_reset="earliest") as consumer,
    ):
        for _ in range(50):
            await producer.send("t", b"value")
        await producer.flush()
        await consumer.getmany(timeout_ms=10_000)
        await consumer.commit()
        await producer.send("t", b"unread")
    await raw.produce("t", b"no batch")


async def promtool(*arguments: object, text: str = "") -> tuple[int, str]:
    command = [PROMTOOL or "", *map(str, arguments)]
    done = await asyncio.to_thread(
        subprocess.run, command, input=text, capture_output=True, text=True, check=False, timeout=120
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
async def series(broker: Broker, raw: Raw) -> list[dict[str, str]]:
    """Return what Prometheus has of a broker after five minutes, of which all but the first had one load."""
    await raw.create_topic("t")
    await work(broker, raw)
    before = await scrape(broker)
    await work(broker, raw)
    after = await scrape(broker)
    return [
        {"series": name, "values": f"{before.get(name, 0)}+0x10 {value}+0x10"} for name, value in sorted(after.items())
    ]


async def evaluate(tmp_path: Path, series: list[dict[str, str]], **tests: Any) -> tuple[int, str]:
    path = tmp_path / "test.yaml"
    one = {"interval": "15s", "input_series": series, **tests}
    # JSON is YAML, too.
    path.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "15s", "tests": [one]}))
    return await promtool("test", "rules", path)


async def test_every_expression_of_the_board_finds_samples(tmp_path: Path, series: list[dict[str, str]]) -> None:
    expressions = [expression for panel in MONITORING["PANELS"] for expression, _ in panel.lines]
    expressions += [COMPARISON.sub("", alert.expression) for alert in MONITORING["ALERTS"]]
    tests = [
        {"expr": f"sgn(count({each}))", "eval_time": "3m", "exp_samples": [{"labels": "{}", "value": 1}]}
        for each in expressions
    ]
    status, text = await evaluate(tmp_path, series, promql_expr_test=tests)
    assert status == 0, text


async def test_no_alert_fires_for_a_healthy_broker(tmp_path: Path, series: list[dict[str, str]]) -> None:
    names = {each.name for each in MONITORING["ALERTS"]} - {"OdradekDiskNearlyFull"}  # of this machine's disk
    tests = [{"eval_time": "5m", "alertname": each, "exp_alerts": []} for each in sorted(names)]
    status, text = await evaluate(tmp_path, series, alert_rule_test=tests)
    assert status == 0, text


async def test_an_alert_fires_where_there_is_reason(tmp_path: Path, series: list[dict[str, str]]) -> None:
    damaged = next(each for each in series if each["series"].startswith("odradek_damaged_places"))
    damaged["values"] = "0+0x10 1+0x10"
    labels = {"severity": "critical", "job": "odradek", "instance": "here"}
    summary = "Logs of here are damaged: odradek log verify tells where"
    fired = [{"exp_labels": labels, "exp_annotations": {"summary": summary}}]
    tests = [{"eval_time": "5m", "alertname": "OdradekDamage", "exp_alerts": fired}]
    status, text = await evaluate(tmp_path, series, alert_rule_test=tests)
    assert status == 0, text


async def test_prometheus_accepts_the_rules_and_the_names(broker: Broker, raw: Raw) -> None:
    assert (await promtool("check", "rules", RULES))[0] == 0
    await raw.create_topic("t")
    for path in ("/metrics", "/metrics/partitions"):
        assert broker.http_address is not None
        status, text = await promtool("check", "metrics", text=(await get(broker.http_address, path)).text)
        assert status == 0, text
