"""Batches of a query under crashes: each is in the log once and whole. The simulation finds faults that are planted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.broker.coordination.interfaces import Question
from odradek.broker.coordination.partition_hash import partition_for
from odradek.broker.coordination.transactions import queries, query
from odradek.broker.coordination.transactions.query import (
    NO_BATCH,
    Ended,
    Joined,
    Query,
    QueryRecord,
    QueryStanding,
    participant_name,
    query_of,
)
from odradek.broker.coordination.transactions.query_records import decode_record, encode
from odradek.broker.coordination.transactions.records import decode_record as decode_transaction
from odradek.broker.topics.topic_names import TRANSACTIONS_TOPIC
from odradek.cli import internal_records
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.odradek_end_query_batch import OdradekEndQueryBatchRequest, Participant
from odradek.protocol.messages.odradek_join_query import OdradekJoinQueryRequest
from odradek.protocol.topic_partition import TopicPartition
from odradek.tests.support.brokers.slices import end_slices_after
from odradek.tests.support.seeds import examples, seeds
from odradek.tests.support.simulations.query_simulation import Context, SimulatedLog, Simulation

# The seeds that look for a planted fault; the first ones find it.
SEEDS = 40


def simulate(seed: int) -> None:
    async def run() -> None:
        simulation = Simulation(Random(seed))
        await simulation.run()
        simulation.check()

    asyncio.run(run())


@pytest.mark.parametrize("seed", seeds(range(6), range(1_000, 2_000)))
def test_each_batch_is_written_once_whatever_crashes(seed: int) -> None:
    simulate(seed)


# -- Planted faults


def skip_the_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every run write, the one before included."""
    real_join, real_end = queries.join, queries.end

    def join(query: Query, run_id: str, batch_id: int, now_ms: int) -> Joined:
        run = query.standing.run_id if query.standing else run_id
        query.current_batch = None
        return real_join(query, run, batch_id, now_ms)

    def end(query: Query, run_id: str, batch_id: int, now_ms: int) -> Ended:
        assert query.standing is not None
        return real_end(query, query.standing.run_id, batch_id, now_ms)

    monkeypatch.setattr(queries, "join", join)
    monkeypatch.setattr(queries, "end", end)


def commit_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit a batch that was committed before."""
    real = queries.end, queries.join

    def end(query: Query, run_id: str, batch_id: int, now_ms: int) -> Ended:
        ended = real[0](query, run_id, batch_id, now_ms)
        if ended.was_done and query.standing is not None:
            return Ended(record=QueryRecord(query.query_id, query.standing))
        return ended

    def join(query: Query, run_id: str, batch_id: int, now_ms: int) -> Joined:
        joined = real[1](query, run_id, batch_id, now_ms)
        return Joined() if joined.is_done else joined

    monkeypatch.setattr(queries, "end", end)
    monkeypatch.setattr(queries, "join", join)


def forget_the_batch_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write no batch id into the log, so that a restart forgets it."""
    real = queries.query_records.encode

    def encode(record: QueryRecord) -> tuple[bytes, bytes | None]:
        standing = record.standing
        return real(record._replace(standing=standing and standing._replace(batch_id=NO_BATCH)))

    monkeypatch.setattr(queries.query_records, "encode", encode)


