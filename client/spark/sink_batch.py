"""The part of the sink that is exactly once: a batch of a query is one transaction over all tasks.

    task      joins the batch, writes in a transaction of its own, and leaves it open: TaskResult
    driver    commits the transactions of all tasks by one request, or aborts them

Only Odradek has these requests (docs/decisions/0022). Elsewhere, and with `transactional=never`, a task writes at least
once. A batch that was committed before is not written again, so a driver may play it again after a crash at any point.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ...protocol.errors import KafkaError
from ..core.backoff import Backoff
from ..core.clock import monotonic_ms
from ..core.cluster import Cluster
from ..core.options import ClusterOptions
from ..core.security import SecurityOptions
from ..errors import NoBrokerReachable
from ..producer.transactions.query_batches import QueryBatches, has_query_batches
from ..producer.transactions.transactions import OpenTransaction
from .errors import OptionError
from .sink_options import SinkOptions

log = logging.getLogger(__name__)

T = TypeVar("T")

_CLUSTER = (
    "bootstrap_servers",
    "client_id",
    "request_timeout_ms",
    "retry_backoff_ms",
    "retry_backoff_max_ms",
    "metadata_max_age_ms",
)
# Whether this process has said that rows are written at least once.
_said: set[str] = set()


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a task: which batch of which run of a query it writes for."""

    query_id: str
    run_id: str
    batch_id: int
    task: str = ""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a task tells the driver."""

    rows: int
    # None: the rows were written at least once, and nothing is left to do.
    place: Place | None = None
    # None: there were no rows, or the batch was committed before.
    transaction: OpenTransaction | None = None
    was_done: bool = False


@dataclass(frozen=True, slots=True)
class Joined:
    """What a task may do. Without a transactional id there is nothing to write."""

    transactional_id: str | None


async def join(place: Place | None, options: SinkOptions) -> Joined | None:
    """Take part in a batch; None: write at least once.

    Raises OptionError where transactions are required and the brokers do not have them, KafkaError.
    """
    if options.transactional == "never":
        return None
    if place is None:
        return _at_least_once(options, "Spark does not say which query and batch this is")
    cluster = await _open(options)
    try:
        if not await has_query_batches(cluster):
            why = "the brokers do not offer transactions over several tasks, which Odradek alone has"
            return _at_least_once(options, why)
        batches = QueryBatches(cluster, place.query_id, place.run_id)
        return Joined(await batches.join(place.batch_id, place.task))
    finally:
        await cluster.close()


def _at_least_once(options: SinkOptions, why: str) -> None:
    if options.transactional == "required":
        raise OptionError("transactional", f"is 'required', but {why}")
    if why not in _said:
        _said.add(why)
        log.warning("rows are written at least once: %s", why)


def end(results: Sequence[TaskResult], options: SinkOptions, *, commit: bool) -> bool:
    """End the transactions of all tasks together. Return whether the batch was committed before. Raises KafkaError.

    Does nothing for results of tasks that wrote at least once.
    """
    place = next((each.place for each in results if each.place is not None), None)
    if place is None:
        return False
    transactions = [each.transaction for each in results if each.transaction is not None]
    return asyncio.run(_end(place, transactions, options, commit=commit))


async def _end(place: Place, transactions: Sequence[OpenTransaction], options: SinkOptions, *, commit: bool) -> bool:
    cluster = await _open(options)
    try:
        batches = QueryBatches(cluster, place.query_id, place.run_id)
        was_done = await batches.end(place.batch_id, transactions, commit=commit)
        if commit and transactions:
            await _wait_for_markers(batches, transactions)
        return was_done
    finally:
        await cluster.close()


async def _wait_for_markers(batches: QueryBatches, transactions: Sequence[OpenTransaction]) -> None:
    """Return when readers see what was saved. The batch is committed in any case."""
    try:
        await batches.wait_for_markers(transactions)
    except KafkaError as error:
        log.warning("the batch is committed, but readers may not see all of it yet: %s", error.message)


async def reached(attempt: Callable[[], Awaitable[T]], options: SinkOptions) -> T:
    """Return what `attempt` returns once a broker can be reached: one may be starting again.

    Waits for `kafka.max.block.ms`, as Java's producer does. Raises NoBrokerReachable after it.
    """
    given = options.producer
    backoff = Backoff(given["retry_backoff_ms"], given["retry_backoff_max_ms"])
    deadline_ms, failures = monotonic_ms() + _max_block_ms(options), 0
    while True:
        try:
            return await attempt()
        except NoBrokerReachable:
            failures += 1
            pause_ms = backoff.pause_ms(failures)
            if monotonic_ms() + pause_ms > deadline_ms:
                raise
            await asyncio.sleep(pause_ms / 1000)


def _max_block_ms(options: SinkOptions) -> int:
    return options.producer["max_block_ms"]


async def _open(options: SinkOptions) -> Cluster:
    given = {name: value for name, value in options.producer.items() if name in _CLUSTER}
    security = SecurityOptions(**options.security)
    cluster = ClusterOptions(**given, default_api_timeout_ms=_max_block_ms(options), security=security)
    return await reached(lambda: Cluster.open(cluster), options)
