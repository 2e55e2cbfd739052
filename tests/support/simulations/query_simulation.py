"""A simulation of a query that writes through the transaction coordinator, with everything that can go wrong.

The coordinator is the real one. Around it are a log that may answer late, fail or lose what was not answered,
partitions that check epochs and keep markers, and drivers as Spark has them: they plan a batch, write the plan into a
checkpoint, run tasks (some twice at once, also under one name, some twice in turn), send one commit, and note the batch
as complete. The coordinator and the drivers crash between any two steps, a driver may go on although another has taken
its checkpoint, and requests and responses are lost.

The source is the numbers 0, 1, 2, ... A batch is a range of them. `check` is the promise: read_committed readers see
each number once, without a gap, up to what the last driver knows to be complete.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from odradek.broker.coordination.interfaces import Question
from odradek.broker.coordination.replay import Ended, Written
from odradek.broker.coordination.transactions.coordinator import TransactionCoordinator
from odradek.broker.coordination.transactions.events import LookForTimeout
from odradek.broker.coordination.transactions.markers import TransactionEnd
from odradek.client.producer.transaction_requests import MAX_NAMESAKES
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.odradek_end_query_batch import OdradekEndQueryBatchRequest, Participant
from odradek.protocol.messages.odradek_join_query import OdradekJoinQueryRequest
from odradek.protocol.topic_partition import TopicPartition
from odradek.tests.support.fakes.clock import FakeClock

QUERY = "q"
TIMEOUT_MS = 60_000
RETRIED = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_SERVER_ERROR,
}
Steps = Generator[None, None, Any]
Pair = tuple[bytes, bytes | None]


@dataclass
class Config:
    transaction_max_timeout_ms: int = 900_000
    add_partitions_to_txn_retry_backoff_max_ms: int = 100
    transactional_id_expiration_ms: int = 7 * 24 * 3_600_000
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000


@dataclass
class Context:
    api_version: int = 5
    client_id: str = "driver"
    client_host: str = "/10.0.0.1"


class Lost(Exception):
    """No response came."""


class Dead(Exception):
    """A task or a driver ends with an error."""


class SimulatedLog:
    """`__transaction_state`: batches in order. An append is answered at once or later, and until then may be lost."""

    def __init__(self, chance: Random) -> None:
        self.batches: list[tuple[int, list[Pair]]] = []
        self.waiting: list[tuple[int, list[Pair], Callable[[KafkaError | None], None]]] = []
        self._chance = chance
        # Whether appends may wait or fail.
        self.is_troubled = True

    def partition_count(self) -> int:
        return 5

    def ensure_topic(self) -> None: ...

    def coordinator_epoch(self, partition: int) -> int:
        return 0

    def append(
        self,
        partition: int,
        records: list[Pair],
        on_committed: Callable[[KafkaError | None], None],
        producer: tuple[int, int] | None = None,
        durable_after: Sequence[tuple[str, int]] | None = None,
    ) -> None:
        if self.is_troubled and (self.waiting or self._chance.random() < 0.3):
            self.waiting.append((partition, records, on_committed))
            return
        self.batches.append((partition, records))
        on_committed(None)

    def answer(self, *, well: bool = True) -> None:
        """Answer the oldest append that waits."""
        if self.waiting:
            partition, records, on_committed = self.waiting.pop(0)
            if well:
                self.batches.append((partition, records))
            on_committed(None if well else KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk failed"))

    def crash(self) -> None:
        """Lose some of what was not answered: the last appends, never one before another."""
        for partition, records, _ in self.waiting[: self._chance.randint(0, len(self.waiting))]:
            self.batches.append((partition, records))
        self.waiting = []

    def entries(self, partition: int) -> Iterator[Written | Ended]:
        for where, records in self.batches:
            if where == partition:
                yield from (Written(key, value) for key, value in records)


class Timers:
    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def at(self, deadline_ms: int, callback: Callable[[], None]) -> Timers:
        self.due.append(callback)
        return self

    def cancel(self) -> None: ...


@dataclass
class Places:
    """The partitions of the topic that is written to."""

    chance: Random
    # (producer id, what): a number, or True and False for the markers.
    entries: dict[int, list[tuple[int, int | bool]]] = field(default_factory=lambda: {0: [], 1: []})
    epochs: dict[tuple[int, int], int] = field(default_factory=dict)
    are_troubled: bool = True

    def write(self, index: int, producer_id: int, epoch: int, number: int) -> bool:
        """Append a number. Return whether the producer is not fenced."""
        if epoch < self.epochs.get((index, producer_id), -1):
            return False
        self.epochs[index, producer_id] = epoch
        self.entries[index].append((producer_id, number))
        return True

    def mark(self, topic: str, index: int, end: TransactionEnd, /) -> None:
        if self.are_troubled and self.chance.random() < 0.1:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk failed")
        if end.producer_epoch < self.epochs.get((index, end.producer_id), -1):
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, "fenced")
        self.epochs[index, end.producer_id] = end.producer_epoch
        self.entries[index].append((end.producer_id, end.commit))

    def get(self, name: str) -> None: ...
    def by_id(self, topic_id: bytes) -> None: ...

    def visible(self) -> list[int]:
        """Return what read_committed readers see, and fail if a transaction is open."""
        seen: list[int] = []
        for entries in self.entries.values():
            pending: dict[int, list[int]] = {}
            for producer_id, what in entries:
                if what is True or what is False:
                    found = pending.pop(producer_id, [])
                    seen += found if what else []
                else:
                    pending.setdefault(producer_id, []).append(what)
            assert not any(pending.values()), f"transactions that nobody ended: {pending}"
        return sorted(seen)


@dataclass
class Checkpoint:
    """What a driver has on disk: batch -> its range, and the batches that it knows to be complete."""

    planned: dict[int, tuple[int, int]] = field(default_factory=dict)
    complete: set[int] = field(default_factory=set)

    def copy(self) -> Checkpoint:
        return Checkpoint(dict(self.planned), set(self.complete))


class Simulation:
    """One query from its first batch to `batches`."""

    def __init__(self, chance: Random, batches: int = 4) -> None:
        self.chance = chance
        self.batches = batches
        self.log = SimulatedLog(chance)
        self.clock = FakeClock()
        self.places = Places(chance)
        self.runs = itertools.count(1)
        self.producer_ids = itertools.count(100)
        self.generation = 0
        self.checkpoint = Checkpoint()
        # Runs whose driver has aborted -> the generation of the coordinator that knows it.
        self.aborted: dict[str, int] = {}
        self.drivers: list[Steps] = []
        # The run of the last driver, until the coordinator knows it.
        self.starting: dict[str, Steps] = {}
        self.tasks: list[Steps] = []
        self.trace: list[str] = []
        self.start_coordinator()

    # -- The broker

    def start_coordinator(self) -> None:
        self.generation += 1
        self.timers = Timers()
        quiet = logging.getLogger("odradek.tests.simulation")
        self.coordinator = TransactionCoordinator(
            Config(),
            self.log,
            self.timers,
            self.clock,
            self.places,
            lambda group: 0,
            lambda: next(self.producer_ids),
            self.places.mark,
            lambda place: False,
            quiet,
        )
        self.coordinator.start()

    def crash(self) -> None:
        self.trace.append("the coordinator crashes")
        self.log.crash()
        self.start_coordinator()

    def ring(self) -> None:
        due, self.timers.due = self.timers.due, []
        for callback in due:
            callback()

    def ask(self, method: str, request: Any) -> Steps:
        """Send a request, and return its response. Raises Lost."""
        yield
        if self.chance.random() < 0.03:
            raise Lost
        generation, target = self.generation, self.coordinator
        asked: Any = getattr(target if method in ("initialize", "describe") else target.queries, method)
        response = asked(Context(), request)
        while isinstance(response, asyncio.Future) and not response.done():
            yield
            if self.generation != generation:
                raise Lost
        yield
        if self.chance.random() < 0.05:
            raise Lost
        return response.result() if isinstance(response, asyncio.Future) else response

    def insist(self, method: str, request: Any) -> Steps:
        """Send a request until it is answered for good. Raises Dead."""
        for _ in range(200):
            try:
                response = yield from self.ask(method, request)
            except Lost:
                continue
            error = ErrorCode.of(response.error_code)
            if error is ErrorCode.NONE:
                return response
            if error not in RETRIED:
                self.trace.append(f"{method}: {error.name}")
                raise Dead
            yield
        raise Dead

    # -- Spark

    def task(self, run: str, batch: int, name: str, numbers: list[int]) -> Steps:
        """Write numbers, and return the participant; None if there is nothing to commit. Raises Dead."""
        for number in range(MAX_NAMESAKES):
            of = f"{name}.{number}" if number else name
            joined = yield from self.insist("join", OdradekJoinQueryRequest(QUERY, run, batch, of))
            self.starting.pop(run, None)
            if joined.is_done:
                return None
            if not (yield from self.is_open(joined.transactional_id)):
                break
        else:
            raise Dead
        request = InitProducerIdRequest(joined.transactional_id, TIMEOUT_MS)
        producer = yield from self.insist("initialize", request)
        who = producer.producer_id, producer.producer_epoch
        for number in numbers:
            yield
            yield from self.write(joined.transactional_id, *who, number)
            assert not self.is_aborted(run), f"a task of {run} writes after the abort of its driver"
        return Participant(joined.transactional_id, *who) if numbers else None

    def is_open(self, transactional_id: str) -> Steps:
        while True:
            try:
                response = yield from self.ask("describe", DescribeTransactionsRequest([transactional_id]))
            except Lost:
                continue
            (found,) = response.transaction_states
            if ErrorCode.of(found.error_code) not in RETRIED:
                return found.transaction_state == "Ongoing"

    def write(self, transactional_id: str, producer_id: int, epoch: int, number: int) -> Steps:
        who = transactional_id, producer_id, epoch
        for _ in range(200):
            index = number % 2
            word = self.coordinator.verify(Question(*who, TopicPartition("t", index), True))
            error = ErrorCode.CONCURRENT_TRANSACTIONS if isinstance(word, asyncio.Future) else word
            if error is ErrorCode.NONE:
                if self.places.write(index, producer_id, epoch, number):
                    return
                raise Dead
            if error not in RETRIED:
                raise Dead
            yield
        raise Dead

    def attempt(self, run: str, batch: int, part: int, attempt: int, numbers: list[int]) -> Steps:
        """One attempt of a task: it may fail in the middle, and its result may be lost."""
        cut = self.chance.random()
        given = numbers[: self.chance.randint(0, len(numbers))] if cut < 0.1 else numbers
        result = yield from self.task(run, batch, f"{part}.{attempt}", given)
        if cut < 0.1:
            raise Dead
        return result

    def run_task(self, run: str, batch: int, part: int, numbers: list[int]) -> Steps:
        """Run a task as Spark does: up to four attempts, some with another one beside it. Return its participant."""
        for attempt in range(4):
            if self.chance.random() < 0.2:
                self.tasks.append(self.attempt(run, batch, part, attempt + 10, numbers))
            before: list[Participant | None] = []
            if self.chance.random() < 0.2:
                # The stage is repeated: its attempts have the names of those before, which are alive.
                self.tasks.append(self.noted(before, self.attempt(run, batch, part, attempt, numbers)))
            try:
                result = yield from self.attempt(run, batch, part, attempt, numbers)
            except Dead:
                if not before:
                    continue
                result = before[0]
            return self.chance.choice([result, *before])
        raise Dead

    def noted(self, results: list[Participant | None], attempt: Steps) -> Steps:
        results.append((yield from attempt))

    def driver(self, run: str, checkpoint: Checkpoint) -> Steps:
        first = max(checkpoint.planned, default=0)
        for batch in range(first, self.batches):
            if batch in checkpoint.complete:
                continue
            start = checkpoint.planned[batch - 1][1] if batch else 0
            yield
            while self.starting.keys() - {run}:
                # Drivers share their checkpoint: one finds what the other plans, or the broker fences one of them.
                yield
            if batch not in checkpoint.planned:
                checkpoint.planned[batch] = start, start + self.chance.randint(1, 6)
            self.trace.append(f"{run}: batch {batch} {checkpoint.planned[batch]}")
            numbers = list(range(*checkpoint.planned[batch]))
            if self.chance.random() < 0.05:
                # Spark fails a batch as soon as one task fails: others may run on, or not have begun.
                self.tasks.append(self.attempt(run, batch, 0, 20, numbers))
                yield from self.abort(run, batch)
            parts = self.chance.randint(1, 3)
            found: list[Participant | None] = []
            for part in range(parts):
                try:
                    found.append((yield from self.run_task(run, batch, part, numbers[part::parts])))
                except Dead:
                    yield from self.abort(run, batch)
            named = [each for each in found if each is not None]
            request = OdradekEndQueryBatchRequest(QUERY, run, batch, True, named)
            response = yield from self.insist("end", request)
            self.trace.append(f"{run}: batch {batch} ended, was_done={response.was_done}")
            yield
            if self.chance.random() < 0.15:
                self.trace.append(f"{run}: killed after the commit of batch {batch}, before it is noted as complete")
                if self.chance.random() < 0.5:
                    self.crash()
                raise Dead
            checkpoint.complete.add(batch)

    def abort(self, run: str, batch: int) -> Steps:
        """Fail a batch as a driver does. From the answer on no task of its run writes anything. Raises Dead."""
        generation = self.generation
        yield from self.insist("end", OdradekEndQueryBatchRequest(QUERY, run, batch, False, []))
        self.starting.pop(run, None)
        self.trace.append(f"{run}: batch {batch} aborted")
        self.aborted[run] = generation
        raise Dead

    def is_aborted(self, run: str) -> bool:
        """Return whether the coordinator knows that the driver of this run, the last one, has aborted."""
        query = self.coordinator.queries.queries.get(QUERY)
        is_last = query is not None and query.standing is not None and query.standing.run_id == run
        return is_last and self.aborted.get(run) == self.generation

    # -- The world

    async def run(self) -> None:
        """Run until the last driver has completed every batch; then let everything settle."""
        self.start_driver()
        for _ in range(20_000):
            await asyncio.sleep(0)
            self.disturb()
            if self.batches - 1 in self.checkpoint.complete:
                break
            if not self.advance(self.chance.choice([*self.drivers, *self.tasks])) and not self.drivers:
                self.start_driver()
        else:
            raise AssertionError("the query does not end:\n" + "\n".join(self.trace[-40:]))
        await self.settle()

    def start_driver(self) -> None:
        """Start a driver with the checkpoint of the one before, which may go on with a copy if the broker knows it."""
        self.drivers = [each for each in self.drivers if each not in self.starting.values()]
        self.checkpoint = self.checkpoint.copy()
        run = f"run-{next(self.runs)}"
        self.trace.append(f"{run}: a driver starts with {self.checkpoint}")
        self.drivers.append(self.driver(run, self.checkpoint))
        self.starting = {run: self.drivers[-1]}

    def advance(self, steps: Steps) -> bool:
        """Take one step. Return whether there are more."""
        try:
            next(steps)
        except (StopIteration, Dead, Lost):
            (self.drivers if steps in self.drivers else self.tasks).remove(steps)
            self.starting = {run: each for run, each in self.starting.items() if each is not steps}
            return False
        return True

    def disturb(self) -> None:
        """Let something happen that nobody asked for."""
        dice = self.chance.random()
        if dice < 0.4:
            self.log.answer()
        elif dice < 0.41:
            self.log.answer(well=False)
        elif dice < 0.415:
            self.crash()
        elif dice < 0.42:
            self.drivers.clear()
            self.trace.append("the driver is killed")
            self.start_driver()
        elif dice < 0.425 and len(self.drivers) < 3:
            self.start_driver()
        elif dice < 0.5:
            self.ring()

    async def settle(self) -> None:
        """End what runs, let time-outs pass, and answer everything."""
        for _ in range(500):
            await asyncio.sleep(0)
            for each in (*self.drivers, *self.tasks):
                self.advance(each)
            self.log.answer()
        self.log.is_troubled = self.places.are_troubled = False
        while self.log.waiting:
            self.log.answer()
        self.crash()
        self.clock.advance(2 * TIMEOUT_MS)
        for _ in range(50):
            await asyncio.sleep(0)
            self.ring()
            for actor in list(self.coordinator.ids.values()):
                actor.feed(LookForTimeout())

    def check(self) -> None:
        """Fail unless each number is visible once, and all that the last driver knows to be complete."""
        seen, trace = self.places.visible(), "\n".join(self.trace)
        assert seen == list(range(len(seen))), f"{seen}\n{trace}"
        expected = self.checkpoint.planned[self.batches - 1][1]
        assert len(seen) == expected, f"{len(seen)} of {expected}: {seen}\n{trace}"
