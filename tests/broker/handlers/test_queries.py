"""Queries over the wire: tasks join a batch, and the transactions of all of them end together."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.broker.coordination.transactions import queries
from odradek.protocol.apis import ApiKey, OwnApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.odradek_describe_queries import OdradekDescribeQueriesRequest
from odradek.protocol.messages.odradek_end_query_batch import (
    MAX_PARTICIPANTS,
    OdradekEndQueryBatchRequest,
    Participant,
)
from odradek.protocol.messages.odradek_join_query import OdradekJoinQueryRequest
from odradek.protocol.records.batch import decode_batch, read_header
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.waiting import accepted


class Task:
    """One task of a batch, which speaks as a client does."""

    def __init__(self, raw: Raw, query: str = "q", run: str = "a") -> None:
        self.raw, self.query, self.run = raw, query, run
        self.transactional_id = ""
        self.producer_id = self.epoch = -1

    async def join(self, batch: int, name: str = "0") -> Any:
        request = OdradekJoinQueryRequest(self.query, self.run, batch, name)
        response = await self.raw.ask(OwnApiKey.ODRADEK_JOIN_QUERY, 0, request)
        self.transactional_id = response.transactional_id
        return response

    async def write(self, batch: int, name: str, *values: bytes, partition: int = 0) -> Participant:
        """Join, begin a transaction and write to topic t."""
        assert (await self.join(batch, name)).error_code == 0
        request = InitProducerIdRequest(self.transactional_id, 60_000)
        ask = partial(self.raw.ask, ApiKey.INIT_PRODUCER_ID, 4, request)
        answer = await accepted(ask, ErrorCode.CONCURRENT_TRANSACTIONS)
        assert answer.error_code == 0
        settings = {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch, "base_sequence": 0}
        written = batch_of(*values, transactional=True, **settings)
        produced = await self.raw.produce("t", written, partition, 12, transactional_id=self.transactional_id)
        assert produced.error_code == 0
        return Participant(self.transactional_id, answer.producer_id, answer.producer_epoch)

    async def end(self, batch: int, *participants: Participant, commit: bool = True) -> Any:
        request = OdradekEndQueryBatchRequest(self.query, self.run, batch, commit, list(participants))
        return await self.raw.ask(OwnApiKey.ODRADEK_END_QUERY_BATCH, 0, request)


async def visible(raw: Raw, partition: int = 0) -> list[bytes | None]:
    """Return what a read_committed reader sees."""
    found: list[bytes | None] = []
    position = end = 0
    aborted: list[tuple[int, int]] = []
    while position == 0 or position < end:
        answer = await raw.fetch("t", position, partition, isolation_level=1)
        aborted += [(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()]
        end = answer.last_stable_offset
        for batch in batches_of(answer.records or b""):
            header = read_header(batch)
            position = header.next_offset
            if header.is_control:
                aborted = [each for each in aborted if each[0] != header.producer_id or each[1] > header.base_offset]
            elif not any(who == header.producer_id and since <= header.base_offset for who, since in aborted):
                found += [record.value for record in decode_batch(batch)]
        if not answer.records:
            break
    return found


def batches_of(data: Any) -> Iterator[memoryview]:
    rest = memoryview(data)
    while rest:
        size = read_header(rest).size_bytes
        yield rest[:size]
        rest = rest[size:]


async def described(raw: Raw, *query_ids: str) -> list[Any]:
    request = OdradekDescribeQueriesRequest(list(query_ids) or None)
    return (await raw.ask(OwnApiKey.ODRADEK_DESCRIBE_QUERIES, 0, request)).queries


@pytest.fixture
async def t(raw: Raw) -> None:
    await raw.create_topic("t", 2)


@pytest.mark.usefixtures("t")
async def test_all_tasks_of_a_batch_commit_together(raw: Raw) -> None:
    task = Task(raw)
    first = await task.write(0, "0", b"one", b"two")
    second = await task.write(0, "1", b"three", partition=1)
    assert (await visible(raw), await visible(raw, 1)) == ([], [])
    ended = await task.end(0, first, second)
    assert (ended.error_code, ended.was_done) == (0, False)
    assert (await visible(raw), await visible(raw, 1)) == ([b"one", b"two"], [b"three"])


@pytest.mark.usefixtures("t")
async def test_a_batch_that_comes_again_changes_nothing(raw: Raw) -> None:
    task, again = Task(raw), Task(raw, run="b")
    await task.end(0, await task.write(0, "0", b"one"))
    joined = await again.join(0)
    assert (joined.error_code, joined.is_done, joined.transactional_id) == (0, True, "")
    ended = await again.end(0)
    assert (ended.error_code, ended.was_done) == (0, True)
    assert await visible(raw) == [b"one"]


@pytest.mark.usefixtures("t")
async def test_what_was_written_for_a_batch_that_was_done_is_aborted(raw: Raw) -> None:
    task = Task(raw)
    first = await task.write(0, "0", b"one")
    late = await task.write(0, "0.again", b"one again", partition=1)
    await task.end(0, first)
    ended = await task.end(0, late)
    assert (ended.error_code, ended.was_done) == (0, True)
    assert (await visible(raw), await visible(raw, 1)) == ([b"one"], [])
    assert (await raw.fetch("t", 0, 1, isolation_level=1)).last_stable_offset == 2


@pytest.mark.usefixtures("t")
async def test_an_attempt_that_no_commit_names_is_aborted(raw: Raw) -> None:
    task = Task(raw)
    first = await task.write(0, "0.0", b"one")
    await task.write(0, "0.1", b"the same again")
    await task.end(0, first)
    assert await visible(raw) == [b"one"]
    assert (await raw.fetch("t", 0, isolation_level=1)).last_stable_offset == 4


@pytest.mark.usefixtures("t")
async def test_a_new_batch_ends_what_the_one_before_left_open(raw: Raw) -> None:
    task = Task(raw)
    await task.write(0, "0.0", b"left open")
    await task.write(1, "0.1", b"one")
    # An abort marker stands between the two.
    assert (await raw.fetch("t", 0, isolation_level=1)).last_stable_offset == 2


@pytest.mark.usefixtures("t")
async def test_a_new_run_ends_what_the_one_before_left_open_and_fences_it(raw: Raw) -> None:
    old, new = Task(raw, run="old"), Task(raw, run="new")
    left = await old.write(0, "0.0", b"of the old run")
    first = await new.write(0, "0.1", b"one")
    fenced = await old.end(0, left)
    assert fenced.error_code == ErrorCode.PRODUCER_FENCED
    assert fenced.error_message == "run old may not write to query q any more: run new has it now"
    assert (await old.join(0)).error_code == ErrorCode.PRODUCER_FENCED
    assert (await new.end(0, first)).error_code == 0
    assert await visible(raw) == [b"one"]


@pytest.mark.usefixtures("t")
async def test_no_task_of_a_run_begins_anything_once_its_driver_has_aborted(raw: Raw) -> None:
    task = Task(raw)
    name = (await task.join(0)).transactional_id
    request = InitProducerIdRequest(name, 60_000)
    given = await raw.ask(ApiKey.INIT_PRODUCER_ID, 4, request)
    assert (await task.end(0, commit=False)).error_code == 0
    assert (await task.join(0)).error_code == ErrorCode.PRODUCER_FENCED
    assert (await raw.ask(ApiKey.INIT_PRODUCER_ID, 4, request)).error_code == ErrorCode.PRODUCER_FENCED
    settings = {"producer_id": given.producer_id, "producer_epoch": given.producer_epoch, "base_sequence": 0}
    late = batch_of(b"late", transactional=True, **settings)
    produced = await raw.produce("t", late, 0, 12, transactional_id=name)
    assert produced.error_code == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.usefixtures("t")
async def test_one_transaction_that_is_not_open_makes_all_of_the_batch_fail(raw: Raw) -> None:
    task = Task(raw)
    good = await task.write(0, "0", b"one")
    taken = await task.write(0, "1", b"two", partition=1)
    await task.write(0, "1", b"of another task with the same name", partition=1)
    ended = await task.end(0, good, taken)
    assert ended.error_code == ErrorCode.PRODUCER_FENCED
    assert "is not open any more" in ended.error_message
    assert (await visible(raw), await visible(raw, 1)) == ([], [])
    # The one that was good is still open, and can be aborted.
    assert (await task.end(0, good, commit=False)).error_code == 0
    assert (await raw.fetch("t", 0, isolation_level=1)).last_stable_offset == 2


@pytest.mark.usefixtures("t")
async def test_an_error_while_a_batch_is_prepared_holds_no_participant(
    raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A participant that is held answers no request, and a query that writes takes no commit: for ever."""
    task = Task(raw)
    participants = [await task.write(0, name, b"v") for name in ("0", "1")]
    real, steps = queries.machine.step, 0

    def fail_at_the_second(*arguments: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps == 2:
            raise RuntimeError("planted")
        return real(*arguments)

    with monkeypatch.context() as planted:
        planted.setattr(queries.machine, "step", fail_at_the_second)
        assert (await task.end(0, *participants)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert (await task.end(0, *participants)).error_code == ErrorCode.NONE
    assert await visible(raw) == [b"v", b"v"]


@pytest.mark.usefixtures("t")
async def test_requests_that_fit_no_query_are_rejected(raw: Raw) -> None:
    task, other = Task(raw), Task(raw, query="other")
    one = await task.write(0, "0", b"one")
    invalid = ErrorCode.INVALID_REQUEST
    assert (await task.end(0, one, one)).error_code == invalid
    assert (await other.end(0, one)).error_code == invalid
    assert (await task.end(0, Participant("orders", 1, 0))).error_code == invalid
    for name, batch in (("", 0), ("a/b", 0), ("0", -1), ("x" * 1001, 0)):
        assert (await task.join(batch, name)).error_code == invalid
    assert (await Task(raw, query="").join(0)).error_code == invalid
    assert (await Task(raw, run="").join(0)).error_code == invalid
    many = [Participant(str(number), 1, 0) for number in range(MAX_PARTICIPANTS + 1)]
    assert (await task.end(0, *many)).error_code == invalid


async def test_a_restart_keeps_the_run_and_the_batch(config: BrokerConfig) -> None:
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t", 2)
        task, old = Task(raw, run="new"), Task(raw, run="old")
        await old.join(0)
        await task.end(0, await task.write(0, "0", b"one"))
        left = await task.write(1, "0", b"two")
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        task.raw = old.raw = raw
        (found,) = await described(raw)
        assert (found.query_id, found.run_id, found.committed_batch_id) == ("q", "new", 0)
        assert (found.current_batch_id, found.transactional_ids) == (-1, [left.transactional_id])
        assert (await old.join(1)).error_code == ErrorCode.PRODUCER_FENCED
        assert (await task.join(0)).is_done
        # Joining the batch that was going on ends nothing of it.
        second = await task.write(1, "1", b"three", partition=1)
        assert (await task.end(1, left, second)).error_code == 0
        assert (await visible(raw), await visible(raw, 1)) == ([b"one", b"two"], [b"three"])


@pytest.mark.usefixtures("t")
async def test_queries_are_described(raw: Raw) -> None:
    assert await described(raw) == []
    task = Task(raw)
    await task.end(4, await task.write(4, "0", b"one"))
    opened = await task.write(5, "0", b"two")
    await Task(raw, query="other").join(0)
    assert sorted(each.query_id for each in await described(raw)) == ["other", "q"]
    (found,) = await described(raw, "q", "unknown")
    assert (found.run_id, found.committed_batch_id, found.current_batch_id) == ("a", 4, 5)
    assert found.transactional_ids == [opened.transactional_id]


@pytest.mark.usefixtures("t")
async def test_a_query_that_was_silent_for_long_is_forgotten(broker: Broker, raw: Raw) -> None:
    task = Task(raw)
    await task.end(0, await task.write(0, "0", b"one"))
    await task.write(1, "0", b"two")
    queries = broker.services.transactions.queries
    list(queries.expire(0))
    assert [each.query_id for each in await described(raw)] == ["q"], "a transaction of it is open"
    await task.end(1, commit=False)
    await Task(raw, run="next").join(1)
    list(queries.expire(0))
    assert await described(raw) == []


@pytest.mark.parametrize("count", [51, 300])
async def test_a_batch_of_many_tasks_ends_together(raw: Raw, count: int) -> None:
    await raw.create_topic("t", 2)
    task = Task(raw)
    found = [await task.write(0, str(number), b"%d" % number, partition=number % 2) for number in range(count)]
    assert (await task.end(0, *found)).error_code == 0
    await raw.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(None, 60_000))
    seen = [*await visible(raw), *await visible(raw, 1)]
    while len(seen) < count:
        seen = [*await visible(raw), *await visible(raw, 1)]
    assert sorted(seen) == sorted(b"%d" % number for number in range(count))


@pytest.mark.usefixtures("t")
async def test_a_task_that_runs_on_after_an_abort_leaves_nothing_open(raw: Raw) -> None:
    task, again = Task(raw), Task(raw, run="b")
    await task.join(0, "late")
    name = task.transactional_id
    first = await raw.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(name, 60_000))
    assert (await task.end(0, commit=False)).error_code == 0
    settings = {"producer_id": first.producer_id, "producer_epoch": first.producer_epoch, "base_sequence": 0}
    late = batch_of(b"late", transactional=True, **settings)
    assert (await raw.produce("t", late, 0, 12, transactional_id=name)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    later = await raw.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(name, 60_000))
    assert later.error_code == ErrorCode.PRODUCER_FENCED
    assert (await task.join(0, "later")).error_code == ErrorCode.PRODUCER_FENCED
    await again.end(0, await again.write(0, "0", b"one"))
    assert await visible(raw) == [b"one"]


@pytest.mark.usefixtures("t")
async def test_a_task_that_joins_after_the_abort_of_its_run_is_fenced(raw: Raw) -> None:
    task, other, again = Task(raw), Task(raw, run="b"), Task(raw, run="c")
    # The driver may give up before any task has reached the broker.
    assert (await task.end(0, commit=False)).error_code == 0
    assert (await task.join(0, "late")).error_code == ErrorCode.PRODUCER_FENCED
    assert (await other.end(0, commit=False)).error_code == 0
    assert (await other.join(0, "late")).error_code == ErrorCode.PRODUCER_FENCED
    await again.end(0, await again.write(0, "0", b"one"))
    assert await visible(raw) == [b"one"]


@pytest.mark.usefixtures("t")
async def test_the_abort_of_an_old_run_does_not_end_a_newer_one(raw: Raw) -> None:
    old, new = Task(raw, run="old"), Task(raw, run="new")
    await old.join(0)
    written = await new.write(0, "0", b"one")
    assert (await old.end(0, commit=False)).error_code == 0
    assert (await new.end(0, written)).error_code == 0
    assert await visible(raw) == [b"one"]
