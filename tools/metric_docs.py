"""Write the table of metrics in docs/operations.md: python tools/metric_docs.py write"""

from __future__ import annotations

import sys
from pathlib import Path

from odradek.broker.metrics.table import METRICS

PAGE = Path(__file__).parents[1] / "docs" / "operations.md"
BEGIN, END = "<!-- metrics -->\n", "<!-- /metrics -->"


def table() -> str:
    """Return the table in Markdown: one row a metric."""
    rows = ["| metric | type | labels | what it is |", "| --- | --- | --- | --- |"]
    for metric in METRICS.values():
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        rows.append(f"| `{metric.name}` | {metric.type} | {labels} | {metric.help} |")
    return "\n".join(rows) + "\n"


def page() -> str:
    """Return the page with the table as it is now."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


if __name__ == "__main__" and sys.argv[1:] == ["write"]:
    PAGE.write_text(page(), encoding="utf-8")
