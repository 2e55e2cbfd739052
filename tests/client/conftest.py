"""Runs tests of Arrow columns twice: with Python alone, and with the compiled kernel where it can be built."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from odradek.tests.support.brokers.compiled_kernel import records_by


@pytest.fixture(params=["Python", "kernel"], scope="module")
def arrow_way(request: pytest.FixtureRequest) -> Iterator[str]:
    """Decode and encode by what the parameter says: `pytestmark = pytest.mark.usefixtures("arrow_way")`."""
    with records_by(request.param):
        yield request.param
