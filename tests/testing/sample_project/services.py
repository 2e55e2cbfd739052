"""Three small services as users write them, each with a bug that the environment variable PLANTED switches on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

PLANTED = os.environ.get("PLANTED", "")
RETRIES = 5


class Crash(Exception):
    """The service ends in the middle of its work."""


def send_orders(address: str, orders: Iterable[bytes]) -> None:
    """Send each order once. Planted: `sent-twice` has a retry of its own, which knows nothing of lost responses."""
    has_own_retry = PLANTED == "sent-twice"
    options = {"bootstrap.servers": address, "enable.idempotence": not has_own_retry}
    producer = Producer({**options, **({"retries": 0} if has_own_retry else {})})
    for order in orders:
        for _ in range(RETRIES):
            errors: list[KafkaError | None] = []
            producer.produce("orders", order, on_delivery=lambda error, _, errors=errors: errors.append(error))
            producer.flush(10)
            if errors == [None]:
                break


def pay_orders(address: str, pay: Callable[[bytes], None], count: int) -> None:
    """Pay orders, and commit what is paid. Planted: `early-commit` commits before it pays."""
    options = {"bootstrap.servers": address, "group.id": "payer", "auto.offset.reset": "earliest"}
    consumer = Consumer({**options, "enable.auto.commit": False})
    consumer.subscribe(["orders"])
    try:
        for _ in range(count):
            record = None
            while record is None:
                record = consumer.poll(0.1)
            if PLANTED == "early-commit":
                consumer.commit(record, asynchronous=False)
            pay(record.value() or b"")
            if PLANTED != "early-commit":
                consumer.commit(record, asynchronous=False)
    finally:
        consumer.close()


class Ledger:
    """Writes totals; a second instance takes over from a first. Planted: `zombie` has ids of its own."""

    def __init__(self, address: str, instance: str) -> None:
        transactional_id = f"ledger-{instance}" if PLANTED == "zombie" else "ledger"
        self._producer = Producer({"bootstrap.servers": address, "transactional.id": transactional_id})
        self._producer.init_transactions(30)

    def write(self, total: bytes) -> bool:
        """Write a total; False where another instance has taken over."""
        try:
            self._producer.begin_transaction()
            self._producer.produce("totals", total)
            self._producer.commit_transaction(30)
        except KafkaException:
            return False
        return True
