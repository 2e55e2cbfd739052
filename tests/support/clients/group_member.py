"""One member of a consumer group as a process: python group_member.py CLIENT HOST:PORT GROUP TOPIC

Prints JSON lines: {"assigned": [partitions]}, and {"consumed": [[partition, offset], ...]} after it has committed the
offsets behind these records. At SIGTERM it leaves the group in order; after SIGKILL it does not. A TOPIC that begins
with ^ is a pattern of topics. The member sees changes of topics within a second.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
import warnings
from typing import Any

SESSION_TIMEOUT_MS = 3_000
HEARTBEAT_MS = 500
METADATA_MAX_AGE_MS = 1_000
# kafka-python 3.0 abandons a join after a change of its own subscription if the poll ends before the join does.
KAFKA_PYTHON_POLL_MS = 2_000

stopped = False


def is_stopped() -> bool:
    return stopped


def say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def wanted(topic: str) -> dict[str, Any]:
    """Return the subscription for kafka-python and aiokafka."""
    return {"pattern": topic} if topic.startswith("^") else {"topics": [topic]}


def with_confluent(address: str, group: str, topic: str) -> None:
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "topic.metadata.refresh.interval.ms": METADATA_MAX_AGE_MS,
            "partition.assignment.strategy": "range",
            "log_level": 0,
        }
    )
    consumer.subscribe([topic], on_assign=lambda _, given: say(assigned=sorted(place.partition for place in given)))
    while not is_stopped():
        messages = [message for message in consumer.consume(100, 0.1) if not message.error()]
        if messages:
            try:
                consumer.commit(asynchronous=False)
            except confluent_kafka.KafkaException:
                continue  # The group has moved on: who has the partition now reads them again.
            say(consumed=[[message.partition(), message.offset()] for message in messages])
    consumer.close()


def with_kafka_python(address: str, group: str, topic: str) -> None:
    import kafka
    import kafka.errors
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    class Listener(kafka.ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Any) -> None: ...

        def on_partitions_assigned(self, assigned: Any) -> None:
            say(assigned=sorted(place.partition for place in assigned))

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=address,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        metadata_max_age_ms=METADATA_MAX_AGE_MS,
        partition_assignment_strategy=[RangePartitionAssignor],
    )
    consumer.subscribe(**wanted(topic), listener=Listener())
    while not is_stopped():
        found = [message for messages in consumer.poll(KAFKA_PYTHON_POLL_MS).values() for message in messages]
        if found:
            try:
                consumer.commit()
            except kafka.errors.CommitFailedError:
                continue
            say(consumed=[[message.partition, message.offset] for message in found])
    consumer.close(autocommit=False)


def with_aiokafka(address: str, group: str, topic: str) -> None:
    import aiokafka
    import aiokafka.errors
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor

    class Listener(aiokafka.ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Any) -> None: ...

        def on_partitions_assigned(self, assigned: Any) -> None:
            say(assigned=sorted(place.partition for place in assigned))

    async def run() -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=address,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            metadata_max_age_ms=METADATA_MAX_AGE_MS,
            partition_assignment_strategy=[RangePartitionAssignor],
        )
        consumer.subscribe(**wanted(topic), listener=Listener())
        await consumer.start()
        while not is_stopped():
            found = [message for messages in (await consumer.getmany(timeout_ms=100)).values() for message in messages]
            if found:
                try:
                    await consumer.commit()
                except aiokafka.errors.CommitFailedError:
                    continue
                say(consumed=[[message.partition, message.offset] for message in found])
        await consumer.stop()

    asyncio.run(run())


def main() -> None:
    def stop(*_: object) -> None:
        global stopped
        stopped = True

    signal.signal(signal.SIGTERM, stop)
    warnings.simplefilter("ignore")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    clients = {"confluent-kafka": with_confluent, "kafka-python": with_kafka_python, "aiokafka": with_aiokafka}
    clients[sys.argv[1]](*sys.argv[2:5])


if __name__ == "__main__":
    main()
