"""The tests of the services, as users write them: by the documented names of the kit alone."""

from __future__ import annotations

import pytest
from services import Crash, Ledger, pay_orders, send_orders


def test_an_order_is_sent_once_though_its_acknowledgement_is_lost(kafka):
    kafka.create_topic("orders")
    with kafka.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=1, topic="orders", after_append=True, must_fire=True):
        send_orders(kafka.address, [b"one", b"two"])
    assert [record.value for record in kafka.records("orders")] == [b"one", b"two"]


def test_an_order_is_paid_though_the_service_crashes(kafka):
    kafka.put("orders", ["one", "two"])
    paid = []

    def crash_at_two(order):
        if order == b"two" and not crashed:
            crashed.append(order)
            raise Crash
        paid.append(order)

    crashed = []
    with pytest.raises(Crash):
        pay_orders(kafka.address, crash_at_two, 2)
    kafka.put("orders", ["three"])
    assert kafka.lag("payer") == {("orders", 0): 2}
    pay_orders(kafka.address, crash_at_two, 2)
    assert paid == [b"one", b"two", b"three"]


def test_an_instance_that_was_replaced_writes_no_more(kafka):
    kafka.create_topic("totals")
    zombie = Ledger(kafka.address, "1")
    assert zombie.write(b"10")
    replacement = Ledger(kafka.address, "2")
    assert replacement.write(b"20")
    assert not zombie.write(b"11")
    assert [record.value for record in kafka.records("totals")] == [b"10", b"20"]


@pytest.mark.kafka(topics={"orders": 3})
def test_the_service_uses_the_topics_that_are_there(kafka, kafka_topic, kafka_address):
    with kafka.requests() as seen:
        send_orders(kafka_address, [b"one"])
    assert len(seen.of("Produce")) == 1
    assert kafka.topics() == sorted(["orders", kafka_topic])


def test_old_orders_go(kafka, kafka_clock):
    kafka.create_topic("orders", config={"retention.ms": 3_600_000})
    kafka.put("orders", ["old"])
    kafka_clock.advance(hours=7)
    assert kafka.records("orders") == []


def test_a_failover(kafka_cluster):
    kafka_cluster.create_topic("orders", replication_factor=3)
    kafka_cluster.kill(kafka_cluster.leader("orders"))
    send_orders(kafka_cluster.address, [b"one"])
    assert [record.value for record in kafka_cluster.records("orders")] == [b"one"]


def test_a_crash(kafka_process):
    kafka_process.create_topic("orders")
    send_orders(kafka_process.address, [b"one"])
    kafka_process.kill()
    kafka_process.restart()
    assert kafka_process.wait_for(records=1, topic="orders", within=10)
