"""Members of one group in one process: python crowd.py CLIENT COUNT HOST:PORT GROUP TOPIC SESSION_TIMEOUT_MS [calm]

Prints JSON lines, each in one write, so that a kill leaves whole lines:
    {"member": id, "generation": number, "assigned": [partitions]}   at the end of a rebalance
    {"consumed": [[partition, offset], ...]}                         processed; its offsets are committed after that
    {"failed": text}                                                 a member met an error that it should not meet
SIGTERM lets all members leave in order. In a `calm` group nothing may be consumed twice: records are told once their
offsets are committed, and polls may take their time. A TOPIC that begins with ^ is a pattern of topics. Members see
changes of topics within a second.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import struct
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# In a session.
HEARTBEATS = 6
# It abandons a join that takes longer than the poll that began it.
POLL_OF_KAFKA_PYTHON_MS = 2_000
METADATA_OF_CONFLUENT = b"CGMDv2:"
METADATA_MAX_AGE_MS = 1_000
IS_CALM = sys.argv[-1] == "calm"

# Address, group, topic and session.timeout.ms. That is the rebalance timeout too, unless the group is calm: the others
# wait so long for a paused process.
Where = tuple[str, str, str, int]
Member = Callable[[str, str, str, int], Any]

_stopped = threading.Event()


def say(**line: Any) -> None:
    os.write(1, json.dumps(line).encode() + b"\n")


def assigned(member: str, generation: int, partitions: list[int]) -> None:
    say(member=member, generation=generation, assigned=sorted(partitions))


def max_poll_ms(session_timeout_ms: int) -> int:
    return 300_000 if IS_CALM else session_timeout_ms


@contextmanager
def committing(consumed: list[list[int]], *moved_on: type[Exception]) -> Iterator[None]:
    """Tell what was consumed. `moved_on`: the commit failed, so who has the partition now reads these records again."""
    if not IS_CALM:
        say(consumed=consumed)
    try:
        yield
    except moved_on:
        return
    if IS_CALM:
        say(consumed=consumed)


def options_of_python(address: str, group: str, session_timeout_ms: int) -> dict[str, Any]:
    """Return the configs of kafka-python and aiokafka."""
    return {
        "bootstrap_servers": address,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "session_timeout_ms": session_timeout_ms,
        "max_poll_interval_ms": max_poll_ms(session_timeout_ms),
        "heartbeat_interval_ms": session_timeout_ms // HEARTBEATS,
        "metadata_max_age_ms": METADATA_MAX_AGE_MS,
    }


def wanted(topic: str) -> dict[str, Any]:
    """Return the subscription for kafka-python and aiokafka."""
    return {"pattern": topic} if topic.startswith("^") else {"topics": [topic]}


def with_confluent(address: str, group: str, topic: str, session_timeout_ms: int) -> None:
    import confluent_kafka

    def on_assign(consumer: confluent_kafka.Consumer, given: list[confluent_kafka.TopicPartition]) -> None:
        assigned(consumer.memberid() or "", generation_of(consumer), [place.partition for place in given])

    def generation_of(consumer: confluent_kafka.Consumer) -> int:
        """Return the generation. librdkafka shows it only in the group metadata for a transactional producer."""
        metadata = consumer.consumer_group_metadata()
        assert isinstance(metadata, bytes) and metadata.startswith(METADATA_OF_CONFLUENT)
        return struct.unpack_from("<i", metadata, len(METADATA_OF_CONFLUENT))[0]

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": session_timeout_ms,
            "max.poll.interval.ms": max_poll_ms(session_timeout_ms),
            "heartbeat.interval.ms": session_timeout_ms // HEARTBEATS,
            "topic.metadata.refresh.interval.ms": METADATA_MAX_AGE_MS,
            "partition.assignment.strategy": "range",
            "log_level": 0,
        }
    )
    consumer.subscribe([topic], on_assign=on_assign)
    while not _stopped.is_set():
        messages = [message for message in consumer.consume(100, 0.2) if not message.error()]
        if messages:
            found = [[message.partition(), message.offset()] for message in messages]
            with committing(found, confluent_kafka.KafkaException):
                consumer.commit(asynchronous=False)
    consumer.close()


def with_kafka_python(address: str, group: str, topic: str, session_timeout_ms: int) -> None:
    import kafka
    import kafka.errors
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    class Listener(kafka.ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Any) -> None: ...

        def on_partitions_assigned(self, given: Any) -> None:
            generation = consumer._coordinator.generation()
            assigned(generation.member_id, generation.generation_id, [place.partition for place in given])

    consumer = kafka.KafkaConsumer(
        **options_of_python(address, group, session_timeout_ms), partition_assignment_strategy=[RangePartitionAssignor]
    )
    consumer.subscribe(**wanted(topic), listener=Listener())
    moved_on = kafka.errors.CommitFailedError, kafka.errors.KafkaTimeoutError, kafka.errors.KafkaConnectionError
    while not _stopped.is_set():
        try:
            polled = consumer.poll(POLL_OF_KAFKA_PYTHON_MS)
        except kafka.errors.KafkaConnectionError:
            continue  # The broker is down for a moment; this client raises an error where others retry.
        found = [message for messages in polled.values() for message in messages]
        if found:
            with committing([[message.partition, message.offset] for message in found], *moved_on):
                consumer.commit()
    consumer.close(autocommit=False)


async def with_aiokafka(address: str, group: str, topic: str, session_timeout_ms: int) -> None:
    import aiokafka
    import aiokafka.errors
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor

    class Listener(aiokafka.ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Any) -> None: ...

        def on_partitions_assigned(self, given: Any) -> None:
            coordinator = consumer._coordinator
            assigned(coordinator.member_id, coordinator.generation, [place.partition for place in given])

    consumer = aiokafka.AIOKafkaConsumer(
        **options_of_python(address, group, session_timeout_ms), partition_assignment_strategy=[RangePartitionAssignor]
    )
    consumer.subscribe(**wanted(topic), listener=Listener())
    await consumer.start()
    while not _stopped.is_set():
        found = [message for messages in (await consumer.getmany(timeout_ms=200)).values() for message in messages]
        if found:
            with committing([[message.partition, message.offset] for message in found], aiokafka.errors.KafkaError):
                await consumer.commit()
    await consumer.stop()


async def with_odradek(address: str, group: str, topic: str, session_timeout_ms: int) -> None:
    from odradek.client import Consumer, TopicPartition

    class Listener:
        async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None: ...

        async def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None: ...

        async def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
            session = consumer._session
            assert session is not None and session.membership is not None
            generation = session.membership.generation
            assigned(generation.member_id, generation.generation_id, [place.partition for place in partitions])

    consumer = Consumer(
        bootstrap_servers=address,
        group_id=group,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=500,
        session_timeout_ms=session_timeout_ms,
        max_poll_interval_ms=session_timeout_ms,
        heartbeat_interval_ms=session_timeout_ms // HEARTBEATS,
    )
    consumer.subscribe(topic, listener=Listener())
    async with consumer:
        while not _stopped.is_set():
            found = [record for records in (await consumer.getmany(timeout_ms=200)).values() for record in records]
            if found:
                say(consumed=[[record.partition, record.offset] for record in found])


THREADED: dict[str, Member] = {
    "confluent-kafka": with_confluent,
    "kafka-python": with_kafka_python,
}
TASKS: dict[str, Member] = {"aiokafka": with_aiokafka, "odradek": with_odradek}


def run_threads(member: Member, count: int, where: Where) -> None:
    def run() -> None:
        try:
            member(*where)
        except Exception:  # noqa: BLE001 -- told to the test, which fails
            say(failed=traceback.format_exc())

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


async def run_tasks(member: Member, count: int, where: Where) -> None:
    results = await asyncio.gather(*(member(*where) for _ in range(count)), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            say(failed="".join(traceback.format_exception(result)))


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: _stopped.set())
    warnings.simplefilter("ignore")
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    client, count = sys.argv[1], int(sys.argv[2])
    where = (sys.argv[3], sys.argv[4], sys.argv[5], int(sys.argv[6]))
    if client in THREADED:
        run_threads(THREADED[client], count, where)
    else:
        asyncio.run(run_tasks(TASKS[client], count, where))


if __name__ == "__main__":
    main()
