"""For tests of commands: the profile and the address of the user do not count, and logging stays as it was."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from odradek.tests.support.brokers.process import BrokerProcess
from odradek.tests.support.documents.command import odradek, threaded_broker


@pytest.fixture(autouse=True)
def own_settings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where the profiles of this test are kept."""
    path = tmp_path_factory.mktemp("settings") / "profiles.toml"
    monkeypatch.setenv("ODRADEK_CONFIG", str(path))
    for name in ("ODRADEK_BOOTSTRAP_SERVER", "ODRADEK_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    return path


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    """Undo what `serve` in the test's own process does to the root logger."""
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    process = BrokerProcess(tmp_path_factory.mktemp("broker"), group_initial_rebalance_delay_ms=0).start()
    yield process.address
    process.close()


@pytest.fixture(scope="module")
def numbers(broker: str) -> str:
    """A topic of two partitions with 0 to 99 in each, a second apart from 2026-01-01T00:00:00Z on, keyed `k`."""
    # On a slow machine retention would delete them during the tests.
    create = ("topics", "create", "numbers", "--partitions", "2", "--config", "retention.ms=-1")
    assert odradek(broker, *create).returncode == 0
    producer = Producer({"bootstrap.servers": broker})
    for number in range(100):
        for partition in (0, 1):
            timestamp_ms = 1_767_225_600_000 + 1000 * number
            producer.produce("numbers", b"%d" % number, b"k", partition, timestamp=timestamp_ms, headers=[("h", b"x")])
    assert producer.flush(10) == 0
    return "numbers"


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the address of a broker, which is also the one that commands ask by themselves."""
    with threaded_broker(tmp_path / "data") as broker:
        monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVER", broker.address)
        yield broker.address
