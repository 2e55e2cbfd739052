"""Batches of a query: transactions of many producers that commit together, by two requests that Odradek alone has.

    batches = QueryBatches(cluster, query_id, run_id)
    transactional_id = await batches.join(batch_id, task)         # each task; None: the batch was committed before
    ... the task writes in a transaction and hands it over ...
    await batches.end(batch_id, open_transactions, commit=True)   # the driver

A run is one start of the query. The first task of a new run fences the run before. When Spark repeats a stage, attempts
of a task begin to count again while older ones are alive: a task whose name has an open transaction gets another name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ....protocol.messages.odradek_end_query_batch import (
    MAX_PARTICIPANTS,
    OdradekEndQueryBatchRequest,
    OdradekEndQueryBatchResponse,
    Participant,
)
from ....protocol.messages.odradek_join_query import OdradekJoinQueryRequest, OdradekJoinQueryResponse
from ....protocol.schema import Message
from ...core.cluster import Cluster
from ...core.coordinator import TRANSACTION, Coordinator
from .transactions import OpenTransaction

R = TypeVar("R", OdradekJoinQueryResponse, OdradekEndQueryBatchResponse)

# Attempts of one name in a batch that are alive or done: one for each time that Spark repeats the stage.
MAX_NAMESAKES = 10


async def has_query_batches(cluster: Cluster) -> bool:
    """Return whether the brokers have these requests. Raises NoBrokerReachable."""
    return OdradekJoinQueryRequest.KEY in (await cluster.any_connection()).versions


class QueryBatches:
    """The batches of one run of a query."""

    def __init__(self, cluster: Cluster, query_id: str, run_id: str) -> None:
        self._cluster = cluster
        self._query_id = query_id
        self._run_id = run_id
        self._coordinator = Coordinator(cluster, query_id, TRANSACTION)

    async def join(self, batch_id: int, task: str) -> str | None:
        """Return the transactional id that a task has to use, None if the batch was committed before.

        Raises PRODUCER_FENCED for a run that another has taken the place of, INVALID_TXN_STATE for a batch that lies
        before the last one, UnsupportedVersion.
        """
        for number in range(MAX_NAMESAKES):
            transactional_id = await self._join(batch_id, f"{task}.{number}" if number else task)
            if transactional_id is None or not await self._is_open(transactional_id):
                return transactional_id
        why = f"batch {batch_id} of query {self._query_id!r}: {MAX_NAMESAKES} transactions of task {task} are open"
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, f"{why}; the driver ends them when it ends the batch")

    async def _join(self, batch_id: int, task: str) -> str | None:
        request = OdradekJoinQueryRequest(self._query_id, self._run_id, batch_id, task)
        response = await self._request(request, OdradekJoinQueryResponse, f"joining batch {batch_id}")
        return None if response.is_done else response.transactional_id

    async def _is_open(self, transactional_id: str) -> bool:
        """Return whether a task of the same name has an open transaction, which the driver may want to commit."""
        request = DescribeTransactionsRequest([transactional_id])

        async def attempt() -> bool:
            response = await self._coordinator.request(request, DescribeTransactionsResponse)
            (found,) = response.transaction_states
            if ErrorCode.of(found.error_code) is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                self._coordinator.raise_error(found.error_code, f"describing {transactional_id}")
            return found.transaction_state == "Ongoing"

        return await self._cluster.retry(attempt)

    async def end(self, batch_id: int, transactions: Sequence[OpenTransaction], *, commit: bool) -> bool:
        """Commit these transactions together, or abort them. Return whether the batch was committed before.

        In that case they are aborted. Nothing is committed if one of them is not open any more. Raises as `join`, and
        INVALID_REQUEST for more than MAX_PARTICIPANTS to commit.
        """
        if commit and len(transactions) > MAX_PARTICIPANTS:
            why = f"{len(transactions)} tasks have written rows, and at most {MAX_PARTICIPANTS} commit together"
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"batch {batch_id}: {why}: write fewer partitions (coalesce)")
        # An abort ends all that the run has left open, named or not.
        participants = [Participant(*each) for each in transactions[:MAX_PARTICIPANTS]]
        request = OdradekEndQueryBatchRequest(self._query_id, self._run_id, batch_id, commit, participants)
        response = await self._request(request, OdradekEndQueryBatchResponse, f"ending batch {batch_id}")
        return response.was_done

    async def wait_for_markers(self, transactions: Sequence[OpenTransaction]) -> None:
        """Wait until every partition has the markers of a committed batch: readers see all of it from then on.

        Raises KafkaError if that takes longer than `default_api_timeout_ms`. The batch stays committed.
        """
        request = DescribeTransactionsRequest([each.transactional_id for each in transactions])

        async def attempt() -> None:
            response = await self._coordinator.request(request, DescribeTransactionsResponse)
            for each in response.transaction_states:
                self._coordinator.raise_error(each.error_code, f"describing {each.transactional_id}")
                if each.transaction_state == "PrepareCommit":
                    why = f"the markers of {each.transactional_id} are being written"
                    raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, why)

        await self._cluster.retry(attempt)

    async def _request(self, request: Message, kind: type[R], operation: str) -> R:
        async def attempt() -> R:
            response = await self._coordinator.request(request, kind)
            if response.error_message:
                why = f"{operation} of query {self._query_id!r} failed: {response.error_message}"
                raise KafkaError(ErrorCode.of(response.error_code), why)
            self._coordinator.raise_error(response.error_code, operation)
            return response

        return await self._cluster.retry(attempt)
