"""One walk for every client library: a topic by its admin client, records, a transaction that commits and one that
aborts, groups of the classic and the new protocol, and their offsets by the admin client again.

A walk takes the library's own options of security, raises where a step fails, and returns what its groups read.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic as ConfluentTopic
from odradek import client as ours
from odradek.client import blocking

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Other people's packages may use what Python deprecates.
    import aiokafka
    import aiokafka.admin
    import kafka
    import kafka.admin

WITHIN_S = 60
# What each walk sends, and what a reader of committed records finds.
SENT, COMMITTED, ABORTED = b"x" * 100_000, b"committed", b"aborted"
FOUND = [SENT, COMMITTED]

Options = Mapping[str, Any]


def of_confluent(options: Options, topic: str) -> list[list[bytes]]:
    """librdkafka's walk."""
    admin = AdminClient(dict(options))
    admin.create_topics([ConfluentTopic(topic, 1, 1)])[topic].result(WITHIN_S)
    plain = confluent_kafka.Producer({**options, "enable.idempotence": True})
    plain.produce(topic, SENT)
    assert plain.flush(WITHIN_S) == 0
    sender = confluent_kafka.Producer({**options, "transactional.id": topic})
    sender.init_transactions(WITHIN_S)
    for value in (ABORTED, COMMITTED):
        sender.begin_transaction()
        sender.produce(topic, value)
        (sender.commit_transaction if value is COMMITTED else sender.abort_transaction)(WITHIN_S)
    found = [_read_by_confluent(options, topic, protocol) for protocol in ("classic", "consumer")]
    listed = admin.list_consumer_groups().result(WITHIN_S)
    assert {f"{topic}-classic", f"{topic}-consumer"} <= {each.group_id for each in listed.valid}
    return found


def _read_by_confluent(options: Options, topic: str, protocol: str) -> list[bytes]:
    group = {"group.id": f"{topic}-{protocol}", "group.protocol": protocol, "auto.offset.reset": "earliest"}
    reader = confluent_kafka.Consumer({**options, **group, "enable.auto.commit": False})
    reader.subscribe([topic])
    found: list[bytes] = []
    until = time.monotonic() + WITHIN_S
    while len(found) < len(FOUND) and time.monotonic() < until:
        record = reader.poll(1)
        if record is not None:
            assert record.error() is None, record.error()
            found.append(record.value())
    reader.commit(asynchronous=False)
    reader.close()
    return found


def of_kafka_python(options: Options, topic: str) -> list[list[bytes]]:
    """kafka-python's walk. It has the classic protocol alone."""
    admin: Any = kafka.admin.KafkaAdminClient(**options)
    admin.create_topics([kafka.admin.NewTopic(topic, 1, 1)])
    plain = kafka.KafkaProducer(**options)
    plain.send(topic, SENT).get(WITHIN_S)
    plain.close()
    sender: Any = kafka.KafkaProducer(**options, transactional_id=topic)
    sender.init_transactions()
    for value in (ABORTED, COMMITTED):
        sender.begin_transaction()
        sender.send(topic, value)
        sender.flush()
        (sender.commit_transaction if value is COMMITTED else sender.abort_transaction)()
    sender.close()
    reader: Any = kafka.KafkaConsumer(
        topic, group_id=topic, auto_offset_reset="earliest", isolation_level="read_committed", **options
    )
    found = [next(reader).value for _ in FOUND]
    reader.commit()
    reader.close()
    assert any(topic in str(each) for each in admin.list_groups())
    admin.close()
    return [found]


