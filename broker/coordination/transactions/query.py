"""The machine of a query: several transactions, one for each task, that commit together batch by batch. Pure.

A query is what Spark calls a query: a stream, or one batch write. Each start of it is a run. The coordinator keeps the
run that may write and the last batch that was committed, in one record. A batch is committed by one record batch of the
log, which holds this record and the PrepareCommit record of every participant. So all of them commit, or none does, and
a batch that comes again is known.

    join(query, ...)   a task begins: which run may write, and was the batch committed before?
    end(query, ...)    the driver commits the batch
    query.apply(...)   a committed record takes effect, now or while the log is loaded
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from ....protocol.errors import ErrorCode
from ..partition_hash import java_hash, partition_for, partition_of_hash
from .records import NO_TIME

NO_BATCH = -1
# Earlier runs that are remembered. A driver whose run is forgotten could take the query back, which would fence the
# right one; even then no batch is written twice.
MAX_FORMER_RUNS = 32

# The transactional ids of participants are odradek-query/QUERY/TASK/SALT. All of them belong to the partition of
# `__transaction_state` that the query id belongs to, because one record batch commits them. The salt is the first text
# that leads there by Java's hash of the whole id. The coordinator chooses it, so that clients need not know the number
# of partitions.
PREFIX = "odradek-query/"
# Every printable character but the slash. Those that read well come first.
_LETTERS = "".join(chr(code) for code in (*range(48, 58), *range(97, 123), *range(65, 91)))
_REST = "".join(chr(code) for code in range(33, 127) if chr(code) not in _LETTERS + "/")
_ALPHABET = _LETTERS + _REST


class QueryStanding(NamedTuple):
    """The contents of one record."""

    run_id: str
    # Newest first. Invariant: without `run_id`.
    former_runs: tuple[str, ...] = ()
    batch_id: int = NO_BATCH
    update_ms: int = NO_TIME


class QueryRecord(NamedTuple):
    """One record: the standing of a query, or None if it has expired."""

    query_id: str
    standing: QueryStanding | None


class Query:
    """One query."""

    def __init__(self, query_id: str) -> None:
        self.query_id = query_id
        # Invariant: only `apply` sets it.
        self.standing: QueryStanding | None = None
        # The batch that tasks of this run have joined. None: unknown, since the run is new or was loaded.
        self.current_batch: int | None = None
        # Whether the driver of this run has aborted: what its tasks still begin belongs to nothing.
        self.is_aborted = False

    def apply(self, record: QueryRecord) -> None:
        """Let a committed record take effect."""
        before, self.standing = self.standing, record.standing
        if before is None or record.standing is None or before.run_id != record.standing.run_id:
            self.current_batch = None
            self.is_aborted = False


class Joined(NamedTuple):
    """The answer to a task."""

    error: ErrorCode = ErrorCode.NONE
    why: str = ""
    # The batch was committed before.
    is_done: bool = False
    # The record of a new run: append it, apply it, and call `join` again.
    record: QueryRecord | None = None
    # Nothing of the query that is open now belongs to this batch.
    is_new_batch: bool = False


class Ended(NamedTuple):
    """The answer to a driver."""

    error: ErrorCode = ErrorCode.NONE
    why: str = ""
    was_done: bool = False
    # To be appended in one batch with the records of the participants.
    record: QueryRecord | None = None


def join(query: Query, run_id: str, batch_id: int, now_ms: int) -> Joined:
    """Decide whether a task of this run may write to this batch."""
    standing = query.standing
    if standing is None:
        return Joined(record=QueryRecord(query.query_id, QueryStanding(run_id, update_ms=now_ms)))
    if run_id in standing.former_runs:
        return Joined(ErrorCode.PRODUCER_FENCED, _fenced(query, run_id))
    if batch_id < standing.batch_id:
        why = (
            f"batch {batch_id} of query {query.query_id} was committed, and batch {standing.batch_id} after it: "
            "was the checkpoint restored from an older copy? Use a new checkpoint location"
        )
        return Joined(ErrorCode.INVALID_TXN_STATE, why)
    if run_id != standing.run_id:
        former = (standing.run_id, *standing.former_runs)[:MAX_FORMER_RUNS]
        changed = standing._replace(run_id=run_id, former_runs=former, update_ms=now_ms)
        return Joined(record=QueryRecord(query.query_id, changed))
    if query.is_aborted:
        return Joined(ErrorCode.PRODUCER_FENCED, f"run {run_id} of query {query.query_id} was aborted by its driver")
    if batch_id == standing.batch_id:
        return Joined(is_done=True)
    return _join_batch(query, batch_id)


def _join_batch(query: Query, batch_id: int) -> Joined:
    current = query.current_batch
    if current is not None and batch_id < current:
        why = f"a task of batch {batch_id} of query {query.query_id} is late: batch {current} has begun"
        return Joined(ErrorCode.PRODUCER_FENCED, why)
    query.current_batch = batch_id
    return Joined(is_new_batch=current is not None and batch_id > current)


def end(query: Query, run_id: str, batch_id: int, now_ms: int) -> Ended:
    """Decide whether this run may commit this batch now."""
    standing = query.standing
    if standing is None or run_id != standing.run_id:
        return Ended(ErrorCode.PRODUCER_FENCED, _fenced(query, run_id))
    if batch_id <= standing.batch_id:
        return Ended(was_done=True)
    changed = standing._replace(batch_id=batch_id, update_ms=now_ms)
    return Ended(record=QueryRecord(query.query_id, changed))


def has_expired(query: Query, retention_ms: int, now_ms: int) -> bool:
    """Return whether nothing was committed for so long."""
    return query.standing is not None and now_ms - query.standing.update_ms >= retention_ms


def _fenced(query: Query, run_id: str) -> str:
    now = "it has expired" if query.standing is None else f"run {query.standing.run_id} has it now"
    return f"run {run_id} may not write to query {query.query_id} any more: {now}"


def participant_name(query_id: str, task: str, partitions: int) -> str:
    """Return the transactional id of a task. `task` has no slash."""
    stem = f"{PREFIX}{query_id}/{task}/"
    wanted, code = partition_for(query_id, partitions), java_hash(stem)
    for salt in _salts():
        if _partition(code, salt, partitions) == wanted:
            return stem + salt
    raise AssertionError("salts never end")


def query_of(transactional_id: str) -> str | None:
    """Return the query id of a participant, None for another transactional id."""
    if not transactional_id.startswith(PREFIX):
        return None
    parts = transactional_id[len(PREFIX) :].rsplit("/", 2)
    return parts[0] if len(parts) == 3 else None


def _salts() -> Iterator[str]:
    length = 1
    while True:
        yield from map("".join, product(_ALPHABET, repeat=length))
        length += 1


def _partition(code: int, salt: str, partitions: int) -> int:
    """Return `partition_for(stem + salt)`, from the hash of the stem."""
    for letter in salt:
        code = code * 31 + ord(letter)
    return partition_of_hash(code, partitions)
