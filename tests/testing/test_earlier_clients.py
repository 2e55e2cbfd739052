"""Clients of an earlier test, which connect again and again, never reach the next test's broker."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer as ConfluentProducer
from odradek.testing import KafkaCluster, KafkaProcess, LocalKafka

from .inner_pytest import run

# How often a client tries to connect before nobody expects it back.
TRIED = 5
IMPATIENT = {"reconnect.backoff.ms": 1, "reconnect.backoff.max.ms": 5, "retry.backoff.ms": 1, "log_level": 0}
WITHIN_S = 60


def take_tries(address: str) -> None:
    """Wait until a client tries its old address again and again. What it tells of its errors may be one in 30 s."""
    host, _, port = address.rpartition(":")
    with socket.create_server((host, int(port))) as old:
        old.settimeout(WITHIN_S)
        for _ in range(TRIED):
            old.accept()[0].close()


@contextmanager
def writer(options: dict[str, Any], topic: str) -> Iterator[None]:
    """A producer that writes as fast as it can, whatever happens."""
    stop, began = threading.Event(), threading.Event()

    def write() -> None:
        producer = ConfluentProducer({**options, **IMPATIENT, "linger.ms": 0})
        while not stop.wait(0.001):
            producer.produce(topic, b"of an earlier test", on_delivery=lambda *_: began.set())
            producer.poll(0)
        producer.purge()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert began.wait(30)
        yield
    finally:
        stop.set()
        thread.join()


KINDS: list[Callable[[], LocalKafka | KafkaCluster | KafkaProcess]] = [
    LocalKafka,
    lambda: LocalKafka(tls=True, users={"a": "b"}),
    KafkaCluster,
    KafkaProcess,
]


@pytest.mark.parametrize("kind", KINDS, ids=["local", "secure", "cluster", "process"])
def test_a_client_of_before_does_not_come_back(kind: Callable[[], Any]) -> None:
    with kind() as kafka:
        before = kafka.address
        with writer(kafka.options("confluent-kafka"), "orders"):
            kafka.reset()
            assert not set(before.split(",")) & set(kafka.address.split(","))
            kafka.create_topic("orders")
            take_tries(before.split(",")[0])
            assert kafka.records("orders") == []
        kafka.put("orders", ["v"])
        assert [each.value for each in kafka.records("orders")] == [b"v"]


def test_a_request_that_waits_is_not_carried_out_in_the_next_test() -> None:
    with LocalKafka() as kafka:
        kafka.create_topic("orders")
        may_go_on, tried = threading.Event(), threading.Event()

        @kafka.on("Produce")
        def answer(request: Any, proceed: Callable[[], Any]) -> Any:
            may_go_on.wait(30)
            try:
                return proceed()
            finally:
                tried.set()

        producer = ConfluentProducer({"bootstrap.servers": kafka.address, **IMPATIENT})
        producer.produce("orders", b"late")
        deadline_s = time.monotonic() + WITHIN_S
        while not answer.fired:
            assert time.monotonic() < deadline_s, "nobody has asked"
            producer.poll(0.01)
        kafka.reset()
        kafka.create_topic("orders")
        may_go_on.set()
        assert tried.wait(30)
        assert kafka.records("orders") == []
        assert kafka.handler_failures() == []
        producer.purge()


def test_a_port_that_the_config_names_stays() -> None:
    with LocalKafka() as free:
        listeners = f"PLAINTEXT://{free.address}"
    with LocalKafka({"listeners": listeners}) as kafka:
        kafka.put("t", ["v"])
        kafka.reset()
        assert listeners.endswith(kafka.address)
        assert kafka.topics() == []


TESTS = """
import threading, time
from confluent_kafka import Producer

def write(address, began):
    producer = Producer({"bootstrap.servers": address, "reconnect.backoff.max.ms": 5, "reconnect.backoff.ms": 1})
    while True:
        producer.produce("orders", b"of an earlier test", on_delivery=lambda *_: began.set())
        producer.poll(0.001)

def test_that_fails(kafka):
    began = threading.Event()
    threading.Thread(target=write, args=(kafka.address, began), daemon=True).start()
    assert began.wait(30)
    assert kafka.topics() == []

def test_that_restarts(kafka):
    threading.Thread(target=write, args=(kafka.address, threading.Event()), daemon=True).start()
    kafka.restart()
    time.sleep(0.1)

def test_after_it(kafka):
    kafka.create_topic("orders")
    time.sleep(0.5)
    assert kafka.records("orders") == []
"""


def test_a_client_of_a_failed_test_does_not_reach_the_next_one(tmp_path: Any) -> None:
    assert "1 failed, 2 passed" in run(tmp_path, TESTS)
