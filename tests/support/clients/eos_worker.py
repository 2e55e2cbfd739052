"""One worker of a consume-transform-produce loop, with the client that the command line names.

    python eos_worker.py CLIENT HOST:PORT INPUT OUTPUT PARTITION END SEED

Copies a partition of INPUT to OUTPUT up to offset END, some records a transaction. Each transaction commits the offsets
too, and some are aborted on purpose and repeated. The worker prints "at OFFSET" after each commit, and ends with status
0 at END. Any error ends it with another status. When it is started again, it continues at the last commit.
EosWorker.java is the same for Java.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import traceback
import warnings
from typing import Any, NamedTuple

GROUP = "eos"
MAX_RECORDS = 20
ABORTED_IN_TEN = 1
WITHIN_S = 20.0
# Longer than a restart of the broker, so that no transaction ends by itself under a live worker.
TRANSACTION_TIMEOUT_MS = 30_000


class Job(NamedTuple):
    address: str
    source: str
    target: str
    partition: int
    end: int
    chance: random.Random

    @property
    def transactional_id(self) -> str:
        return f"eos-{self.partition}"

    def is_aborted(self) -> bool:
        return self.chance.randrange(10) < ABORTED_IN_TEN

    def size(self) -> int:
        return self.chance.randint(1, MAX_RECORDS)


def transformed(value: bytes) -> bytes:
    return b"copy of " + value


def say(offset: int) -> None:
    print(f"at {offset}", flush=True)


def with_confluent(job: Job) -> None:
    import confluent_kafka

    common = {"bootstrap.servers": job.address, "log_level": 0, "reconnect.backoff.max.ms": 200}
    producer = confluent_kafka.Producer(
        {**common, "transactional.id": job.transactional_id, "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS}
    )
    producer.init_transactions(WITHIN_S)
    consumer = confluent_kafka.Consumer(
        {**common, "group.id": GROUP, "enable.auto.commit": False, "isolation.level": "read_committed"}
    )
    place = confluent_kafka.TopicPartition
    (committed,) = consumer.committed([place(job.source, job.partition)], WITHIN_S)
    position = max(committed.offset, 0)
    consumer.assign([place(job.source, job.partition, position)])
    while position < job.end:
        messages = consumer.consume(min(job.size(), job.end - position), WITHIN_S)
        assert messages, "nothing to read"
        if messages[0].error():
            continue
        messages = [message for message in messages if not message.error()]
        producer.begin_transaction()
        for message in messages:
            producer.produce(job.target, transformed(message.value()), partition=job.partition)
        following = messages[-1].offset() + 1
        offsets = [place(job.source, job.partition, following)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), WITHIN_S)
        if job.is_aborted():
            producer.abort_transaction(WITHIN_S)
            consumer.seek(place(job.source, job.partition, position))
        else:
            producer.commit_transaction(WITHIN_S)
            position = following
            say(position)


def with_kafka_python(job: Job) -> None:
    import kafka

    producer = kafka.KafkaProducer(
        bootstrap_servers=job.address,
        transactional_id=job.transactional_id,
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        max_block_ms=int(WITHIN_S * 1000),
    )
    producer.init_transactions()
    partition = kafka.TopicPartition(job.source, job.partition)
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=job.address,
        group_id=GROUP,
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    consumer.assign([partition])
    position = consumer.committed(partition) or 0
    consumer.seek(partition, position)
    while position < job.end:
        polled = consumer.poll(int(WITHIN_S * 1000), max_records=job.size())
        messages = polled.get(partition, [])
        assert messages, "nothing to read"
        producer.begin_transaction()
        sent = [producer.send(job.target, transformed(m.value), partition=job.partition) for m in messages]
        following = messages[-1].offset + 1
        offsets = {partition: kafka.structs.OffsetAndMetadata(following, "", -1)}
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        for future in sent:
            future.get(WITHIN_S)
        if job.is_aborted():
            producer.abort_transaction()
            consumer.seek(partition, position)
        else:
            producer.commit_transaction()
            position = following
            say(position)


def with_aiokafka(job: Job) -> None:
    asyncio.run(_aiokafka(job))


async def _aiokafka(job: Job) -> None:
    import aiokafka

    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=job.address,
        transactional_id=job.transactional_id,
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
    )
    consumer: Any = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=job.address,
        group_id=GROUP,
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    await asyncio.wait_for(producer.start(), WITHIN_S)
    await asyncio.wait_for(consumer.start(), WITHIN_S)
    partition = aiokafka.TopicPartition(job.source, job.partition)
    consumer.assign([partition])
    position = await asyncio.wait_for(consumer.committed(partition), WITHIN_S) or 0
    consumer.seek(partition, position)
    while position < job.end:
        polled = await consumer.getmany(timeout_ms=int(WITHIN_S * 1000), max_records=job.size())
        messages = polled.get(partition, [])
        assert messages, "nothing to read"
        await producer.begin_transaction()
        sent = [await producer.send(job.target, transformed(m.value), partition=job.partition) for m in messages]
        following = messages[-1].offset + 1
        await asyncio.wait_for(asyncio.gather(*sent), WITHIN_S)
        await asyncio.wait_for(producer.send_offsets_to_transaction({partition: following}, GROUP), WITHIN_S)
        if job.is_aborted():
            await asyncio.wait_for(producer.abort_transaction(), WITHIN_S)
            consumer.seek(partition, position)
        else:
            await asyncio.wait_for(producer.commit_transaction(), WITHIN_S)
            position = following
            say(position)
    await consumer.stop()
    await producer.stop()


def with_odradek(job: Job) -> None:
    asyncio.run(_odradek(job))


async def _odradek(job: Job) -> None:
    from odradek.client import Consumer, Producer, TopicPartition

    quick = {"retry_backoff_ms": 20, "retry_backoff_max_ms": 200}
    producer = Producer(
        job.address, transactional_id=job.transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS, **quick
    )
    consumer = Consumer(
        bootstrap_servers=job.address,
        group_id=GROUP,
        enable_auto_commit=False,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        **quick,
    )
    partition = TopicPartition(job.source, job.partition)
    async with producer, consumer:
        consumer.assign([partition])
        position = await consumer.position(partition)
        while position < job.end:
            polled = await consumer.getmany(timeout_ms=int(WITHIN_S * 1000), max_records=job.size())
            messages = polled.get(partition, [])
            assert messages, "nothing to read"
            following = messages[-1].offset + 1
            await producer.begin_transaction()
            for message in messages:
                await producer.send(job.target, transformed(message.value or b""), partition=job.partition)
            await producer.send_offsets({partition: following}, consumer.group_metadata())
            if job.is_aborted():
                await producer.abort_transaction()
                consumer.seek(partition, position)
            else:
                await producer.commit_transaction()
                position = following
                say(position)


CLIENTS = {
    "confluent-kafka": with_confluent,
    "kafka-python": with_kafka_python,
    "aiokafka": with_aiokafka,
    "odradek": with_odradek,
}


def main() -> None:
    warnings.simplefilter("ignore")
    client, address, source, target, partition, end, seed = sys.argv[1:]
    try:
        CLIENTS[client](Job(address, source, target, int(partition), int(end), random.Random(seed)))
    except Exception:  # noqa: BLE001 - told, and the end of the process
        traceback.print_exc()
        # At once: librdkafka may wait for ever for a broker that was down when its handle is taken apart.
        sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    main()
