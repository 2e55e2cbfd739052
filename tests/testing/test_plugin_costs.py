"""What the plugin costs those who run pytest, and what it leaves behind at the Kafka of --kafka-address."""

from __future__ import annotations

from pathlib import Path

from odradek.testing import LocalKafka

from .inner_pytest import ASKED, run_here

LASTING = """
import pytest

@pytest.mark.parametrize("number", [1, 2])
def test_modules_and_sessions_share(kafka_module, kafka_session, kafka, number):
    for each in (kafka_module, kafka_session):
        each.put("shared", ["v"])
        assert len(each.records("shared")) == number
    assert kafka.topics() == []
    assert len({each.address for each in (kafka_module, kafka_session, kafka)}) == 3

def test_fails(kafka_session):
    from confluent_kafka import Producer
    assert not Producer({"bootstrap.servers": kafka_session.address}).list_topics().topics
"""


def test_a_broker_can_last_for_a_module_or_a_session(tmp_path: Path) -> None:
    said = run_here(tmp_path, LASTING, ASKED)
    assert "1 failed, 2 passed" in said
    assert "the last requests to Kafka" in said and "client id 'rdkafka'" in said


LEAVING = """
import pytest
from confluent_kafka import Producer

def make(address, topic):
    producer = Producer({"bootstrap.servers": address})
    producer.produce(topic, b"v")
    assert producer.flush(20) == 0

def test_one(kafka):
    kafka.create_topic("orders")
    make(kafka.address, "paid")
    assert len(kafka.wait_for(records=1, topic="paid")) == 1

@pytest.fixture(scope="session")
def again(request):
    yield
    make(request.config.getoption("kafka_address"), "orders")

def test_two(kafka):
    assert kafka.topics() == ["kept"]
    make(kafka.address, "orders")

def test_three(kafka, again):
    assert kafka.topics() == ["kept"]
"""


def test_topics_that_clients_make_anew_go_from_another_kafka(tmp_path: Path) -> None:
    with LocalKafka() as other:
        other.create_topic("kept")
        for _ in range(2):
            assert "3 passed" in run_here(tmp_path, LEAVING, ASKED, f"--kafka-address={other.address}")
            assert other.topics() == ["kept"]
