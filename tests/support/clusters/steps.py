"""The steps of a broker against the model of ZooKeeper, to their end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.testing.zookeeper import FakeZookeeper
from odradek.zookeeper.operations import Operation, Steps


def run_steps(
    zookeeper: FakeZookeeper,
    steps: Steps[Any],
    before: Callable[[Operation], object] = lambda _: None,
    session: int | None = None,
) -> Any:
    """Return what the steps return. `before` is called before each operation, as somebody else may come there."""
    session, result = zookeeper.connect() if session is None else session, None
    while True:
        try:
            operation = steps.send(result)
        except StopIteration as end:
            return end.value
        before(operation)
        result = zookeeper.run(session, operation)
