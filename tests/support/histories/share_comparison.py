"""The same random ShareFetch and ShareAcknowledge to two brokers, by a seed: `compare` returns the first difference.

Compared are error codes, the delivery count of each acquired record, the batches that are sent, and at the end the
dead letters. How acquired records are told (in one piece or several) is not: clients cannot tell the difference.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import zip_longest
from random import Random
from typing import Any

from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.records.batch import decode_batch, iter_headers
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.clients.share_member import ShareMember, acquired, data_of, initialized
from odradek.tests.support.histories.transactional import Transactional

MEMBERS = ("ann", "bob", "cat")
GROUP_RESOURCE = 32
DEAD_LETTER_PARTITIONS = 3
# How long the dead letters may take to be the same.
WITHIN_S = 10.0
# Kafka gives back what a connection held a moment after it closed.
MOMENT_S = 0.4
WAIT_MS = 50

Answer = dict[str, Any]
# (first offset, last offset, types)
Batches = list[tuple[int, int, list[int]]]


@dataclass
class Side:
    """One of the two brokers."""

    address: str
    topic: str
    group: str
    raw: Raw = field(init=False)
    producer: Transactional = field(init=False)
    topic_id: bytes = b""
    members: dict[str, ShareMember] = field(default_factory=dict[str, ShareMember])

    async def open(self, configs: dict[str, str]) -> None:
        """Make a topic and a group that begins with its first record."""
        self.raw = await Raw.connect(self.address)
        await self.raw.create_topic(self.topic)
        if "errors.deadletterqueue.topic.name" in configs:
            configs = {**configs, "errors.deadletterqueue.topic.name": self.dead_letter_topic}
            flag = {"errors.deadletterqueue.group.enable": "true"}
            await self.raw.create_topic(self.dead_letter_topic, DEAD_LETTER_PARTITIONS, **flag)
        assert await self.raw.configure(GROUP_RESOURCE, self.group, **configs) == 0
        await asyncio.sleep(MOMENT_S)
        self.topic_id = await initialized(self.raw, self.topic, self.group)
        self.producer = Transactional(self.raw, self.group)
        # The first use makes a topic, which takes Kafka its time.
        find = FindCoordinatorRequest(self.group, 1)
        while (await self.raw.ask(ApiKey.FIND_COORDINATOR, 2, find)).error_code or await self._first_epoch():
            await asyncio.sleep(0.1)
        await self.producer.begin()

    @property
    def dead_letter_topic(self) -> str:
        return f"dlq.{self.topic}"

    async def dead_letters(self) -> list[Any]:
        """Return partition, headers, key and value of every dead letter, sorted."""
        found: list[Any] = []
        for partition in range(DEAD_LETTER_PARTITIONS):
            data = bytes((await self.raw.fetch(self.dead_letter_topic, 0, partition, version=12)).records or b"")
            for position, header in iter_headers(data):
                records = decode_batch(data, position, header)
                kind = header.attributes, header.producer_id
                found += [(partition, each.headers, each.key, each.value, kind) for each in records]
        return sorted(found, key=lambda each: (each[0], int(dict(each[1])["__dlq.errors.offset"]), each[1]))

    async def _first_epoch(self) -> int:
        """Return the error of an InitProducerId."""
        request = InitProducerIdRequest(self.group, 60_000)
        return (await self.raw.ask(ApiKey.INIT_PRODUCER_ID, 4, request)).error_code

    async def produce(self, count: int) -> None:
        """Write one batch."""
        data = batch_of(*[b"x"] * count, timestamp_ms=int(time.time() * 1000))
        while (await self.raw.produce(self.topic, data)).error_code:
            await asyncio.sleep(0.1)

    async def transact(self, counts: list[int], commit: bool) -> None:
        """Write batches in a transaction, and end it."""
        for count in counts:
            written = await self.producer.send(self.topic, *[b"y"] * count, timestamp_ms=int(time.time() * 1000))
            assert written.error_code == 0, written
        assert await self.producer.end(commit=commit) == 0
        await self.producer.begin()

    async def join(self, name: str) -> None:
        """Begin a session on a new connection."""
        if name in self.members:
            self.members[name].raw.close()
            await asyncio.sleep(MOMENT_S)
        self.members[name] = ShareMember(await Raw.connect(self.address), self.group, name, self.topic_id)
        assert (await self.members[name].fetch(0, max_records=0)).error_code == 0

    async def load(self) -> None:
        """Wait until the partition gives records."""
        ann = self.members[MEMBERS[0]]
        while not acquired(await ann.fetch(max_records=1, max_wait_ms=WAIT_MS, share_acquire_mode=1)):
            pass
        assert data_of(await ann.acknowledge(0, (0, 0, (2,)))).error_code == 0

    def close(self) -> None:
        self.raw.close()
        for member in self.members.values():
            member.raw.close()


class Comparison:
    """One history."""

    def __init__(self, seed: int, addresses: tuple[str, str], has_dead_letters: bool) -> None:
        self.chance = Random(seed)
        self.has_dead_letters = has_dead_letters
        name = f"s{seed}-{time.time_ns()}"
        self.sides = [Side(address, name, name) for address in addresses]
        self.end = 0
        self.held: dict[str, set[int]] = {name: set() for name in MEMBERS}

    async def run(self, steps: int) -> list[str]:
        """Return the first difference, or nothing."""
        isolation = self.chance.choice(("read_uncommitted", "read_committed"))
        configs = {"share.auto.offset.reset": "earliest", "share.isolation.level": isolation}
        if self.has_dead_letters:
            configs["errors.deadletterqueue.topic.name"] = "dlq."
            configs["errors.deadletterqueue.copy.record.enable"] = self.chance.choice(("true", "false"))
            configs["share.delivery.count.limit"] = self.chance.choice(("2", "3", "5"))
        for side in self.sides:
            await side.open(configs)
        await self._produce()
        for name in MEMBERS:
            await self._each(lambda side, name=name: side.join(name))
        await self._each(Side.load)
        steps_of = (self._produce, self._transact, *[self._fetch] * 4, *[self._acknowledge] * 4, self._join, self._end)
        try:
            for step in range(steps):
                difference = await self.chance.choice(steps_of)()
                if difference:
                    return [f"{isolation}, step {step}: {difference}"]
            if self.has_dead_letters:
                return await self._compare_dead_letters()
        finally:
            for side in self.sides:
                side.close()
        return []

    async def _each(self, do: Callable[[Side], Any]) -> list[Any]:
        return [await do(side) for side in self.sides]

    async def _compare_dead_letters(self) -> list[str]:
        ends_s = time.monotonic() + WITHIN_S
        while (found := await self._each(Side.dead_letters))[0] != found[1] and time.monotonic() < ends_s:
            await asyncio.sleep(0.1)
        return [f"dead letters {pair}" for pair in zip_longest(*found) if pair[0] != pair[1]][:1]

    async def _produce(self) -> None:
        for _ in range(self.chance.randint(1, 4)):
            count = self.chance.randint(1, 8)
            await self._each(lambda side, count=count: side.produce(count))
            self.end += count

    async def _transact(self) -> None:
        counts, commit = (
            [self.chance.randint(1, 4) for _ in range(self.chance.randint(1, 3))],
            self.chance.random() < 0.5,
        )
        await self._each(lambda side: side.transact(counts, commit))
        # The marker is a record of its own.
        self.end += sum(counts) + 1

    async def _fetch(self) -> str:
        chance, name = self.chance, self.chance.choice(MEMBERS)
        options: dict[str, Any] = {
            "max_records": chance.randint(1, 12),
            "batch_size": chance.randint(1, 6),
            "share_acquire_mode": chance.randint(0, 1),
            "max_bytes": chance.choice((1 << 20, 100)),
            "max_wait_ms": WAIT_MS,
        }
        # Whether the fetch gets what the same request releases is a race in Kafka.
        said = self._batches(name, (0, 1, 3)) if chance.random() < 0.4 else []
        if said:
            options["said"] = {0: said}
        answers = await self._each(lambda side: side.members[name].fetch(**options))
        shown = [_fetched(answer) for answer in answers]
        self._note(name, said, shown[0].get("said", 0))
        self.held[name] |= set(shown[0].get("got", {}))
        return _difference(f"{name} fetches {options}", shown)

    async def _acknowledge(self) -> str:
        name = self.chance.choice(MEMBERS)
        said = self._batches(name)
        answers = await self._each(lambda side: side.members[name].acknowledge(0, *said))
        shown = [_acknowledged(answer) for answer in answers]
        self._note(name, said, shown[0].get("error", 0))
        return _difference(f"{name} acknowledges {said}", shown)

    async def _join(self) -> None:
        name = self.chance.choice(MEMBERS)
        await self._each(lambda side: side.join(name))
        self.held[name].clear()

    async def _end(self) -> str:
        """End a session, or replace it, and begin another on the same connection."""
        name, epoch = self.chance.choice(MEMBERS), self.chance.choice((0, -1))
        answers = await self._each(lambda side: side.members[name].fetch(epoch=epoch, max_records=0))
        for side in self.sides:
            side.members[name].epoch = 0
        await self._each(lambda side: side.members[name].fetch(0, max_records=0))
        if epoch:
            self.held[name].clear()
            await asyncio.sleep(MOMENT_S)
        return _difference(f"{name} sends epoch {epoch}", [{"code": answer.error_code} for answer in answers])

    def _batches(self, name: str, kinds: tuple[int, ...] = (0, 1, 2, 2, 3)) -> Batches:
        """Return what a member says: of what it holds, or anything."""
        chance, mine = self.chance, sorted(self.held[name])
        if not mine or chance.random() < 0.3:
            first = chance.randint(0, self.end + 3)
            last = first + chance.randint(-1, 4)
            return [(first, last, [chance.choice((*kinds, 4, 5))] * chance.choice((1, 1, max(last - first + 1, 1), 2)))]
        first = last = chance.choice(mine)
        while last + 1 in self.held[name] and chance.random() < 0.7:
            last += 1
        types = [chance.choice(kinds) for _ in range(last - first + 1)]
        return [(first, last, types if chance.random() < 0.5 else types[:1])]

    def _note(self, name: str, said: Batches, code: int) -> None:
        if code == 0:
            for first, last, _ in said:
                self.held[name] -= set(range(first, last + 1))


def _fetched(response: Any) -> Answer:
    shown: Answer = {"code": response.error_code, "lock": response.acquisition_lock_timeout_ms}
    data = data_of(response)
    if data is not None:
        records = bytes(data.records or b"")
        shown |= {"error": data.error_code, "said": data.acknowledge_error_code}
        shown["got"] = {at: count for first, last, count in acquired(response) for at in range(first, last + 1)}
        shown["batches"] = [header.base_offset for _, header in iter_headers(records)]
    return shown


def _acknowledged(response: Any) -> Answer:
    data = data_of(response)
    return {"code": response.error_code, "error": None if data is None else data.error_code}


def _difference(what: str, shown: list[Answer]) -> str:
    return "" if shown[0] == shown[1] else f"{what}\n  {shown[0]}\n  {shown[1]}"


async def compare(seed: int, addresses: tuple[str, str], steps: int, *, dead_letters: bool = False) -> list[str]:
    """Return where the answers to one history differ."""
    return await Comparison(seed, addresses, dead_letters).run(steps)
