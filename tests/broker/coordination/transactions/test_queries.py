"""Batches of a query: the machine, and the coordinator whose log answers at once. Crashes are in the simulation."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.broker.configs.broker_config import BrokerConfig
from odradek.broker.coordination.interfaces import Question
from odradek.broker.coordination.partition_hash import partition_for
from odradek.broker.coordination.replay import Written
from odradek.broker.coordination.transactions import query
from odradek.broker.coordination.transactions.coordinator import TransactionCoordinator
from odradek.broker.coordination.transactions.query import (
    NO_BATCH,
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
from odradek.tests.support.fakes.clock import FakeClock
from odradek.tests.support.seeds import examples

# -- A batch that is committed in several turns, and what happens meanwhile


@dataclass
class Context:
    api_version: int = 5
    client_id: str = "driver"
    client_host: str = "/10.0.0.1"


class Log:
    """`__transaction_state`: the batches of records, by partition."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, list[Any]]] = []

    def partition_count(self) -> int:
        return 5

    def ensure_topic(self) -> None: ...

    def coordinator_epoch(self, partition: int) -> int:
        return 0

    def append(self, partition: int, records: list[Any], on_committed: Callable[[Any], None], *_: Any) -> None:
        self.batches.append((partition, records))
        on_committed(None)

    def entries(self, partition: int) -> Iterator[Written]:
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

    def ring(self) -> None:
        due, self.due = self.due, []
        for callback in due:
            callback()


class NoTopics:
    def get(self, name: str) -> None: ...
    def by_id(self, topic_id: bytes) -> None: ...


class Batch:
    """A query whose tasks have written, at a coordinator whose log answers at once."""

    def __init__(self) -> None:
        self.log, self.timers, self.clock = Log(), Timers(), FakeClock()
        world: Any = self.timers, self.clock, NoTopics(), lambda _: 0
        ids = itertools.count(100)
        self.coordinator = TransactionCoordinator(
            BrokerConfig(), self.log, *world, lambda: next(ids), lambda *_: None, lambda _: False
        )
        self.coordinator.start()
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
    # The participants that were held are still open at the coordinator of now, which commits them: by one append, so
    # that no crash leaves half of a batch.
    assert (await batch.commit(*participants)).error_code == 0
    (_, records), *ends = batch.log.batches[len(before) :]
    assert len(records) == len(participants) + 1 and all(len(each) == 1 for _, each in ends)


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
    batch.clock.advance(8 * 24 * 3_600_000)
    end_slices_after(10)
    batch.timers.ring()
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
