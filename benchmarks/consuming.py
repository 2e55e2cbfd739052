"""Ways to consume: ours, aiokafka's and confluent-kafka's, for records of 100 bytes in one partition.

`clients.py` runs them beside each other.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from typing import Any

WAYS = (
    "getmany",
    "async for",
    "batches: values",
    "batches: arrow",
    "read_topic",
    "aiokafka getmany",
    "aiokafka async for",
    "confluent consume",
)
TOPIC = "consuming"


async def ours(way: str, address: str, count: int) -> None:
    """Read `count` records with our client."""
    from odradek.client import Consumer, read_topic

    if way == "read_topic":
        assert (await read_topic(TOPIC, bootstrap_servers=address)).num_rows == count
        return
    seen = 0
    async with Consumer(TOPIC, bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
        if way == "getmany":
            while seen < count:
                for some in (await consumer.getmany(timeout_ms=1000)).values():
                    seen += len(some)
        elif way == "async for":
            async for _ in consumer:
                seen += 1
                if seen == count:
                    break
        else:
            async for columns in consumer.batches():
                seen += len(columns.values) if way.endswith("values") else columns.to_arrow().num_rows
                if seen == count:
                    break


async def aiokafkas(way: str, address: str, count: int) -> None:
    """Read `count` records with aiokafka."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import aiokafka
    consumer: Any = aiokafka.AIOKafkaConsumer(TOPIC, bootstrap_servers=address, auto_offset_reset="earliest")
    await consumer.start()
    seen = 0
    try:
        if way.endswith("getmany"):
            while seen < count:
                for some in (await consumer.getmany(timeout_ms=1000, max_records=500)).values():
                    seen += len(some)
        else:
            async for _ in consumer:
                seen += 1
                if seen == count:
                    break
    finally:
        await consumer.stop()


def confluents(address: str, count: int) -> None:
    """Read `count` records with confluent-kafka."""
    import confluent_kafka

    consumer = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": "bench", "check.crcs": True})
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    seen = 0
    while seen < count:
        seen += len([message.value() for message in consumer.consume(500, 1.0)])
    consumer.close()


async def consume(way: str, address: str, count: int) -> float:
    """Return the CPU-seconds that reading takes, after a first reading for what is loaded and compiled once."""
    began = 0.0
    for _ in range(2):
        began = time.process_time()
        if way.startswith("confluent"):
            await asyncio.to_thread(confluents, address, count)
        else:
            await (aiokafkas if way.startswith("aiokafka") else ours)(way, address, count)
    return time.process_time() - began


async def fill(address: str, count: int) -> None:
    """Write the records."""
    from odradek.client import Admin, NewTopic, Producer

    async with Admin(address) as admin, Producer(address) as producer:
        await admin.create_topics([NewTopic(TOPIC, 1)])
        await producer.send_many(TOPIC, ((None, b"x" * 100) for _ in range(count)))
