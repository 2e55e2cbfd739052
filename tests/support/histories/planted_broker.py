"""`odradek serve` with a planted bug, to test that the checker of histories finds it.

    python planted_broker.py BUG serve ...

The bugs are not in the broker: this process alone replaces correct functions by wrong ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from odradek.broker.topics.partition import Partition
from odradek.cli import main
from odradek.protocol.records import batch
from odradek.protocol.records.control import ControlType
from odradek.storage.segments.location import AbortedLookup
from odradek.storage.segments.transaction_index import AbortedTransaction
from odradek.tests.support.brokers.process import BrokerProcess


def lost() -> None:
    """Report the transactions of the first producer as aborted, also committed ones."""
    true = AbortedLookup.reaching_into

    def wrong(self: Any, segments: Any, end_offset: int, offset: int, *fetched: Any, **how: Any) -> Any:
        found = true(self, segments, end_offset, offset, *fetched, **how)
        return [AbortedTransaction(0, offset, offset, offset), *found]

    AbortedLookup.reaching_into = wrong  # type: ignore[method-assign,assignment]


def dirty() -> None:
    """Hide aborted transactions from readers."""
    AbortedLookup.reaching_into = lambda *_, **__: []  # type: ignore[method-assign,assignment]


def early() -> None:
    """Let readers read past the last stable offset."""
    Partition.last_stable_offset = property(lambda self: self.high_watermark)  # type: ignore[assignment,method-assign]


def duplicated() -> None:
    """Append a batch of a transaction twice."""
    true = Partition._write

    def wrong(self: Any, records: memoryview, header: Any, now_ms: int, marker: Any = None) -> Any:
        if self.topic == "history" and marker is None:
            true(self, records, header, now_ms)
        return true(self, records, header, now_ms, marker)

    Partition._write = wrong  # type: ignore[method-assign]


def reordered() -> None:
    """Reverse the records of a batch."""
    true = Partition._write

    def wrong(self: Any, records: memoryview, header: Any, now_ms: int, marker: Any = None) -> Any:
        if self.topic != "history" or marker is not None:
            return true(self, records, header, now_ms, marker)
        turned = batch.encode_batch(
            [record._replace(offset=-1) for record in batch.decode_batch(records, 0)[::-1]],
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            transactional=True,
        )
        return true(self, memoryview(bytearray(turned)), batch.read_header(turned), now_ms)

    Partition._write = wrong  # type: ignore[method-assign]


def half_visible() -> None:
    """Write abort markers of committed transactions to odd partitions."""
    true = Partition.append_marker

    def wrong(self: Any, producer_id: int, producer_epoch: int, marker: Any, *more: Any) -> Any:
        if self.index % 2:
            marker = marker._replace(type=ControlType.ABORT)
        return true(self, producer_id, producer_epoch, marker, *more)

    Partition.append_marker = wrong  # type: ignore[method-assign]


BUGS: dict[str, Callable[[], None]] = {
    "lost": lost,
    "dirty": dirty,
    "early": early,
    "duplicated": duplicated,
    "reordered": reordered,
    "half-visible": half_visible,
}


class PlantedBroker(BrokerProcess):
    """A broker with one of `BUGS`."""

    def __init__(self, bug: str, folder: Path, **settings: object) -> None:
        super().__init__(folder, **settings)
        self.bug = bug

    def program(self) -> list[str]:
        return ["-m", "odradek.tests.support.histories.planted_broker", self.bug]


if __name__ == "__main__":
    BUGS[sys.argv.pop(1)]()
    main()
