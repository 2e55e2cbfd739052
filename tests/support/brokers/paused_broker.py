"""`odradek serve` that stops where a batch of a query is committed (pause_points.py):

decided        the log says that the batch is committed; no transaction of it has ended
half ended     the transaction of one task has ended, those of others have not

python -m odradek.tests.support.brokers.paused_broker PLACE serve ...
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from odradek.broker.coordination.transactions import queries
from odradek.cli import main
from odradek.tests.support.brokers.pause_points import PLACE, reach
from odradek.tests.support.brokers.process import BrokerProcess

# The broker does not say which batch of Spark it is.
ANY_BATCH = 1 << 30


def settle(held: list[Any], error: Any) -> Iterator[None]:
    """Do as `queries._settle`, with points."""
    reach("decided", ANY_BATCH)
    for number, each in enumerate(held):
        if number:
            reach("half ended", ANY_BATCH)
        each.actor.settle(each.outcome, error)
        # What the actor has begun in its turn of the loop ends in the next ones.
        yield


class PausedBroker(BrokerProcess):
    """A broker with points, for a test that listens at `place`."""

    def __init__(self, folder: Path, place: str) -> None:
        super().__init__(folder, transaction_state_log_num_partitions=5)
        self.place = place

    def program(self) -> list[str]:
        return ["-m", "odradek.tests.support.brokers.paused_broker", self.place]


if __name__ == "__main__":
    os.environ[PLACE] = sys.argv.pop(1)
    queries._settle = settle
    main()
