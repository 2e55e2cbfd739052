"""Several members of one group against our own broker, in both protocols, and on the way from one to the other."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.client import Admin, Consumer, KafkaError, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from odradek.client.errors import CommitFailed
from odradek.tests.support.brokers.process import FEW_PARTITIONS
from odradek.tests.support.brokers.proxy import Proxy
from odradek.tests.support.seeds import seeds
from odradek.tests.support.waiting import until

PARTITIONS = 6
EVERYTHING = {TopicPartition("t", number) for number in range(PARTITIONS)}
PATIENCE_S = 60
SEEDS = seeds([0, 1], range(2, 20))


@pytest.fixture(params=["classic", "consumer"])
def protocol(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with Broker(quick_config(tmp_path)) as broker, Admin(broker.address) as admin:
        await admin.create_topics([NewTopic("t", PARTITIONS)])
        yield broker


def quick_config(folder: Path, **more: Any) -> BrokerConfig:
    """Return a broker's config with heartbeats that are soon there."""
    quick: dict[str, Any] = {
        "listeners": ("PLAINTEXT://127.0.0.1:0",),
        "log_dirs": (str(folder),),
        "group_initial_rebalance_delay_ms": 0,
        **FEW_PARTITIONS,
        "group_consumer_min_heartbeat_interval_ms": 20,
        "group_consumer_heartbeat_interval_ms": 20,
        "group_consumer_assignment_interval_ms": 0,
    }
    return BrokerConfig(**quick | more)


@asynccontextmanager
async def behind_proxy(folder: Path, **more: Any) -> AsyncIterator[Proxy]:
    """A broker that clients reach through a proxy alone."""
    async with Proxy() as proxy:
        config = quick_config(folder, advertised_listeners=(f"PLAINTEXT://127.0.0.1:{proxy.port}",), **more)
        async with Broker(config) as broker:
            proxy.target = int(broker.address.rpartition(":")[2])
            async with Admin(f"127.0.0.1:{proxy.port}") as admin:
                await admin.create_topics([NewTopic("t", PARTITIONS)])
            yield proxy


def member_of(address: str, protocol: str, **options: Any) -> Consumer:
    own = {"heartbeat_interval_ms": 20, "session_timeout_ms": 10_000} if protocol == "classic" else {}
    quick = {"group_id": "g", "auto_offset_reset": "earliest", "retry_backoff_ms": 5, "retry_backoff_max_ms": 50}
    return Consumer("t", bootstrap_servers=address, group_protocol=protocol, **quick | own | options)


async def write(address: str, count: int, first: int = 0) -> None:
    async with Producer(address, linger_ms=0) as producer:
        await producer.send_many("t", ((None, b"%d" % number) for number in range(first, first + count)))


