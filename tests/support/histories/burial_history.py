"""Random histories of dead letters: an actor and the writer, crashed at any step, over a persister and a wire by hand.

Whatever waits for the share coordinator or for the leader of a dead letter goes on when the history says so. A crash
lets each of them happen or not, and nobody hears of it. In the end every record that is archived has a dead letter, or
a line of the log; every dead letter was ARCHIVING when it was written; and what was accepted has none.
"""

from __future__ import annotations

import asyncio
import logging
import re
from random import Random
from types import SimpleNamespace
from typing import Any

from odradek.broker.coordination.share_states.share_state import ShareKey, ShareState
from odradek.broker.purgatory import Purgatory
from odradek.broker.share_partitions.actor import SharePartitionActor, ShareSurroundings
from odradek.broker.share_partitions.dead_letters import DeadLetterWriter
from odradek.broker.share_partitions.machine import Acknowledgement, AcknowledgeType, Limits, Span, Wish
from odradek.broker.share_partitions.settings import Settings
from odradek.broker.share_partitions.stretches import RecordState
from odradek.broker.timers import Timers
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from odradek.protocol.records.batch import decode_batch
from odradek.tests.support.fakes.clock import FakeClock
from odradek.tests.support.fakes.memory_persister import MemoryPersister

RECORDS = 12
LIMITS = Limits(lock_ms=1_000, max_deliveries=2, max_locks=100, may_renew=True, has_dead_letters=True)
SETTINGS = Settings(LIMITS, 0, -2, "dlq.g")
KEY = ShareKey("g", bytes(16), 0)
_LINE = re.compile(r"offsets (\d+) to (\d+)")


class Broken(AssertionError):
    """A history shows what must never happen."""


class Gates:
    """What waits, until a history lets one of them go on."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._waiting: list[asyncio.Future[KafkaError | None]] = []

    async def wait(self) -> None:
        gate: asyncio.Future[KafkaError | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(gate)
        error = await gate
        if error is not None:
            raise error

    def open_one(self, errors: tuple[ErrorCode, ...]) -> bool:
        """Let one go on, with an error at times; return whether any waited."""
        self._waiting = [each for each in self._waiting if not each.done()]
        if not self._waiting:
            return False
        gate = self._waiting.pop(self._chance.randrange(len(self._waiting)))
        gate.set_result(KafkaError(self._chance.choice(errors)) if errors and self._chance.random() < 0.2 else None)
        return True


class GatedPersister(MemoryPersister):
    """A persister whose writes wait before they happen, and again before they are answered."""

    def __init__(self, gates: Gates) -> None:
        super().__init__()
        self._gates = gates
        # What is to be a dead letter, and what is none any more: it was archived, or the start has moved over it.
        self.archiving: set[int] = set()
        self.archived: set[int] = set()

    async def write(self, *arguments: Any) -> None:
        await self._gates.wait()
        await super().write(*arguments)
        for batch in arguments[-1]:
            offsets = set(range(batch.first_offset, batch.last_offset + 1))
            if batch.delivery_state == RecordState.ARCHIVING:
                self.archiving |= offsets
            elif batch.delivery_state == RecordState.ARCHIVED:
                self.archived |= offsets
        self.archived |= self.archiving & set(range(self.states[KEY].start_offset))
        self.archiving -= self.archived


class GatedWire:
    """The leader of the topic of dead letters."""

    def __init__(self, gates: Gates, persister: GatedPersister) -> None:
        self.written: set[int] = set()
        # Dead letters of records that were not to be any.
        self.early: set[int] = set()
        self._gates = gates
        self._persister = persister

    async def produce(self, topic: str, index: int, request: Any) -> ProduceResponse:
        await self._gates.wait()
        records = decode_batch(request.topic_data[0].partition_data[0].records)
        offsets = {int(dict(each.headers)["__dlq.errors.offset"] or b"") for each in records}
        self.early |= offsets - self._persister.archiving - self._persister.archived
        self.written |= offsets
        await self._gates.wait()
        return ProduceResponse([TopicProduceResponse(partition_responses=[PartitionProduceResponse()])])

    async def create(self, topic: Any) -> None:
        raise AssertionError("the topic is there")


class Lines(logging.Handler):
    """The offsets that the log says are lost."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.offsets: set[int] = set()

    def emit(self, record: logging.LogRecord) -> None:
        found = _LINE.search(record.getMessage())
        if found is not None:
            self.offsets |= set(range(int(found[1]), int(found[2]) + 1))


