"""The broker under test, as a process: one for the tests of a module, or one for a test that kills it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.tests.support.brokers.process import BrokerProcess, broker_process

SETTINGS = {"group_initial_rebalance_delay_ms": 0, "group_min_session_timeout_ms": 1_000, "num_partitions": 3}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield HOST:PORT of a broker that the module's tests share. Afterwards, it must stop cleanly."""
    process = broker_process(tmp_path_factory.mktemp("broker"), **SETTINGS).start()
    yield process.address
    process.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """Yield a broker for one test alone, which may stop, kill and start it."""
    process = broker_process(tmp_path, **SETTINGS).start()
    yield process
    process.close()