class Reader:
    """A task that polls one member and notes what it has processed."""

    def __init__(self, consumer: Consumer, read: list[int]) -> None:
        self.consumer = consumer
        self.read = read
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    async def start(self) -> Reader:
        await self.consumer.start()
        self._task = asyncio.create_task(self._run())
        return self

    async def _run(self) -> None:
        while not self._stopping:
            for records in (await self.consumer.getmany(timeout_ms=20, max_records=20)).values():
                self.read += [int(record.value or b"") for record in records]

    async def stop(self) -> None:
        """Process what was polled, commit and leave."""
        assert self._task is not None
        self._stopping = True
        await self._task
        await self.consumer.stop()

    async def kill(self) -> None:
        """Vanish: without a commit, and without a word to the group."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        session = self.consumer._session  # pyright: ignore[reportPrivateUsage]
        assert session is not None
        await session.cluster.close()  # before the stop, which would say good-bye
        await self.consumer.stop(timeout_ms=0)


def heartbeats(reader: Reader) -> float:
    """How many heartbeats a member has sent."""
    return next(each.value for each in reader.consumer.metrics() if each.name == "heartbeat-total")


async def more_heartbeats(*readers: Reader) -> None:
    """Wait until each member has sent some more."""
    before = [heartbeats(each) for each in readers]
    await until(lambda: all(heartbeats(each) > old + 5 for each, old in zip(readers, before, strict=True)))


def shared(*readers: Reader) -> bool:
    """Whether these members have all partitions, each one some."""
    held = [reader.consumer.assignment() for reader in readers]
    return all(held) and sum(map(len, held)) == PARTITIONS and set().union(*held) == EVERYTHING


async def test_members_share_the_partitions_and_read_each_record_once(broker: Broker, protocol: str) -> None:
    read: list[int] = []
    await write(broker.address, 300)
    first = await Reader(member_of(broker.address, protocol), read).start()
    await until(lambda: len(read) >= 100)
    second = await Reader(member_of(broker.address, protocol), read).start()
    await until(lambda: shared(first, second))
    await write(broker.address, 300, first=300)
    await until(lambda: len(read) >= 600)
    await first.stop()
    await write(broker.address, 300, first=600)
    await until(lambda: len(read) >= 900)
    await second.stop()
    assert sorted(read) == list(range(900))


async def test_a_static_member_comes_back_to_its_partitions(broker: Broker, protocol: str) -> None:
    readers = [
        await Reader(member_of(broker.address, protocol, group_instance_id=f"i{number}"), []).start()
        for number in range(2)
    ]
    await until(lambda: shared(*readers))
    had = [reader.consumer.assignment() for reader in readers]
    await readers[0].stop()
    readers[0] = await Reader(member_of(broker.address, protocol, group_instance_id="i0"), []).start()
    await until(lambda: shared(*readers))
    assert [reader.consumer.assignment() for reader in readers] == had
    for reader in readers:
        await reader.stop()


async def test_what_a_killed_member_had_is_read_by_the_others(tmp_path: Path, protocol: str) -> None:
    config = quick_config(
        tmp_path,
        group_min_session_timeout_ms=1,
        group_consumer_min_session_timeout_ms=1,
        group_consumer_session_timeout_ms=1_000,
    )
    options = {"session_timeout_ms": 1_000} if protocol == "classic" else {}
    async with Broker(config) as broker, Admin(broker.address) as admin:
        await admin.create_topics([NewTopic("t", PARTITIONS)])
        read: list[int] = []
        readers = [await Reader(member_of(broker.address, protocol, **options), read).start() for _ in range(2)]
        await until(lambda: shared(*readers))
        await readers[0].kill()
        await write(broker.address, 100)
        await until(lambda: set(read) == set(range(100)))
        await readers[1].stop()


async def test_new_partitions_are_read(broker: Broker, protocol: str) -> None:
    reader = await Reader(member_of(broker.address, protocol, metadata_max_age_ms=50), []).start()
    await until(lambda: reader.consumer.assignment() == EVERYTHING)
    async with Admin(broker.address) as admin:
        await admin.create_partitions({"t": PARTITIONS + 1})
    await until(lambda: len(reader.consumer.assignment()) == PARTITIONS + 1)
    await reader.stop()


async def test_a_group_moves_to_the_consumer_protocol_under_load_and_reads_each_record_once(broker: Broker) -> None:
    read: list[int] = []
    readers = [await Reader(member_of(broker.address, "classic"), read).start() for _ in range(3)]
    await until(lambda: shared(*readers))
    sent = 0
    for number in range(3):
        await write(broker.address, 200, first=sent)
        await readers[number].stop()
        await write(broker.address, 200, first=sent + 200)
        sent += 400
        readers[number] = await Reader(member_of(broker.address, "consumer"), read).start()
        await until(lambda: shared(*readers))
    await until(lambda: len(read) >= sent)
    async with Admin(broker.address) as admin:
        async with asyncio.timeout(PATIENCE_S):
            # A member says only with its next heartbeat that it has what it is to have.
            while (group := (await admin.list_groups())[0]).state != "Stable":
                await asyncio.sleep(0.01)
        assert group.type.lower() == "consumer"
    for reader in readers:
        await reader.stop()
    assert sorted(read) == list(range(sent))


async def test_a_pattern_is_matched_by_the_broker(broker: Broker) -> None:
    consumer = Consumer(
        bootstrap_servers=broker.address, group_id="g", group_protocol="consumer", auto_offset_reset="earliest"
    )
    consumer.subscribe(pattern="t[12]?")
    await write(broker.address, 10)
    reader = await Reader(consumer, []).start()
    await until(lambda: sorted(reader.read) == list(range(10)))
    assert consumer.subscription() == {"t"}
    await reader.stop()


async def test_the_assignor_of_the_broker_can_be_chosen(broker: Broker) -> None:
    options = {"group_remote_assignor": "range"}
    readers = [await Reader(member_of(broker.address, "consumer", **options), []).start() for _ in range(2)]
    await until(lambda: shared(*readers))
    held = sorted(sorted(place.partition for place in reader.consumer.assignment()) for reader in readers)
    assert held == [[0, 1, 2], [3, 4, 5]]
    for reader in readers:
        await reader.stop()
    with pytest.raises(KafkaError, match="ServerAssignor nearest is not supported"):
        async with member_of(broker.address, "consumer", group_remote_assignor="nearest") as consumer:
            await consumer.getmany(timeout_ms=10_000)


# -- Random histories


class Owners:
    """Who holds which partition: between the listener's "assigned" and its "revoked" or "lost", nobody else may.

    Only what was assigned is revoked or lost.
    """

    def __init__(self) -> None:
        self.of: defaultdict[TopicPartition, set[str]] = defaultdict(set)
        self.shared: list[str] = []
        self.unheard: list[str] = []

    def listener(self, name: str) -> Any:
        owners = self

        class Listener:
            async def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
                for each in partitions:
                    owners.of[each].add(name)
                    if len(owners.of[each]) > 1:
                        owners.shared.append(f"{each} has {sorted(owners.of[each])}")

            async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
                try:
                    await asyncio.sleep(0.005)
                finally:  # a stop cancels the task that calls this
                    owners.forget(name, partitions)

            async def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
                owners.forget(name, partitions)

        return Listener()

    def forget(self, name: str, partitions: frozenset[TopicPartition] | set[TopicPartition]) -> None:
        for each in partitions:
            if name not in self.of[each]:
                self.unheard.append(f"{name} had not heard of {each}")
            self.of[each].discard(name)


async def test_a_member_says_what_it_takes_before_it_has_taken_it(tmp_path: Path) -> None:
    """Its next heartbeat over another connection left out what it was taking, and a second member got that, too."""
    owners, taking, may_go_on = Owners(), asyncio.Event(), asyncio.Event()
    slow = owners.listener("first")
    note = slow.on_partitions_assigned

    async def take(partitions: frozenset[TopicPartition]) -> None:
        await note(partitions)
        taking.set()
        await may_go_on.wait()

    slow.on_partitions_assigned = take
    async with behind_proxy(tmp_path) as proxy:
        address = f"127.0.0.1:{proxy.port}"
        first, second = (Reader(member_of(address, "consumer"), []) for _ in range(2))
        first.consumer.subscribe("t", listener=slow)
        second.consumer.subscribe("t", listener=owners.listener("second"))
        await first.start()
        await taking.wait()
        await second.start()
        for _ in range(4):
            await more_heartbeats(first, second)
            proxy.cut()
        may_go_on.set()
        await until(lambda: shared(first, second))
        await first.stop()
        await second.stop()
    assert owners.shared == owners.unheard == []


@pytest.mark.parametrize("seed", SEEDS)
async def test_no_partition_has_two_owners_while_members_come_go_and_lose_connections(
    tmp_path: Path, seed: int
) -> None:
    """The session time-out is long, so nobody is expired: then no partition may have two owners, ever."""
    dice, owners, read = random.Random(seed), Owners(), list[int]()
    readers: dict[str, Reader] = {}
    sent = 0
    async with behind_proxy(tmp_path) as proxy:
        for step in range(30):
            what = dice.choice(["come", "come", "go", "cut", "write"]) if len(readers) > 1 else "come"
            if what == "come" and len(readers) < 5:
                consumer = member_of(f"127.0.0.1:{proxy.port}", "consumer")
                consumer.subscribe("t", listener=owners.listener(f"m{step}"))
                readers[f"m{step}"] = await Reader(consumer, read).start()
            elif what == "go":
                await readers.pop(dice.choice(sorted(readers))).stop()
            elif what == "cut":
                proxy.cut()
            elif what == "write":
                await write(f"127.0.0.1:{proxy.port}", 50, first=sent)
                sent += 50
            await asyncio.sleep(dice.random() / 20)
        await until(lambda: shared(*readers.values()))
        await until(lambda: set(read) == set(range(sent)))
        for reader in readers.values():
            await reader.stop()
    assert owners.shared == owners.unheard == []
    assert Counter(read) == Counter(range(sent)), "who left had committed, and a cut connection cost no commit"


async def test_by_default_a_static_member_that_was_killed_comes_back_before_its_session_ends(tmp_path: Path) -> None:
    rare = dict.fromkeys(("group_consumer_heartbeat_interval_ms", "group_consumer_max_heartbeat_interval_ms"), 40_000)
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(Broker(quick_config(tmp_path, **rare)))
        admin = await stack.enter_async_context(Admin(broker.address))
        await admin.create_topics([NewTopic("t", PARTITIONS)])
        options = {"bootstrap_servers": broker.address, "group_id": "g", "group_instance_id": "i"}
        killed = await stack.enter_async_context(Consumer("t", **options))
        again = Consumer("t", **options)
        async with asyncio.timeout(PATIENCE_S):
            while killed.assignment() != EVERYTHING:
                await killed.getmany(timeout_ms=20)
            # It is there, and says nothing more for 40 s: as after kill -9, nobody has told the group that it goes.
            await stack.enter_async_context(again)
            while again.assignment() != EVERYTHING:
                await again.getmany(timeout_ms=20)


async def test_a_commit_of_a_member_that_has_not_joined_says_so_at_once(broker: Broker) -> None:
    options: dict[str, Any] = {"bootstrap_servers": broker.address, "group_id": "g", "group_protocol": "classic"}
    async with Producer(broker.address) as producer:
        await producer.send("t", b"x", partition=0)
    async with asyncio.timeout(40), Consumer("t", **options, auto_offset_reset="earliest") as first:
        # It processes this record, and gives its partitions up at its next poll.
        await first.getone()
        async with Consumer("t", **options) as second:
            await until(lambda: second.explain().state == "JOINING" and bool(second.explain().member_id))
            with pytest.raises(CommitFailed, match="has not joined its group yet; it waits for the other members"):
                await second.commit({TopicPartition("t", 0): 1})


async def test_a_commit_of_a_partition_that_comes_meanwhile_is_no_commit_of_one_that_went(broker: Broker) -> None:
    place = TopicPartition("t", 0)
    options: dict[str, Any] = {"bootstrap_servers": broker.address, "group_id": "g", "group_protocol": "consumer"}
    async with Consumer("t", **options) as consumer, asyncio.timeout(40):
        while consumer.explain().state != "JOINING":
            await asyncio.sleep(0)
        await consumer.commit({place: 0})
        assert (await consumer.committed(place))[place] == OffsetAndMetadata(0)
