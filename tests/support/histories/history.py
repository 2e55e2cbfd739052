"""Histories of transactional producers and consumers, and a check for faults in them.

A history is a list of events with times of the machine's monotonic clock. A writer takes the time before it asks to
commit, a reader after it got a record. So a read with an earlier time than the commit is a fault. `check` needs no
broker: it is a function of the history.

  lost          a record of a committed transaction is missing, or a reader passed over it
  duplicated    a record is there at two offsets, or a reader got it twice
  reordered     records of one producer in one partition are in another order than it sent them
  dirty         a read_committed reader got a record of an aborted transaction, or of one that was not yet to commit
  half-visible  some records of a transaction with an unknown end are there, and some are missing
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

Transaction = tuple[str, int]
"""(producer, number): numbers of a producer ascend."""


class Outcome(Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    # The producer was killed, or its request was not answered.
    UNKNOWN = "unknown"


class Wrote(NamedTuple):
    """A record was acknowledged, or the client took it and reported no error. Values are unique."""

    transaction: Transaction
    partition: int
    value: str


class Committing(NamedTuple):
    """Just before the producer asked to commit."""

    transaction: Transaction
    at_ns: int


class Ended(NamedTuple):
    """The producer was told the outcome of a transaction. A transaction without this event is UNKNOWN."""

    transaction: Transaction
    outcome: Outcome


class Read(NamedTuple):
    """A read_committed reader, which began at offset 0 of the partition, got this record."""

    reader: str
    partition: int
    offset: int
    value: str
    at_ns: int


class Stored(NamedTuple):
    """A read_committed scan at the end, when no transaction is open, found this record."""

    partition: int
    offset: int
    value: str


Event = Wrote | Committing | Ended | Read | Stored


class Fault(NamedTuple):
    kind: str
    what: str


class _Facts:
    """The events of a history by kind."""

    def __init__(self, history: Iterable[Event]) -> None:
        self.written: dict[Transaction, list[Wrote]] = defaultdict(list)
        self.owner: dict[str, Transaction] = {}
        self.asked_ns: dict[Transaction, int] = {}
        self.outcome: dict[Transaction, Outcome] = {}
        self.reads: dict[tuple[str, int], list[Read]] = defaultdict(list)
        self.stored: dict[int, list[Stored]] = defaultdict(list)
        for event in history:
            match event:
                case Wrote():
                    self.written[event.transaction].append(event)
                    self.owner[event.value] = event.transaction
                case Committing():
                    self.asked_ns[event.transaction] = event.at_ns
                case Ended():
                    self.outcome[event.transaction] = event.outcome
                case Read():
                    self.reads[event.reader, event.partition].append(event)
                case Stored():
                    self.stored[event.partition].append(event)

    def outcome_of(self, transaction: Transaction) -> Outcome:
        return self.outcome.get(transaction, Outcome.UNKNOWN)


def check(history: Iterable[Event]) -> list[Fault]:
    """Return every fault in the history, an empty list if it keeps what transactions promise."""
    facts = _Facts(history)
    return [
        *_endings(facts),
        *_stored_once_and_in_order(facts),
        *_never_dirty(facts),
        *_readers_saw_what_is_stored(facts),
    ]


def _endings(facts: _Facts) -> Iterator[Fault]:
    there = {each.value for partition in facts.stored.values() for each in partition}
    for transaction, records in facts.written.items():
        missing = [each.value for each in records if each.value not in there]
        outcome = facts.outcome_of(transaction)
        if outcome is Outcome.COMMITTED and missing:
            yield Fault("lost", f"{missing} of {transaction}, which was committed")
        if outcome is Outcome.UNKNOWN and 0 < len(missing) < len(records):
            yield Fault("half-visible", f"{transaction} is there without {missing}")


def _stored_once_and_in_order(facts: _Facts) -> Iterator[Fault]:
    counts = Counter(each.value for partition in facts.stored.values() for each in partition)
    for value, count in counts.items():
        if count > 1:
            yield Fault("duplicated", f"{value} is stored {count} times")
    rank = {
        each.value: (transaction, number)
        for transaction, records in facts.written.items()
        for number, each in enumerate(records)
    }
    for partition, stored in facts.stored.items():
        last: dict[str, tuple[Transaction, int]] = {}
        for each in sorted(stored, key=lambda one: one.offset):
            if each.value not in rank:
                yield Fault("dirty", f"{each.value} in partition {partition} was never written")
                continue
            place = rank[each.value]
            producer = place[0][0]
            if place < last.get(producer, place):
                yield Fault("reordered", f"{each.value} in partition {partition} at offset {each.offset}")
            last[producer] = place


def _never_dirty(facts: _Facts) -> Iterator[Fault]:
    for partition in facts.stored.values():
        for each in partition:
            owner = facts.owner.get(each.value)
            if owner is not None and facts.outcome_of(owner) is Outcome.ABORTED:
                yield Fault("dirty", f"{each.value} of {owner}, which was aborted, is stored as committed")
    for reads in facts.reads.values():
        for read in reads:
            owner = facts.owner.get(read.value)
            if owner is None:
                yield Fault("dirty", f"{read.reader} read {read.value}, which was never written")
            elif facts.outcome_of(owner) is Outcome.ABORTED:
                yield Fault("dirty", f"{read.reader} read {read.value} of {owner}, which was aborted")
            elif owner not in facts.asked_ns or read.at_ns < facts.asked_ns[owner]:
                yield Fault("dirty", f"{read.reader} read {read.value} before {owner} asked to commit")


def _readers_saw_what_is_stored(facts: _Facts) -> Iterator[Fault]:
    """Check that a reader got each stored record that it has passed exactly once, in order."""
    for (reader, partition), reads in facts.reads.items():
        offsets = [read.offset for read in reads]
        for before, after in pairwise(offsets):
            if after <= before:
                kind = "duplicated" if after in offsets[: offsets.index(before) + 1] else "reordered"
                yield Fault(kind, f"{reader} was handed offset {after} of partition {partition} behind {before}")
        handed = {read.value for read in reads}
        for each in facts.stored[partition]:
            if each.offset <= max(offsets) and each.value not in handed:
                yield Fault("lost", f"{reader} passed over {each.value} at offset {each.offset}")
