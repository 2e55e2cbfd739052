"""Write the Grafana board and the alert rules for Prometheus: python tools/monitoring.py write

Both are tables here. A test checks that every metric in an expression is in a scrape of a broker.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parents[1] / "docker" / "monitoring"
# Panels stand two in a row of Grafana's 24 columns.
_WIDTH, _HEIGHT = 12, 8


class Panel(NamedTuple):
    """A graph: each expression with the legend of its lines."""

    title: str
    unit: str
    lines: tuple[tuple[str, str], ...]


class Alert(NamedTuple):
    """A rule: it fires once its expression has held for so long."""

    name: str
    expression: str
    lasts: str
    severity: str
    summary: str


PANELS = (
    Panel(
        "Ready brokers", "none", (("sum(odradek_ready)", "ready"), ("sum(odradek_active_controller)", "controllers"))
    ),
    Panel("Event loop", "percentunit", (("rate(odradek_event_loop_cpu_seconds_total[1m])", "{{instance}}"),)),
    Panel("Bytes in", "Bps", (("sum by (topic) (rate(odradek_topic_bytes_in_total[1m]))", "{{topic}}"),)),
    Panel("Bytes out", "Bps", (("sum by (topic) (rate(odradek_topic_bytes_out_total[1m]))", "{{topic}}"),)),
    Panel("Records in", "cps", (("sum by (topic) (rate(odradek_topic_records_in_total[1m]))", "{{topic}}"),)),
    Panel("Requests", "reqps", (("sum by (api) (rate(odradek_requests_total[1m]))", "{{api}}"),)),
    Panel(
        "Time of requests, p99",
        "s",
        (
            (
                "histogram_quantile(0.99, sum by (api, le) (rate(odradek_request_duration_seconds_bucket[5m])))",
                "{{api}}",
            ),
        ),
    ),
    Panel("Errors", "cps", (("sum by (api, error) (rate(odradek_request_errors_total[1m]))", "{{api}} {{error}}"),)),
    Panel("Lag in records", "none", (("max by (group) (odradek_group_lag_records)", "{{group}}"),)),
    Panel("Lag in seconds", "s", (("max by (group) (odradek_group_lag_seconds)", "{{group}}"),)),
    Panel("Retention used", "percentunit", (("max by (group) (odradek_group_retention_used_ratio)", "{{group}}"),)),
    Panel("Rebalances", "none", (("changes(odradek_group_generation[5m])", "{{group}}"),)),
    Panel(
        "Partitions",
        "none",
        (
            ("sum(odradek_partitions_offline)", "offline"),
            ("sum(odradek_partitions_under_replicated)", "under-replicated"),
            ("sum(odradek_partitions_under_min_isr)", "under min ISR"),
        ),
    ),
    Panel("Size of logs", "bytes", (("sum by (topic) (odradek_log_bytes)", "{{topic}}"),)),
    Panel(
        "Disk in use",
        "percentunit",
        (("1 - odradek_disk_free_bytes / odradek_disk_size_bytes", "{{instance}} {{dir}}"),),
    ),
    Panel("Connections", "none", (("odradek_connections", "{{instance}}"),)),
    Panel("Memory", "bytes", (("process_resident_memory_bytes", "{{instance}}"),)),
    Panel("Open files", "percentunit", (("process_open_fds / process_max_fds", "{{instance}}"),)),
)

ALERTS = (
    Alert(
        "OdradekNotReady",
        "odradek_ready == 0",
        "2m",
        "critical",
        "Broker {{ $labels.instance }} is not ready: look at its page /ready",
    ),
    Alert("OdradekDown", 'up{job="odradek"} == 0', "1m", "critical", "Broker {{ $labels.instance }} does not answer"),
    Alert(
        "OdradekPartitionsOffline",
        "odradek_partitions_offline > 0",
        "1m",
        "critical",
        "Partitions of {{ $labels.instance }} are offline: look into its log",
    ),
    Alert(
        "OdradekLogDirOffline",
        "odradek_log_dir_offline > 0",
        "0m",
        "critical",
        "Data directory {{ $labels.dir }} has failed",
    ),
    Alert(
        "OdradekDamage",
        "odradek_damaged_places > 0",
        "0m",
        "critical",
        "Logs of {{ $labels.instance }} are damaged: odradek log verify tells where",
    ),
    Alert(
        "OdradekUnderReplicated",
        "odradek_partitions_under_replicated > 0",
        "5m",
        "warning",
        "Partitions lack replicas: a broker is away or slow",
    ),
    Alert("OdradekUnderMinIsr", "odradek_partitions_under_min_isr > 0", "1m", "critical", "Partitions reject acks=all"),
    Alert(
        "OdradekControllers",
        "sum(odradek_active_controller) != 1",
        "2m",
        "critical",
        "The cluster does not have one controller",
    ),
    Alert(
        "OdradekDiskNearlyFull",
        "odradek_disk_free_bytes / odradek_disk_size_bytes < 0.15",
        "5m",
        "warning",
        "The disk of {{ $labels.dir }} is nearly full",
    ),
    Alert(
        "OdradekDiskFullSoon",
        "predict_linear(odradek_disk_free_bytes[1h], 4 * 3600) < 0",
        "15m",
        "critical",
        "The disk of {{ $labels.dir }} is full within 4 hours at the present rate",
    ),
    Alert(
        "OdradekGroupLosesSoon",
        "odradek_group_retention_used_ratio > 0.8",
        "5m",
        "critical",
        "Group {{ $labels.group }} will lose records to retention",
    ),
    Alert(
        "OdradekGroupLost",
        "odradek_group_lost_records > 0",
        "0m",
        "critical",
        "Records were deleted before group {{ $labels.group }} committed them",
    ),
    Alert(
        "OdradekEventLoopBusy",
        "rate(odradek_event_loop_cpu_seconds_total[5m]) > 0.9",
        "10m",
        "warning",
        "Broker {{ $labels.instance }} is at its limit",
    ),
    Alert(
        "OdradekFewDescriptors",
        "process_open_fds / process_max_fds > 0.8",
        "5m",
        "warning",
        "Broker {{ $labels.instance }} runs out of descriptors: raise LimitNOFILE",
    ),
)


def board() -> str:
    """Return the board as Grafana imports it."""
    panels = [_panel(number, each) for number, each in enumerate(PANELS)]
    found = {"uid": "odradek", "title": "Odradek", "schemaVersion": 39, "refresh": "15s", "panels": panels}
    found |= {"time": {"from": "now-1h", "to": "now"}, "tags": ["kafka", "odradek"]}
    return json.dumps(found, indent=1) + "\n"


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, 2)
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + at), "expr": expression, "legendFormat": legend}
            for at, (expression, legend) in enumerate(panel.lines)
        ],
    }


def alerts() -> str:
    """Return the rules as Prometheus reads them. Texts are in JSON's quotes, which YAML reads as well."""
    lines = ["# Written by tools/monitoring.py", "groups:", "  - name: odradek", "    rules:"]
    for each in ALERTS:
        lines += [
            f"      - alert: {each.name}",
            f"        expr: {json.dumps(each.expression)}",
            f"        for: {each.lasts}",
            f"        labels: {{severity: {each.severity}}}",
            f"        annotations: {{summary: {json.dumps(each.summary)}}}",
        ]
    return "\n".join(lines) + "\n"


# Files by what makes them.
FILES = {FOLDER / "dashboards" / "odradek.json": board, FOLDER / "alerts.yaml": alerts}

if __name__ == "__main__" and sys.argv[1:] == ["write"]:
    for path, make in FILES.items():
        path.write_text(make(), encoding="utf-8")
