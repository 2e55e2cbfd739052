"""A load whose topics, groups and transactions depend on each other, and what must hold in a backup made meanwhile.

Turn i of the one writer does, each step acknowledged before the next:

    1. `latest` (compacted)     key i % 7 gets the value i
    2. `numbers`                gets the record i
    3. group `reader`           commits offset i + 1 of numbers-0
    4. a transaction            writes i to `left` and `right`, and commits offset i + 1 of numbers-0 for group `both`

Small segments roll, are compacted and go by retention all the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from odradek.broker import Broker, BrokerConfig
from odradek.client import Admin, Consumer, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from odradek.protocol.errors import KafkaError
from odradek.storage.backup import back_up_held, restore
from odradek.storage.held_files import Held

NUMBERS = TopicPartition("numbers", 0)
KEYS = 7
_SMALL = {"segment.bytes": "1048576", "segment.ms": "50"}


def config_of(directory: Path) -> BrokerConfig:
    return BrokerConfig(
        listeners=("PLAINTEXT://127.0.0.1:0",),
        log_dirs=(str(directory),),
        group_initial_rebalance_delay_ms=0,
        offsets_topic_num_partitions=2,
        transaction_state_log_num_partitions=2,
        log_cleaner_backoff_ms=20,
        log_retention_check_interval_ms=50,
    )


@dataclass(slots=True)
class Load:
    """The writer. `done` turns are acknowledged as a whole."""

    address: str
    random: Random
    done: int = 0
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        async with Admin(self.address) as admin:
            await _create_topics(admin)
            await self._write(admin)

    async def _write(self, admin: Admin) -> None:
        async with (
            Producer(bootstrap_servers=self.address) as plain,
            Producer(bootstrap_servers=self.address, transactional_id="both") as transactional,
        ):
            while not self.stopping.is_set():
                await self._turn(admin, plain, transactional)
                self.done += 1

    async def _turn(self, admin: Admin, plain: Producer, transactional: Producer) -> None:
        number = b"%d" % self.done
        padding = b" " * self.random.randrange(30_000)
        await plain.send_and_wait("latest", number, key=b"%d" % (self.done % KEYS))
        await plain.send_and_wait("numbers", number + padding)
        await admin.alter_group_offsets("reader", {NUMBERS: OffsetAndMetadata(self.done + 1)})
        async with transactional.transaction():
            await transactional.send("left", number)
            await transactional.send("right", number)
            await transactional.send_offsets({NUMBERS: self.done + 1}, "both")


async def _create_topics(admin: Admin) -> None:
    compacted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", **_SMALL}
    retained = {"retention.bytes": "400000", "file.delete.delay.ms": "0", **_SMALL}
    topics = [NewTopic(name, 1, configs=retained) for name in ("numbers", "left", "right")]
    await admin.create_topics([NewTopic("latest", 1, configs=compacted), *topics])


async def back_up(address: str, target: Path, progress: Callable[[int], None] = lambda _: None) -> None:
    """What `odradek backup -b ADDRESS` does."""
    async with Admin(address) as admin:
        held = await admin.begin_backup()
        contents = [Held.read(each) for each in held.directories]
        await asyncio.to_thread(back_up_held, contents, target, progress)
        # After a restart the broker knows it no more.
        with suppress(KafkaError):
            await admin.renew_backup(held, is_end=True)


async def check(backup: Path, directory: Path, at_least: int, at_most: int) -> None:
    """Restore a backup, and see that all parts of it are of one moment between `at_least` turns and `at_most`."""
    restore(backup, [directory], lambda _: None)
    # Retention would delete what this is about to read.
    config = replace(config_of(directory), log_retention_check_interval_ms=3_600_000)
    async with Broker(config) as broker, Admin(broker.address) as admin:
        # As after a kill: what was open is aborted by the next writer.
        async with Producer(bootstrap_servers=broker.address, transactional_id="both"):
            pass
        latest, numbers = await _values(broker, "latest"), await _values(broker, "numbers")
        last = numbers[-1]
        assert at_least - 1 <= last <= at_most, f"{last} is not of turns {at_least} to {at_most}"
        assert numbers == list(range(numbers[0], last + 1)), numbers
        # Step 1 of the next turn may be there, but no other.
        expected = {number % KEYS: number for number in range(max(0, last + 1 - KEYS), last + 1)}
        found = {number % KEYS: number for number in latest}
        assert found in (expected, expected | {(last + 1) % KEYS: last + 1})
        reader = await _committed(admin, "reader")
        assert reader in (last, last + 1), f"the group is at {reader}, the last record is {last}"
        left, right, both = (
            await _values(broker, "left"),
            await _values(broker, "right"),
            await _committed(admin, "both"),
        )
        assert left[-1] + 1 == right[-1] + 1 == both and both in (last, last + 1)


async def _committed(admin: Admin, group: str) -> int:
    offsets = await admin.list_group_offsets(group)
    return offsets[NUMBERS].offset if NUMBERS in offsets else 0


async def _values(broker: Broker, topic: str) -> list[int]:
    """Return the numbers in a topic that are committed, in order."""
    # With "earliest" a consumer that retention overtakes goes on behind the gap, which looks like a hole in the backup.
    async with Consumer(
        bootstrap_servers=broker.address, isolation_level="read_committed", auto_offset_reset="none"
    ) as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        (end,) = (await consumer.end_offsets([partition])).values()
        found: list[int] = []
        while await consumer.position(partition) < end:
            records = (await consumer.getmany(timeout_ms=50)).get(partition, [])
            found += [int(record.value or b"") for record in records]
        return found
