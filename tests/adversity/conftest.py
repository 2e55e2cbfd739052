"""Fixtures: a broker process, and a check that nothing went wrong in it unseen."""

from __future__ import annotations

import logging
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.broker import BrokerConfig
from odradek.tests.support.brokers.process import BrokerProcess


@pytest.fixture
def config(tmp_path: Path) -> BrokerConfig:
    """Return a config with a free port, a directory of its own, and groups that do not wait for more members."""
    return BrokerConfig(
        listeners=("PLAINTEXT://127.0.0.1:0",),
        log_dirs=(str(tmp_path / "data"),),
        group_initial_rebalance_delay_ms=0,
        offsets_topic_num_partitions=1,
        transaction_state_log_num_partitions=1,
    )


@pytest.fixture
def process(tmp_path: Path) -> Iterator[BrokerProcess]:
    """Yield `odradek serve`, not started. Afterwards, check that it can still stop cleanly."""
    each = BrokerProcess(tmp_path, group_initial_rebalance_delay_ms=0)
    yield each
    each.close()


@pytest.fixture(autouse=True)
def untroubled(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail if a callback raised an exception, or a task failed unseen, whatever the clients do."""
    yield
    assert [each.getMessage() for each in caplog.get_records("call") if each.name == "asyncio"] == []
    assert [each.getMessage() for each in caplog.get_records("call") if each.levelno >= logging.ERROR] == []


@pytest.fixture
def many_files() -> Iterator[None]:
    """Allow thousands of sockets in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
