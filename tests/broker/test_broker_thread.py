"""A broker in a thread of its own: for blocking clients, without an event loop in the program."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from odradek.broker import Broker, BrokerConfig, StartError
from odradek.broker.broker_thread import BrokerThread


@pytest.fixture
def plain(tmp_path: Path) -> BrokerConfig:
    """As a user writes it: nothing but an address and a place."""
    return BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:0",), log_dirs=(str(tmp_path / "data"),))


def test_blocking_clients_reach_it_and_a_group_does_not_wait(plain: BrokerConfig) -> None:
    with Broker(plain) as broker:
        producer = Producer({"bootstrap.servers": broker.address})
        producer.produce("t", b"value")
        assert producer.flush(20) == 0
        consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        record = consumer.poll(20)
        assert record is not None and record.value() == b"value"
        consumer.close()
        assert broker.config.group_initial_rebalance_delay_ms == 0


def test_members_hear_of_each_other_soon(plain: BrokerConfig) -> None:
    with Broker(plain) as broker:
        assert broker.config.group_consumer_heartbeat_interval_ms == 500
        assert broker.config.group_share_heartbeat_interval_ms == 500
    with Broker(replace(plain, group_consumer_min_heartbeat_interval_ms=5)) as broker:
        assert broker.config.group_consumer_heartbeat_interval_ms == 5000
        assert broker.config.group_share_heartbeat_interval_ms == 500


def test_a_delay_that_was_given_stays(plain: BrokerConfig) -> None:
    given, _ = BrokerConfig.parse(
        {
            "group.initial.rebalance.delay.ms": "3000",
            "listeners": plain.listeners[0],
            "log.dirs": str(plain.data_dir),
        }
    )
    for config, delay in ((given, 3000), (replace(plain, group_initial_rebalance_delay_ms=5), 5)):
        with Broker(config) as broker:
            assert broker.config.group_initial_rebalance_delay_ms == delay


def assert_ended(before: set[threading.Thread]) -> None:
    """The broker's own threads for the disk end when their last work is done."""
    deadline = time.monotonic() + 10
    while set(threading.enumerate()) - before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert set(threading.enumerate()) <= before


def test_it_stops_with_its_block_and_leaves_no_thread_and_no_port(plain: BrokerConfig) -> None:
    before = set(threading.enumerate())
    with Broker(plain) as broker:
        host, _, port = broker.address.rpartition(":")
        socket.create_connection((host, int(port)), timeout=5).close()
    assert_ended(before)
    assert broker.addresses == []
    assert (plain.data_dir / ".kafka_cleanshutdown").exists()


def test_an_error_in_the_block_stops_it_too(plain: BrokerConfig) -> None:
    with pytest.raises(ZeroDivisionError):
        with Broker(plain) as broker:
            raise ZeroDivisionError
    assert broker.addresses == []


def test_a_failed_start_is_raised_in_the_caller(plain: BrokerConfig) -> None:
    before = set(threading.enumerate())
    with Broker(plain) as broker:
        with pytest.raises(StartError, match="in use"):
            with Broker(plain):
                pass
        with pytest.raises(StartError, match="running already"):
            with broker:
                pass
        with pytest.raises(StartError, match="cannot listen"):
            with Broker(replace(plain, listeners=(f"PLAINTEXT://{broker.address}",), log_dirs=(f"{plain.data_dir}2",))):
                pass
        assert broker.addresses
    assert_ended(before)


def test_several_run_beside_each_other_and_one_can_start_again(plain: BrokerConfig, tmp_path: Path) -> None:
    other = replace(plain, log_dirs=(str(tmp_path / "other"),))
    with Broker(plain) as first, Broker(other) as second:
        assert first.address != second.address
        assert first.cluster_id != second.cluster_id
    with Broker(plain) as again:
        assert again.addresses


async def test_a_program_with_an_event_loop_can_use_it_as_well(plain: BrokerConfig) -> None:
    with Broker(plain) as broker:
        assert Producer({"bootstrap.servers": broker.address}).list_topics(timeout=20).brokers


def test_the_interpreters_exit_stops_one_that_nobody_stopped(plain: BrokerConfig) -> None:
    code = f"""
from odradek.broker import Broker, BrokerConfig
broker = Broker(BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:0",), log_dirs=({str(plain.data_dir)!r},)))
broker.__enter__()
print(broker.address)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (plain.data_dir / ".kafka_cleanshutdown").exists()


class _Lingering(threading.Event):
    """Set by a thread that has closed its loop, and is alive until somebody waits for its end."""

    def __init__(self) -> None:
        super().__init__()
        self.awaited = threading.Event()

    def set(self) -> None:
        super().set()
        self.awaited.wait(60)


def test_a_failed_start_is_the_error_though_the_thread_still_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail() -> None:
        raise StartError("as expected")

    async def end() -> None: ...

    thread = BrokerThread(fail, end)
    lingering = _Lingering()
    monkeypatch.setattr(thread, "_settled", lingering)
    join = thread._thread.join
    monkeypatch.setattr(thread._thread, "join", lambda timeout: (lingering.awaited.set(), join(timeout)))
    with pytest.raises(StartError, match="as expected"):
        thread.start()