async def of_aiokafka(options: Options, topic: str) -> list[list[bytes]]:
    """aiokafka's walk. It has the classic protocol alone."""
    admin: Any = aiokafka.admin.AIOKafkaAdminClient(**options)
    await admin.start()
    await admin.create_topics([aiokafka.admin.NewTopic(topic, 1, 1)])
    async with aiokafka.AIOKafkaProducer(**options) as plain:
        await plain.send_and_wait(topic, SENT)
    async with aiokafka.AIOKafkaProducer(**options, transactional_id=topic) as sender:
        for value in (ABORTED, COMMITTED):
            await sender.begin_transaction()
            await sender.send_and_wait(topic, value)
            await (sender.commit_transaction if value is COMMITTED else sender.abort_transaction)()
    reader: Any = aiokafka.AIOKafkaConsumer(
        topic, group_id=topic, auto_offset_reset="earliest", isolation_level="read_committed", **options
    )
    async with reader:
        found = [(await reader.getone()).value for _ in FOUND]
        await reader.commit()
    assert topic in str(await admin.list_consumer_groups())
    await admin.close()
    return [found]


async def of_ours(options: Options, topic: str) -> list[list[bytes]]:
    """The walk of our asyncio clients, with a share group besides."""
    async with ours.Admin(**options) as admin:
        await admin.create_topics([ours.NewTopic(topic, 1)])
        async with ours.Producer(**options) as plain:
            await plain.send_and_wait(topic, SENT)
        async with ours.Producer(**options, transactional_id=topic) as sender:
            await sender.begin_transaction()
            await sender.send(topic, ABORTED)
            await sender.abort_transaction()
            async with sender.transaction():
                await sender.send(topic, COMMITTED)
        found: list[list[bytes]] = []
        for protocol in ("classic", "consumer"):
            group: dict[str, Any] = {"group_id": f"{topic}-{protocol}", "group_protocol": protocol}
            group |= {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
            async with ours.Consumer(topic, **group, **options) as reader:
                found.append([(await reader.getone()).value or b"" for _ in FOUND])
                await reader.commit()
        resource = ours.ConfigResource.group(f"{topic}-share")
        await admin.alter_configs({resource: SHARE_CONFIGS})
        async with ours.ShareConsumer(topic, group_id=f"{topic}-share", **options) as sharer:
            found.append([(await sharer.getone()).value or b"" for _ in FOUND])
        assert {f"{topic}-classic", f"{topic}-consumer", f"{topic}-share"} <= {
            each.group_id for each in await admin.list_groups()
        }
    return found


SHARE_CONFIGS = {"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed"}


def of_ours_blocking(options: Options, topic: str) -> list[list[bytes]]:
    """The walk of our blocking clients."""
    with blocking.Admin(**options) as admin:
        admin.create_topics([ours.NewTopic(topic, 1)])
        with blocking.Producer(**options) as plain:
            plain.send_and_wait(topic, SENT)
        with blocking.Producer(**options, transactional_id=topic) as sender:
            sender.begin_transaction()
            sender.send(topic, ABORTED)
            sender.abort_transaction()
            with sender.transaction():
                sender.send(topic, COMMITTED)
        found: list[list[bytes]] = []
        for protocol in ("classic", "consumer"):
            group: dict[str, Any] = {"group_id": f"{topic}-{protocol}", "group_protocol": protocol}
            group |= {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
            with blocking.Consumer(topic, **group, **options) as reader:
                found.append([reader.getone().value or b"" for _ in FOUND])
                reader.commit()
        admin.alter_configs({ours.ConfigResource.group(f"{topic}-share"): SHARE_CONFIGS})
        with blocking.ShareConsumer(topic, group_id=f"{topic}-share", **options) as sharer:
            found.append([sharer.getone().value or b"" for _ in FOUND])
    return found


BLOCKING: dict[str, Callable[[Options, str], list[list[bytes]]]] = {
    "confluent-kafka": of_confluent,
    "kafka-python": of_kafka_python,
    "odradek.client.blocking": of_ours_blocking,
}
ASYNCIO: dict[str, Callable[[Options, str], Awaitable[list[list[bytes]]]]] = {
    "aiokafka": of_aiokafka,
    "odradek.client": of_ours,
}