class BurialHistory:
    """One history. `await run()`."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.gates = Gates(self.chance)
        self.persister = GatedPersister(self.gates)
        self.persister.states[KEY] = ShareState(1, 0, 0, 0)
        self.wire = GatedWire(self.gates, self.persister)
        self.clock = FakeClock()
        self.timers = Timers(self.clock)
        self.accepted: set[int] = set()
        # As in Kafka they become dead letters also where the state cannot be written.
        self.timed_out: set[int] = set()
        self.lines = Lines()
        log = SimpleNamespace(log_end_offset=RECORDS, log_start_offset=0)
        led = {"topic": "t", "index": 0, "leader_epoch": 0, "reign": 0, "log": log, "check_leading": lambda: None}
        self.partition: Any = SimpleNamespace(**led)
        config = SimpleNamespace(max_message_bytes=700, errors_deadletterqueue_group_enable=True)
        self.topic: Any = SimpleNamespace(name="dlq.g", id=bytes([1] * 16), config=config, partitions=[None])

    def start(self) -> None:
        """Begin as the leader."""
        topics: Any = SimpleNamespace(get=lambda _: self.topic, by_id=lambda _: self.topic)
        config: Any = SimpleNamespace(errors_deadletterqueue_topic_name_prefix="dlq.")
        nothing: Any = None
        self.writer = DeadLetterWriter(config, topics, self.clock, nothing, nothing, self.wire)
        surroundings: Any = ShareSurroundings(
            *(self.persister, self.clock, self.timers, Purgatory(self.timers), lambda _: SETTINGS, None, self.writer)
        )
        self.actor = SharePartitionActor(KEY, self.partition, surroundings)
        self.actor.load()

    async def crash(self) -> None:
        """Lose the leader with all that waits."""
        self.actor.fence()
        self.writer.close()
        await self.actor.close(0)
        self.start()
        await settle()

    def fetch(self) -> None:
        machine = self.actor.acquirable(SETTINGS)
        if machine is not None:
            count = self.chance.randint(1, RECORDS)
            spans = [Span(at, at) for at in range(machine.next_fetch_offset(), RECORDS)]
            self.actor.acquire(Wish("ann", count, 500, True), machine.next_fetch_offset(), spans, SETTINGS)

    def acknowledge(self) -> None:
        machine = self.actor.machine
        held = [each for each in machine.stretches() if each.is_held] if machine is not None else []
        if not held:
            return
        each = self.chance.choice(held)
        kinds = self.chance.choices(list(AcknowledgeType)[1:4], k=each.last - each.first + 1)
        accepted = {each.first + at for at, kind in enumerate(kinds) if kind is AcknowledgeType.ACCEPT}
        answer = self.actor.acknowledge("ann", [Acknowledgement(each.first, each.last, kinds)])
        if answer is not None:
            answer.add_done_callback(lambda done: self._answered(done, accepted))

    def _answered(self, done: asyncio.Future[None], accepted: set[int]) -> None:
        if not done.cancelled() and done.exception() is None:
            self.accepted |= accepted

    def expire(self) -> None:
        self.clock.advance(LIMITS.lock_ms)
        # Also what is being written: where that fails, its lock has ended.
        machine = self.actor.machine
        for each in machine.stretches() if machine is not None else ():
            if each.is_held or each.before is not None:
                self.timed_out |= set(range(each.first, each.last + 1))
        self.timers.fire_due()

    async def run(self, steps: int = 60) -> None:
        logger = logging.getLogger("odradek.broker.share_partitions")
        logger.addHandler(self.lines)
        try:
            self.start()
            for _ in range(steps):
                await self._step()
            await self._finish()
        finally:
            logger.removeHandler(self.lines)
            self.writer.close()

    async def _step(self) -> None:
        draw = self.chance.random()
        if draw < 0.5:
            self.gates.open_one((ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.MESSAGE_TOO_LARGE))
        elif draw < 0.7:
            self.fetch()
        elif draw < 0.88:
            self.acknowledge()
        elif draw < 0.93:
            self.expire()
        elif draw < 0.97:
            await self.crash()
        await settle()

    async def _finish(self) -> None:
        """Let everything end, also what a last start finds, and compare."""
        for _ in range(2):
            await settle()
            while self.gates.open_one(()):
                await settle()
            await self.crash()
        states, written = self.persister, self.wire.written
        if lost := states.archived - written - self.lines.offsets:
            raise Broken(f"{sorted(lost)} are archived, and neither dead letters nor in the log")
        if early := (self.wire.early | (self.accepted & written)) - self.timed_out:
            raise Broken(f"{sorted(early)} are dead letters, and the state does not say so")
        if states.archiving:
            raise Broken(f"{sorted(states.archiving)} stay ARCHIVING for ever")


async def settle() -> None:
    """Let the loop do what it can."""
    for _ in range(30):
        await asyncio.sleep(0)
