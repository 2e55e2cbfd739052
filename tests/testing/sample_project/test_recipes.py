"""The recipes of the page on tests, one by one."""

from __future__ import annotations

import unittest

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from odradek.testing import kafka as running_kafka
from services import pay_orders, send_orders

READER = {"group.id": "my-service", "auto.offset.reset": "earliest", "enable.auto.commit": False}


def reader(kafka):
    consumer = Consumer({**kafka.options("confluent-kafka"), **READER})
    consumer.subscribe(["orders"])
    return consumer


def read(consumer):
    record = None
    while record is None or record.error():
        record = consumer.poll(0.1)
    return record


def test_a_retry_of_a_consumer(kafka):
    kafka.put("orders", ["v"])
    paid = []
    with kafka.fail("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", times=2, must_fire=True):
        pay_orders(kafka.address, paid.append, 1)
    assert paid == [b"v"]


def test_a_poison_record(kafka):
    kafka.put("orders", [b"\xff not JSON", "good"])
    consumer, skipped = reader(kafka), []
    for _ in range(2):
        record = read(consumer)
        if record.value().startswith(b"\xff"):
            skipped.append(record.value())
        consumer.commit(record, asynchronous=False)
    assert skipped == [b"\xff not JSON"] and kafka.lag("my-service") == {("orders", 0): 0}
    consumer.close()


def test_a_rebalance_in_the_middle_of_a_batch(kafka):
    kafka.put("orders", ["one", "two"])
    consumer = reader(kafka)
    first = read(consumer)
    kafka.rebalance("my-service")
    done = [first.value()]
    # What was not committed before the rebalance is done twice.
    while done.count(b"one") < 2:
        done.append(read(consumer).value())
    consumer.close()


def test_exactly_once(kafka):
    kafka.put("orders", ["one", "two"])
    kafka.create_topic("output")
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": "service"})
    producer.init_transactions(30)
    consumer = reader(kafka)
    for _ in range(2):
        record = read(consumer)
        producer.begin_transaction()
        producer.produce("output", record.value())
        place = [TopicPartition("orders", record.partition(), record.offset() + 1)]
        producer.send_offsets_to_transaction(place, consumer.consumer_group_metadata(), 30)
        with kafka.fail("EndTxn", "COORDINATOR_NOT_AVAILABLE", times=1, must_fire=True):
            producer.commit_transaction(30)
    producer.begin_transaction()
    producer.produce("output", b"aborted")
    producer.flush(30)
    assert kafka.abort_open_transactions() == ["service"]
    assert [each.value for each in kafka.records("output")] == [b"one", b"two"]
    everything = [each.value for each in kafka.records("output", isolation="read_uncommitted")]
    assert everything == [b"one", b"two", b"aborted"]
    assert kafka.lag("my-service") == {("orders", 0): 0}
    consumer.close()


def test_a_zombie(kafka):
    kafka.put("orders", ["v"])
    consumer = reader(kafka)
    record = read(consumer)
    kafka.expire(kafka.members("my-service")[0].member_id)
    with pytest.raises(KafkaException):
        consumer.commit(record, asynchronous=False)
    consumer.close()


@pytest.mark.kafka(config={"log.flush.interval.messages": 1})
def test_a_power_cut(kafka_process):
    kafka_process.create_topic("orders")
    send_orders(kafka_process.address, [b"one"])
    kafka_process.lose_power(seed=3)
    kafka_process.restart()
    assert [each.value for each in kafka_process.records("orders")] == [b"one"]


@pytest.mark.kafka(users={"alice": "secret"})
def test_a_service_logs_in(kafka):
    producer = Producer(kafka.options("confluent-kafka"))
    producer.produce("orders", b"v")
    assert producer.flush(20) == 0
    assert len(kafka.records("orders")) == 1


class TestWithUnittest(unittest.TestCase):
    def setUp(self):
        self.kafka = self.enterContext(running_kafka())

    def test_it(self):
        self.kafka.put("orders", ["v"])
        self.assertEqual(len(self.kafka.records("orders")), 1)


def test_a_notebook():
    k = running_kafka()
    k.put("orders", ["v"])
    assert len(k.records("orders")) == 1
    k.close()
