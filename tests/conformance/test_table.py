"""docs/conformance.md holds every pair that is offered, as passed."""

from __future__ import annotations

from odradek.broker.network.routes import LONE_ROUTES, ROUTES
from odradek.tests.conformance import table


def test_each_pair_that_is_served_is_in_the_table_as_passed() -> None:
    results = table.held(table.PAGE.read_text())
    served = {(int(route.key), version) for route in (*ROUTES, *LONE_ROUTES) for version in route.versions}
    assert set(results) == served, "run `make conformance`: it writes docs/conformance.md"
    assert {pair for pair, result in results.items() if result != "passed"} == set()
