"""A query of Spark in a simulated cluster: read_committed readers see each of its rows once, whatever crashes.

A driver plans a batch, writes the plan into its checkpoint, has tasks write (some twice at once, also under one name),
sends one commit, and notes the batch as complete. Drivers die between any two steps. One that is taken for dead goes on
beside the next one, with the checkpoint that it had. The rows are the numbers 0, 1, 2... A batch is a range of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any

from odradek.client import Producer
from odradek.client.core.cluster import Cluster
from odradek.client.core.options import ClusterOptions
from odradek.client.producer.transaction_requests import OpenTransaction, QueryBatches
from odradek.protocol.errors import ErrorCode, KafkaError

from .history import Checkpoint, Place
from .judge import Log
from .load import ATTEMPT_MS, PARTITIONS, WHOLE, Load

QUERY = "query"
_ATTEMPTS = 4
_PRODUCER: dict[str, Any] = {"max_block_ms": 20_000, "transaction_timeout_ms": 15_000}
_ERRORS = (KafkaError, OSError, TimeoutError)
_FAILED = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "it is killed")


class Query(Load):
    """The drivers of one query. Each begins with the checkpoint of the one before."""

    async def run(self) -> None:
        # The number of the last driver, and of the last one whose run the coordinator knows.
        self.last = self.known = 0
        # How many attempts of tasks there were: no two write the same values.
        self.attempts = 0
        # What runs beside the last driver.
        self._left: list[asyncio.Task[Any]] = []
        await self.until_over(self._next)
        for each in self._left:
            each.cancel()
        await asyncio.gather(*self._left, return_exceptions=True)

    async def _next(self) -> None:
        """Start a driver, and wait until it is dead, or is taken for dead."""
        self.last += 1
        self.history.query = self.history.query.copy()
        driver = self.beside(_Driver(self, self.last, self.history.query).live())
        await asyncio.wait([driver], timeout=self.chance.choice((None, self.chance.uniform(0.5, 4.0))))
        while self.known < self.last and not driver.done():
            # A run that the coordinator hears of later than of the next one would be the new one.
            await asyncio.wait([driver], timeout=0.5)
        # Meanwhile brokers may start again, too.
        await asyncio.sleep(self.chance.choice((0.2, self.chance.uniform(1.0, 4.0))))

    def beside(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Begin what may go on when nobody waits for it any more."""
        task = asyncio.ensure_future(_result(work))
        self._left.append(task)
        return task


async def _result(work: Coroutine[Any, Any, Any]) -> Any:
    """Return what comes of it, or its error: it may be that nobody asks."""
    try:
        return await work
    except _ERRORS as error:
        return error


class _Driver:
    """One run of the query."""

    def __init__(self, query: Query, number: int, checkpoint: Checkpoint) -> None:
        self._query, self._number, self._checkpoint = query, number, checkpoint
        self._chance = query.chance

    async def live(self) -> None:
        query = self._query
        options = ClusterOptions(query.addresses, client_id=query.name, request_timeout_ms=ATTEMPT_MS)
        cluster = await Cluster.open(options)
        self._batches = QueryBatches(cluster, QUERY, f"run{self._number}")
        try:
            while not query.is_over:
                await self._batch()
                await asyncio.sleep(self._chance.expovariate(query.rate))
        except _ERRORS as error:
            query.world.tell(query.name, f"driver {self._number} dies: {error}")
        finally:
            await cluster.close()

    async def _batch(self) -> None:
        query, plan, batch = self._query, self._checkpoint, self._checkpoint.complete
        while query.known < query.last != self._number:
            # The next one has what is planned now, and plans on.
            await asyncio.sleep(0.1)
        start = plan.ends[batch - 1] if batch else 0
        if batch == len(plan.ends):
            plan.ends.append(start + self._chance.randint(1, 6))
        rows, parts = range(start, plan.ends[batch]), self._chance.randint(1, 3)
        tasks = [query.beside(self._task(batch, part, rows[part::parts])) for part in range(parts)]
        found = [await each for each in tasks]
        failed = next((each for each in found if isinstance(each, Exception)), None)
        if failed is not None or self._chance.random() < 0.05:
            await self._batches.end(batch, (), commit=False)
            query.known = max(query.known, self._number)
            raise failed or _FAILED
        was_done = await self._batches.end(batch, [each for each in found if each], commit=True)
        said = f"batch {batch} (rows {start} to {plan.ends[batch]}) of driver {self._number}"
        query.world.tell(query.name, f"{said} {'was committed before' if was_done else 'is committed'}")
        query.history.counts["batches of a query"] += 1
        if self._chance.random() < 0.25:
            # Before the batch is noted as complete.
            raise _FAILED
        plan.complete += 1

    async def _task(self, batch: int, part: int, rows: Sequence[int]) -> OpenTransaction | None:
        """Run a task as Spark does: it is attempted again, and some attempts have others beside them."""
        for attempt in range(_ATTEMPTS):
            others = [
                self._query.beside(self._attempt(batch, f"{part}.{number}", rows))
                # Speculation; a stage that is repeated, whose attempts have the names of those before.
                for number in (attempt + 10, attempt)
                if self._chance.random() < 0.2
            ]
            found = [await _result(self._attempt(batch, f"{part}.{attempt}", rows))]
            found += [each.result() for each in others if each.done()]
            good = [each for each in found if not isinstance(each, Exception)]
            if good:
                return self._chance.choice(good)
        raise _FAILED

    async def _attempt(self, batch: int, name: str, rows: Sequence[int]) -> OpenTransaction | None:
        """Write rows, and return the open transaction. None: nothing is to be committed."""
        query = self._query
        fails = self._chance.random() < 0.1
        transactional_id = await self._batches.join(batch, name)
        query.known = max(query.known, self._number)
        if transactional_id is None:
            return None
        query.attempts += 1
        end = b"%d.%d" % (self._number, query.attempts)
        async with Producer(query.addresses, transactional_id=transactional_id, **_PRODUCER) as producer:
            async with producer.transaction() as transaction:
                for row in rows[: self._chance.randint(0, len(rows))] if fails else rows:
                    await producer.send(WHOLE, b"query/%d/%s" % (row, end), partition=row % PARTITIONS)
                handed = await transaction.hand_over()
        if fails:
            raise _FAILED
        return handed


def check_query(checkpoint: Checkpoint, committed: Mapping[Place, Log]) -> Iterator[str]:
    """Check that each row is seen once, up to the end of a batch, and of all that the last driver knows as complete."""
    values = (value for log in committed.values() for _, value in log if value.startswith(b"query/"))
    rows = sorted(int(value.split(b"/")[1]) for value in values)
    least = checkpoint.ends[checkpoint.complete - 1] if checkpoint.complete else 0
    if rows != list(range(len(rows))):
        yield f"the rows of a query are not there once each: {rows}"
    elif len(rows) < least or len(rows) not in (0, *checkpoint.ends):
        yield f"{len(rows)} rows of a query are seen: its batches end at {checkpoint.ends}, {least} are complete"
