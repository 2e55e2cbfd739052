"""The transactions during a cleaning: which batches were aborted, and which markers can go.

A cleaning reads a log from its start in the order of offsets, and knows the aborted transactions beforehand. The data
of an aborted transaction goes. A marker stays as long as the log holds a batch of its transaction, even an empty one.
After that it goes at its delete horizon, as a tombstone does. (Kafka's CleanedTransactionMetadata; KIP-98, KIP-534.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

from ...protocol.records.batch import BatchHeader
from ...protocol.records.control import ControlType
from ..segments.transaction_index import AbortedTransaction


@dataclass(slots=True)
class _Aborted:
    """An aborted transaction whose marker has not been read yet."""

    entry: AbortedTransaction
    has_batches: bool = False


class CleanedTransactions:
    """`aborted`: the aborted transactions that begin in the part of the log that is read."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._coming = deque(sorted(aborted, key=attrgetter("first_offset")))
        self._aborted: dict[int, _Aborted] = {}  # by producer id
        self._committed: set[int] = set()  # producers that have batches in a transaction that was not aborted
        self.kept: list[AbortedTransaction] = []  # transactions for the transaction index of the cleaned segment

    def is_aborted(self, header: BatchHeader) -> bool:
        """Note a batch of data; return whether its transaction was aborted."""
        self._begin(header.last_offset)
        if not header.is_transactional:
            return False
        aborted = self._aborted.get(header.producer_id)
        if aborted is None:
            self._committed.add(header.producer_id)
            return False
        aborted.has_batches = True
        return True

    def is_spent(self, header: BatchHeader, kind: ControlType | None) -> bool:
        """Note a control batch (`kind` None: it is empty); return whether the data of its transaction is gone."""
        self._begin(header.last_offset)
        if kind is None:
            return True
        if kind is ControlType.COMMIT:
            spent = header.producer_id not in self._committed
            self._committed.discard(header.producer_id)
            return spent
        if kind is not ControlType.ABORT:
            return False
        aborted = self._aborted.pop(header.producer_id, None)
        if aborted is None or not aborted.has_batches:
            return True
        self.kept.append(aborted.entry)
        return False

    def _begin(self, offset: int) -> None:
        while self._coming and self._coming[0].first_offset <= offset:
            entry = self._coming.popleft()
            self._aborted.setdefault(entry.producer_id, _Aborted(entry))
