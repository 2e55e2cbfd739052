"""Transactions of a running producer: the task that sends what the machine asks for, and the calls that wait for it.

One task sends one request at a time. Calls of the user only tell the machine what is wanted, and wait: a call that is
cancelled, or runs out of `max_block_ms`, leaves its request under way, and the next call sees how it ended.

The sender asks `ready` before it drains a queue. `discard_error` says that queued records must fail instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from ...protocol.errors import ErrorCode, KafkaError
from ..core.clock import Backoff
from ..core.cluster import Cluster
from ..core.lifetime import broken_task, retrieve, without_cancelling
from ..errors import (
    ClientStopped,
    ConnectionLost,
    InvalidTransactionState,
    RequestTimedOut,
    TransactionAborted,
    TransactionFailed,
)
from ..record import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from .batch import ProducerBatch
from .partition_queue import PartitionQueue
from .transaction_machine import (
    ENDING,
    Action,
    AddGroup,
    AddPartitions,
    CommitOffsets,
    End,
    Initialize,
    TransactionMachine,
    TransactionState,
    Verdict,
)
from .transaction_requests import OpenTransaction, TransactionRequests

# CONCURRENT_TRANSACTIONS means that markers of the last transaction are being written, which takes milliseconds.
_FIRST_CONCURRENT_PAUSE_MS = 10.0


class Transactions:
    """The transactions of one producer. `flush` waits until no record is queued; `wake` wakes the sender."""

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        transaction_timeout_ms: int,
        max_block_ms: float,
        flush: Callable[[], Awaitable[None]],
        wake: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self.machine = TransactionMachine(transactional_id)
        self._requests = TransactionRequests(cluster, transactional_id, transaction_timeout_ms)
        self._max_block_ms = max_block_ms
        self._flush = flush
        self._wake = wake
        first_ms = min(_FIRST_CONCURRENT_PAUSE_MS, cluster.options.retry_backoff_ms)
        self._concurrent_backoff = Backoff(first_ms, cluster.options.retry_backoff_max_ms)
        self._task: asyncio.Task[None] | None = None
        # Done when the state has left ENDING: the result of the last initialize, commit or abort.
        self._end: asyncio.Future[None] | None = None
        # A commit or an abort whose result no call has returned: the same call again returns it.
        self._unseen: tuple[bool, asyncio.Future[None]] | None = None
        # Why a commit has failed, of which the next `begin` is to tell.
        self._untold: KafkaError | None = None
        # Why the last request failed, for calls that give up; None after one that did not.
        self._last_error: KafkaError | None = None
        # The offsets that wait to be committed, with the futures of their calls.
        self._offsets: dict[CommitOffsets, asyncio.Future[None]] = {}

    # -- Calls of the user

    async def initialize(self) -> None:
        """Get the producer id, which fences earlier producers. Raises ProducerUnusable, RequestTimedOut."""
        self.machine.initialize()
        await self._wait_for_end(self._start_end(), "initialize the transactional id")

    async def begin(self) -> None:
        """Open a transaction; first wait for the end of one that is under way.

        A commit whose end no call has seen may have failed: then that transaction is aborted, and TransactionFailed
        says so, once. Raises InvalidTransactionState, ProducerUnusable, RequestTimedOut too.
        """
        if self._end is not None and self.machine.state in ENDING:
            with suppress(TransactionFailed):  # as the state then says
                await self._wait_for_end(self._end, "end the transaction before")
        if self._unseen is not None and self.machine.state is TransactionState.ABORTABLE_ERROR:
            self._untold = self.machine.error()
            await self._finish(False)
        if (cause := self._untold) is not None:
            self._untold = None
            text = f"the transaction before this one could not be committed, and is aborted: {cause.message}"
            raise TransactionFailed(cause.code, text) from cause
        self.machine.begin()
        self._unseen = None

    async def commit(self) -> None:
        """Send what is queued, then commit. Called again after a time-out or a cancellation, wait for the same commit.

        Raises TransactionFailed, ProducerUnusable, RequestTimedOut, InvalidTransactionState.
        """
        await self._finish(True)

    async def abort(self) -> None:
        """Drop what is queued, then abort. Called again after a time-out or a cancellation, wait for the same abort.

        Raises ProducerUnusable, RequestTimedOut, InvalidTransactionState.
        """
        self._untold = None
        await self._finish(False)

    async def _finish(self, commit: bool) -> None:
        if self._unseen is None or self._unseen[0] is not commit:
            if commit:
                self.machine.commit()
            else:
                self.machine.abort()
                self._drop_offsets(self._aborted())
            self._unseen = commit, self._start_end()
            self._cluster.spawn(self._settle(), "flush for the end of a transaction")
        await self._wait_for_end(self._unseen[1], "commit" if commit else "abort")
        self._unseen = None

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        """Add a group's offsets to the transaction.

        Raises TransactionFailed, ProducerUnusable, RequestTimedOut, InvalidTransactionState.
        """
        self.machine.check_open()
        if not offsets:
            return
        commit = CommitOffsets(group, dict(offsets))
        self.machine.send_offsets(commit)
        done = self._offsets[commit] = self._new_future()
        self._go_on()
        await self._wait_for_end(done, "send offsets")

    async def hand_over(self) -> OpenTransaction | None:
        """Send what is queued, and leave the open transaction to others, who end it. None if nothing was written.

        Raises TransactionFailed, ProducerUnusable, InvalidTransactionState. Afterwards the producer can only be closed.
        """
        self.machine.check_open()
        await self._flush()
        producer = self.machine.hand_over()
        return None if producer is None else OpenTransaction(self.machine.transactional_id, *producer)

    async def stop(self) -> None:
        """Abort an open transaction, or wait for the end of one that is under way, both for at most `max_block_ms`.

        Raises what `commit` and `abort` raise.
        """
        state = self.machine.state
        if state in (TransactionState.IN_TRANSACTION, TransactionState.ABORTABLE_ERROR):
            await self.abort()
        elif state in ENDING and self._end is not None:
            await self._wait_for_end(self._end, "end its transaction")

    def close(self) -> None:
        """Fail the calls that wait: the producer is stopped."""
        error = ClientStopped("the producer was stopped before the transaction ended; its outcome is not known")
        self._resolve(self._end, error)
        self._drop_offsets(error)

    def is_ended(self, number: int) -> bool:
        """Whether a transaction was committed or aborted, or is about to be."""
        return number != self.machine.number or self.machine.state in {*ENDING, TransactionState.READY}

    # -- The sender

    def ready(self, queue: PartitionQueue) -> bool:
        """Whether a queue's next batch may be sent now; if not, what it waits for is under way."""
        machine = self.machine
        if not machine.sends:
            return False
        if queue.producer != machine.producer:
            if queue.in_flight:
                return False
            queue.reset_producer_id(machine.producer)
        if machine.may_write(queue.partition):
            return True
        self._go_on()
        return False

    def discard_error(self) -> KafkaError | None:
        """Return the error of records that must not be sent any more, None while they may be sent."""
        if not self.machine.discards:
            return None
        return self._aborted() if self.machine.state is TransactionState.ABORTING else self.machine.error()

    def batch_failed(self, batch: ProducerBatch, error: KafkaError) -> None:
        """A batch has failed for good."""
        if not isinstance(error, (TransactionAborted, TransactionFailed)):
            self.machine.write_failed(error, sequence_lost=batch.base_sequence >= 0)
            self._notify()

    def _aborted(self) -> TransactionAborted:
        return TransactionAborted(
            f"the transaction of {self.machine.transactional_id!r} was aborted before this was sent"
        )

    # -- The task

    async def _settle(self) -> None:
        """Wait until each record of the transaction is acknowledged or has failed."""
        number = self.machine.number
        await self._flush()
        if number == self.machine.number:
            self.machine.settled()
            self._go_on()

    def _go_on(self) -> None:
        if self._task is None or self._task.done():
            self._task = self._cluster.spawn(self._send_requests(), "transaction requests")
            self._task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """Fail the calls that wait if the task ended by a defect: nothing would answer them any more."""
        if not task.cancelled() and (failure := broken_task(task, "the producer's transactions")) is not None:
            self._resolve(self._end, failure)
            self._drop_offsets(failure)

    async def _send_requests(self) -> None:
        failures = 0
        while (action := self.machine.next_action()) is not None:
            error = await self._attempt(action)
            self._last_error = error
            self._notify()
            if error is None:
                failures = 0
                self._cluster.retries.done(self)
                continue
            self._cluster.retries.failed(self, error)
            failures += 1
            await asyncio.sleep(self.pause_ms(error, failures) / 1000)
        self._cluster.retries.done(self)
        self._notify()

    def pause_ms(self, error: KafkaError, failures: int) -> float:
        """Return the pause after so many failures, the last of them this error."""
        concurrent = error.code is ErrorCode.CONCURRENT_TRANSACTIONS
        backoff = self._concurrent_backoff if concurrent else self._cluster.backoff
        return backoff.pause_ms(failures)

    async def _attempt(self, action: Action) -> KafkaError | None:
        """Send the request of an action once. Return the error after which it is to be tried again, if any."""
        try:
            await self._carry_out(action)
        except (ConnectionLost, RequestTimedOut) as error:
            self.machine.unanswered(action)
            return error
        except KafkaError as error:
            return error if self.machine.failed(action, error) is Verdict.RETRY else None
        return None

    async def _carry_out(self, action: Action) -> None:
        machine, requests = self.machine, self._requests
        match action:
            case Initialize():
                machine.initialized(*await requests.initialize(action))
            case AddPartitions():
                await requests.add_partitions(action, machine.producer)
                machine.partitions_added(action)
            case AddGroup():
                await requests.add_group(action, machine.producer)
                machine.group_added(action)
            case CommitOffsets():
                await requests.commit_offsets(action, machine.producer, machine.version)
                machine.offsets_committed(action)
                self._resolve(self._offsets.pop(action, None), None)
            case End():
                machine.ended(*await requests.end(action, machine.producer, machine.version))

    # -- Waiting

    def _new_future(self) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Retrieved, so that asyncio does not warn if the call that waits was cancelled.
        future.add_done_callback(retrieve)
        return future

    def _start_end(self) -> asyncio.Future[None]:
        self._end = self._new_future()
        self._go_on()
        return self._end

    def _notify(self) -> None:
        """Tell the calls that wait, and the sender, of the machine's state."""
        machine = self.machine
        failed = machine.state in (TransactionState.ABORTABLE_ERROR, TransactionState.FATAL_ERROR)
        if machine.state not in ENDING and machine.state is not TransactionState.IN_TRANSACTION:
            self._resolve(self._end, machine.error() if failed else None)
        if failed:
            self._drop_offsets(machine.error())
        self._wake()

    def _drop_offsets(self, error: KafkaError) -> None:
        dropped, self._offsets = self._offsets, {}
        for future in dropped.values():
            self._resolve(future, error)

    def _resolve(self, future: asyncio.Future[None] | None, error: KafkaError | None) -> None:
        if future is None or future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    async def _wait_for_end(self, end: asyncio.Future[None], what: str) -> None:
        """Wait at most `max_block_ms`. A caller that gives up leaves the request under way."""
        try:
            async with asyncio.timeout(self._max_block_ms / 1000):
                await without_cancelling(end)
        except TimeoutError:
            why = "" if self._last_error is None else f". The last attempt failed: {self._last_error.message}"
            raise RequestTimedOut(
                f"{self.machine.transactional_id!r} could not {what} within max_block_ms ({self._max_block_ms:g}); "
                f"it is tried on: the next call tells how it ended{why}"
            ) from self._last_error


