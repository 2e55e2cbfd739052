"""What the blocks of the page on tests take for granted: a service of the user."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer


def pay_all(address):
    """Pay what is in `orders`, and commit it."""
    options = {"bootstrap.servers": address, "group.id": "my-service", "auto.offset.reset": "earliest"}
    consumer = Consumer({**options, "enable.auto.commit": False, "enable.partition.eof": True})
    producer = Producer({"bootstrap.servers": address})
    consumer.subscribe(["orders"])
    paid = 0
    while paid < 2:
        record = consumer.poll(0.1)
        if record is not None and not record.error():
            producer.produce("paid", b"...")
            producer.flush(20)
            consumer.commit(record, asynchronous=False)
            paid += 1
    consumer.close()


def order_one(address):
    """Order once."""
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    producer.produce("orders", b"v")
    assert producer.flush(20) == 0


def pay_a_hundred(address):
    """Pay a hundred orders."""
    producer = Producer({"bootstrap.servers": address})
    for _ in range(100):
        producer.produce("paid", b"v")
    assert producer.flush(60) == 0


def read_flights(address, registry):
    """Read what was written with both schemas."""
    from odradek.client.blocking import Consumer as OdradekConsumer
    from odradek.client.schemas import Avro

    options = {"group_id": "my-service", "auto_offset_reset": "earliest", "value_deserializer": Avro(registry)}
    with OdradekConsumer("flights", bootstrap_servers=address, **options) as consumer:
        assert [consumer.getone().value["number"] for _ in range(2)] == [1, 2]


SERVICES = [pay_all, order_one, pay_a_hundred, read_flights]