def commit_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Append the records of a batch one by one, so that a crash keeps some of them."""
    real = SimulatedLog.append

    def append(self: SimulatedLog, partition: int, records: list[Any], on_committed: Any, *_: Any) -> None:
        for record in records[1:]:
            self.waiting.append((partition, [record], lambda error: None))
        if len(records) > 1:
            self.waiting.append((partition, records[:1], on_committed))
        else:
            real(self, partition, records, on_committed)

    monkeypatch.setattr(SimulatedLog, "append", append)


@pytest.mark.parametrize("plant", [skip_the_fence, commit_twice, forget_the_batch_id, commit_one_by_one])
def test_a_planted_fault_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert any(fails(seed) for seed in range(SEEDS))


def fails(seed: int) -> bool:
    try:
        simulate(seed)
    except AssertionError:
        return True
    return False


# -- A batch that is committed in several turns, and what happens meanwhile


class Batch:
    """A query whose tasks have written, at a coordinator whose log answers at once."""

    def __init__(self) -> None:
        self.simulation = simulation = Simulation(Random(0))
        simulation.log.is_troubled = simulation.places.are_troubled = False
        self.log, self.coordinator = simulation.log, simulation.coordinator
        self.partition = self.coordinator.shards.partition_of("q")

    def write(self, name: str) -> Participant:
        producer: Any = self.coordinator.initialize(Context(), InitProducerIdRequest(name, 60_000))
        who = producer.producer_id, producer.producer_epoch
        assert self.coordinator.verify(Question(name, *who, TopicPartition("t", 0), True)) is ErrorCode.NONE
        return Participant(name, *who)

    def task(self, number: int) -> Participant:
        joined: Any = self.coordinator.queries.join(Context(), OdradekJoinQueryRequest("q", "run", 0, f"{number}.0"))
        return self.write(joined.transactional_id)

    def commit(self, *participants: Participant) -> Any:
        request = OdradekEndQueryBatchRequest("q", "run", 0, True, list(participants))
        return self.coordinator.queries.end(Context(), request)


@pytest.mark.parametrize("tasks", [0, 2])
async def test_a_batch_that_was_prepared_is_not_committed_once_another_broker_has_coordinated(
    tasks: int,
) -> None:
    end_slices_after(1)
    batch = Batch()
    participants = [batch.task(number) for number in range(tasks + 1)]
    before = list(batch.log.batches)
    committing = batch.commit(*participants)
    batch.coordinator.shards.unload(batch.partition)
    batch.coordinator.shards.load(batch.partition)
    ended = await committing
    assert ended.error_code == ErrorCode.NOT_COORDINATOR
    assert batch.log.batches == before
    # The participants that were held are still open at the coordinator of now, which commits them.
    assert (await batch.commit(*participants)).error_code == 0


async def test_a_participant_of_another_partition_is_rejected() -> None:
    """Its record would be written where no coordinator looks for it."""
    batch = Batch()
    batch.task(0)
    names = (f"odradek-query/q/1.0/{salt}" for salt in range(100))
    stranger = next(each for each in names if batch.coordinator.shards.partition_of(each) != batch.partition)
    ended: Any = batch.commit(batch.write(stranger))
    assert ended.error_code == ErrorCode.INVALID_REQUEST


async def test_many_ids_expire_a_few_a_turn_and_nothing_of_them_stays() -> None:
    batch = Batch()
    many = 30
    for number in range(many):
        # Nobody has joined this query.
        batch.write(f"odradek-query/none/{number}/0")
    for name, actor in batch.coordinator.ids.items():
        standing = actor.state.standing
        end = EndTxnRequest(name, standing.producer_id, standing.producer_epoch, False)
        assert batch.coordinator.end(Context(), end).error_code == 0  # type: ignore[union-attr]
    batch.simulation.clock.advance(8 * 24 * 3_600_000)
    end_slices_after(10)
    batch.simulation.ring()
    # The look for timeouts rings with it, and has had the slice of this turn.
    assert many - 10 <= len(batch.coordinator.ids) < many
    for _ in range(many):
        await asyncio.sleep(0)
    assert not batch.coordinator.ids and not batch.coordinator.queries._names


# -- The machine


class Driver:
    """A query among runs that come, go, and come back: the machine, and a model of what it promises."""

    def __init__(self) -> None:
        self.query = Query("q")
        self.runs: list[str] = []
        self.done = NO_BATCH

    def apply(self, record: QueryRecord | None) -> None:
        assert record is not None
        key, value = encode(record)
        decoded = decode_record(key, value)
        assert decoded == record
        self.query.apply(record)

    def restart(self) -> None:
        standing, self.query = self.query.standing, Query("q")
        if standing is not None:
            self.query.apply(QueryRecord("q", standing))

    def join(self, run: str, batch: int) -> None:
        joined = query.join(self.query, run, batch, 0)
        is_new = run not in self.runs
        if joined.record is not None:
            assert is_new and batch >= self.done
            self.apply(joined.record)
            self.runs.append(run)
            joined = query.join(self.query, run, batch, 0)
        if run != self.runs[-1] if self.runs else False:
            assert joined.error is not ErrorCode.NONE
        elif joined.error is ErrorCode.NONE:
            assert joined.is_done is (batch == self.done)
            assert joined.is_done or batch > self.done

    def end(self, run: str, batch: int) -> None:
        ended = query.end(self.query, run, batch, 0)
        if not self.runs or run != self.runs[-1]:
            assert ended.error is ErrorCode.PRODUCER_FENCED
        elif batch <= self.done:
            assert ended.was_done
        else:
            self.apply(ended.record)
            self.done = batch
        assert self.query.standing is None or self.query.standing.batch_id == self.done


RUNS, BATCHES = st.sampled_from("abcd"), st.integers(0, 4)
CALLS = st.one_of(
    st.tuples(st.just("join"), RUNS, BATCHES), st.tuples(st.just("end"), RUNS, BATCHES), st.tuples(st.just("restart"))
)


@given(st.lists(CALLS, max_size=30))
@settings(max_examples=examples(150))
def test_one_run_writes_and_no_batch_is_committed_twice(calls: list[tuple[Any, ...]]) -> None:
    driver = Driver()
    for name, *arguments in calls:
        getattr(driver, name)(*arguments)


def test_a_task_of_an_earlier_batch_is_fenced() -> None:
    driver = Driver()
    driver.join("a", 3)
    joined = query.join(driver.query, "a", 4, 0)
    assert joined == Joined(is_new_batch=True)
    late = query.join(driver.query, "a", 3, 0)
    assert late.error is ErrorCode.PRODUCER_FENCED
    assert "batch 4 has begun" in late.why


def test_after_a_restart_a_batch_that_goes_on_is_no_new_one() -> None:
    driver = Driver()
    driver.join("a", 3)
    driver.restart()
    assert query.join(driver.query, "a", 3, 0) == Joined()


def test_a_checkpoint_that_went_back_is_rejected_with_the_reason() -> None:
    driver = Driver()
    driver.join("a", 7)
    driver.end("a", 7)
    joined = query.join(driver.query, "b", 6, 0)
    assert joined.error is ErrorCode.INVALID_TXN_STATE
    assert "restored from an older copy" in joined.why


def test_runs_that_are_remembered_have_a_limit() -> None:
    driver = Driver()
    for number in range(query.MAX_FORMER_RUNS + 5):
        driver.join(f"run-{number}", 0)
    assert driver.query.standing is not None
    assert len(driver.query.standing.former_runs) == query.MAX_FORMER_RUNS


# -- Names and records


@given(st.text(min_size=1, max_size=40), st.from_regex(r"[0-9a-z.]{1,10}", fullmatch=True), st.integers(1, 200))
def test_every_participant_belongs_to_the_partition_of_its_query(query_id: str, task: str, partitions: int) -> None:
    name = participant_name(query_id, task, partitions)
    assert partition_for(name, partitions) == partition_for(query_id, partitions)
    assert query_of(name) == query_id


@pytest.mark.parametrize("name", ["orders-1", "odradek-query/q", "odradek-query/q/1", "x/odradek-query/q/1/2"])
def test_other_transactional_ids_belong_to_no_query(name: str) -> None:
    assert query_of(name) is None


def test_kafka_steps_over_the_records_of_queries() -> None:
    key, value = encode(QueryRecord("q", QueryStanding("run", ("old",), 7, 1234)))
    assert decode_transaction(key, value) is None
    assert key == bytes.fromhex("7530 0001") + b"q"
    assert encode(QueryRecord("q", None)) == (key, None)


def test_records_of_queries_are_printed_in_words() -> None:
    key, value = encode(QueryRecord("q", QueryStanding("run", ("old",), 7, 1234)))
    found, row = internal_records.decode(TRANSACTIONS_TOPIC, key, value) or ({}, None)
    assert found == {"type": "query", "query": "q"}
    assert row == {"run_id": "run", "former_runs": ("old",), "batch_id": 7, "update_ms": 1234}
    assert internal_records.decode(TRANSACTIONS_TOPIC, key, None) == (found, None)