class TransactionScope:
    """One transaction as a context: committed at the end of the block, aborted if the block raises.

    A transaction that the block itself commits or aborts is left unchanged.
    """

    def __init__(self, transactions: Callable[[], Transactions]) -> None:
        self._find = transactions
        self._number: int | None = None

    async def __aenter__(self) -> TransactionScope:
        if self._number is not None:
            raise InvalidTransactionState("a transaction's context is used once: call transaction() for the next")
        transactions = self._find()
        await transactions.begin()
        self._number = transactions.machine.number
        return self

    async def hand_over(self) -> OpenTransaction | None:
        """Send what is queued, and leave the transaction open: the driver of a query commits it together with those of
        other producers. Return what the driver needs, None if nothing was written.

        Raises TransactionFailed, ProducerUnusable, InvalidTransactionState. Afterwards the producer can only be closed.
        """
        handed = await self._find().hand_over()
        self._number = None
        return handed

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is not None:
            return await self._abort(error)
        if (transactions := self._open()) is None:
            return
        try:
            await transactions.commit()
        except TransactionFailed as failure:
            await self._abort(failure)
            raise

    def _open(self) -> Transactions | None:
        """Return the transactions, None where this one has ended. Raises ClientStopped."""
        transactions = self._find()
        return None if self._number is None or transactions.is_ended(self._number) else transactions

    async def _abort(self, error: BaseException) -> None:
        """Abort because of `error`, which stays the one that is raised."""
        try:
            if (transactions := self._open()) is not None:
                await transactions.abort()
        except KafkaError as failure:
            error.add_note(f"the abort failed as well: {failure}")
