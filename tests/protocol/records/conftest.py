"""Runs the tests of records twice: with Python alone, and with the compiled kernel where it can be built."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from odradek.tests.support.brokers.compiled_kernel import records_by

_OVER_BOTH = ("test_batch", "test_values", "test_golden")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give the modules that decode and encode records both ways."""
    if metafunc.module.__name__.rpartition(".")[2] in _OVER_BOTH:
        metafunc.parametrize("records_way", ["Python", "kernel"], indirect=True, scope="module")


@pytest.fixture(scope="module", autouse=True)
def records_way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Decode and encode by what the parameter says; by Python where there is none."""
    with records_by(getattr(request, "param", "Python")):
        yield
