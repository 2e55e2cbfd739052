"""Ways to produce: ours, aiokafka's and confluent-kafka's, each timed by the CPU time of its process.

Keys of 8 bytes (10,000 different ones), values of 100 bytes, six partitions, acks=all, no compression. Starting up does
not count. confluent-kafka's time includes its threads. `clients.py` runs them beside each other.
"""

from __future__ import annotations

import asyncio
import resource
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

KEYS = [b"%08d" % number for number in range(10_000)]
VALUE = b"x" * 100
PARTITIONS = 6
TOPIC = "producing"
IN_FLIGHT = 5_000
# So many sends, one after another, are timed for the median.
_ONE_BY_ONE = 2_000


def cpu_s() -> float:
    """Return the CPU-seconds of this process, in user and system mode."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


# Sends so many records by a producer of asyncio, ours or aiokafka's.
Send = Callable[[Any, int], Awaitable[object]]


async def _send(producer: Any, records: int) -> None:
    sent: list[asyncio.Future[object]] = []
    for number in range(records):
        sent.append(await producer.send(TOPIC, VALUE, KEYS[number % len(KEYS)]))
        if len(sent) == IN_FLIGHT:
            await asyncio.gather(*sent)
            sent.clear()
    await asyncio.gather(*sent)


async def _timed(producer: Any, send: Send, records: int) -> float:
    async with producer:
        await producer.send_and_wait(TOPIC, VALUE)
        before = cpu_s()
        await send(producer, records)
        return cpu_s() - before


def _ours(send: Send) -> Callable[[str, int], Awaitable[float]]:
    from odradek.client import Producer

    return lambda address, records: _timed(Producer(address), send, records)


async def _aiokafka(address: str, records: int) -> float:
    import aiokafka

    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=address, acks="all", enable_idempotence=True)
    return await _timed(producer, _send, records)


async def _confluent(address: str, records: int) -> float:
    import confluent_kafka

    producer = confluent_kafka.Producer({"bootstrap.servers": address, "enable.idempotence": True, "log_level": 0})
    producer.produce(TOPIC, VALUE)
    producer.flush()
    before = cpu_s()
    for number in range(records):
        while True:
            try:
                producer.produce(TOPIC, VALUE, KEYS[number % len(KEYS)])
                break
            except BufferError:
                producer.poll(0.01)
        if not number % 1000:
            producer.poll(0)
    producer.flush()
    return cpu_s() - before


async def _send_one_by_one(address: str, records: int) -> float:
    """Return the median of the seconds from a send at default options to its acknowledgement."""
    from odradek.client import Producer

    took: list[float] = []
    async with Producer(address) as producer:
        for _ in range(_ONE_BY_ONE):
            before = time.perf_counter()
            await producer.send_and_wait(TOPIC, VALUE)
            took.append(time.perf_counter() - before)
    return statistics.median(took)


async def _confluent_one_by_one(address: str, records: int) -> float:
    import confluent_kafka

    producer = confluent_kafka.Producer({"bootstrap.servers": address, "log_level": 0})
    took: list[float] = []
    for _ in range(_ONE_BY_ONE):
        before = time.perf_counter()
        producer.produce(TOPIC, VALUE)
        producer.flush()
        took.append(time.perf_counter() - before)
    return statistics.median(took)


WAYS: dict[str, Callable[[str, int], Awaitable[float]]] = {
    "send": _ours(_send),
    "send_many": _ours(
        lambda producer, records: producer.send_many(TOPIC, ((KEYS[at % len(KEYS)], VALUE) for at in range(records)))
    ),
    "send_values": _ours(lambda producer, records: producer.send_values(TOPIC, [VALUE] * records)),
    "aiokafka send": _aiokafka,
    "confluent produce": _confluent,
    "one send": _send_one_by_one,
    "confluent one produce": _confluent_one_by_one,
}
