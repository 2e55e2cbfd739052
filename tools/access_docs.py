"""Write the table of what each API requires in docs/security.md: python tools/access_docs.py write"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from odradek.broker.metrics.request_counts import api_name
from odradek.broker.network.routes import CLUSTER_ROUTES, OWN_ROUTES, ROUTES, Route
from odradek.protocol.errors import ErrorCode
from odradek.protocol.shapes.answers import has_whole
from odradek.protocol.shapes.shape import Items
from odradek.protocol.shapes.table import SHAPES, lists_in

PAGE = Path(__file__).parents[1] / "docs" / "security.md"
BEGIN, END = "<!-- access -->\n", "<!-- /access -->"


def table() -> str:
    """Return the table in Markdown: one row an API."""
    rows = ["| API | requires | a denial is |", "| --- | --- | --- |"]
    for route in sorted([*ROUTES, *CLUSTER_ROUTES, *OWN_ROUTES], key=lambda route: route.key):
        rows.append(f"| {api_name(route.key)} | {route.access.needs} | {_denial(route)} |")
    return "\n".join(rows) + "\n"


def _denial(route: Route) -> str:
    """Return which errors say a denial, and where they are in the newest response."""
    if route.access.check is None:
        return ""
    codes = dict.fromkeys(route.access.denials)
    return ", ".join(f"{code.name} ({int(code)}) of the {_place(route, code)}" for code in codes)


def _place(route: Route, code: ErrorCode) -> str:
    """Return the place of an error: topics have theirs further in than what is around them."""
    version = route.versions[-1]
    lists = lists_in(route.key, version)
    places = list(_places_in(lists[0])) if lists else []
    if not places or (has_whole(route.key, version) and code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED):
        return "request and of each " + places[-1] if places and SHAPES[route.key].is_in_each else "request"
    return places[-1] if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED else places[0]


def _places_in(items: Items) -> Iterator[str]:
    """Yield the places of an error in a list, from the outside."""
    if items.error:
        yield items.kind if items.kind != "other" else "item"
    if items.inner is not None:
        yield from _places_in(items.inner)


def page() -> str:
    """Return the page with the table as it is now."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


if __name__ == "__main__" and sys.argv[1:] == ["write"]:
    PAGE.write_text(page(), encoding="utf-8")
