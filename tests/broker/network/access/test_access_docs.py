"""The table of what each API requires in docs/security.md is the table of the routes."""

from __future__ import annotations

import runpy
from pathlib import Path

from odradek.broker.network.routes import CLUSTER_ROUTES, OWN_ROUTES, ROUTES

ROOT = Path(__file__).parents[4]


def test_the_page_says_what_each_api_requires() -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    made = runpy.run_path(str(ROOT / "tools" / "access_docs.py"))["page"]()
    assert page == made, "run: python tools/access_docs.py write"


def test_a_denial_of_every_api_is_an_error_or_leaves_out() -> None:
    silent = [
        each.key.name
        for each in (*ROUTES, *CLUSTER_ROUTES, *OWN_ROUTES)
        if each.access.check is not None and not each.access.denials
    ]
    assert silent == ["LIST_GROUPS", "DESCRIBE_CLUSTER", "LIST_TRANSACTIONS", "ODRADEK_DESCRIBE_QUERIES"]
