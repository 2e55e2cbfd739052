"""docs/operations.md has every metric, as the table of the code has it."""

from __future__ import annotations

import runpy
from pathlib import Path

import odradek

ROOT = Path(odradek.__path__[0])


def test_the_page_has_the_table_of_the_code() -> None:
    made = runpy.run_path(str(ROOT / "tools" / "metric_docs.py"))["page"]()
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    assert page == made, "run: python tools/metric_docs.py write"
