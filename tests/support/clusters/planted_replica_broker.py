"""`odradek serve` as a member of a cluster, with a planted bug in replication, to test that the checkers find it.

    python planted_replica_broker.py BUG serve ...

The bugs are not in the broker: this process alone replaces correct functions by wrong ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from odradek.broker.cluster.controller import controller
from odradek.broker.replication.follower_log import FollowerLog
from odradek.broker.replication.replica import Replica
from odradek.cli import main


def early() -> None:
    """Acknowledge a batch before any follower has it."""
    Replica.check_after_append = lambda self, offset: True  # type: ignore[method-assign]


def unclean() -> None:
    """Elect leaders that are not in the ISR."""
    true = controller.ControllerMachine

    def wrong(broker_id: int, epoch: int, _: Callable[[], bool]) -> Any:
        return true(broker_id, epoch, lambda: True)

    controller.ControllerMachine = wrong  # type: ignore[misc,assignment]


def untruncated() -> None:
    """Append to a log that has another history, in the place of truncating it."""
    FollowerLog.go_back = FollowerLog.go_back_to = _do_nothing  # type: ignore[method-assign,assignment]


async def _do_nothing(*_: object) -> None:
    return


BUGS: dict[str, Callable[[], None]] = {"early": early, "unclean": unclean, "untruncated": untruncated}


def program(bug: str) -> list[str]:
    """Return what Python runs for a broker with a bug."""
    return ["-m", "odradek.tests.support.clusters.planted_replica_broker", bug]


if __name__ == "__main__":
    BUGS[sys.argv.pop(1)]()
    main()
