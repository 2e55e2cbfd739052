"""Checkpoints that are due soon, while a disk takes its time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from odradek.broker.configs.broker_config import BrokerConfig
from odradek.broker.log_dirs.checkpoint_writer import CheckpointWriter
from odradek.broker.log_dirs.log_dirs import Checkpoint

SLOW, FAST = Path("slow"), Path("fast")


class Surroundings:
    """A timer that is rung by hand, and work of which each directory's is done by hand."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []
        self.under_way: dict[Path, Callable[[], None]] = {}
        self.written: list[tuple[Path, int]] = []
        self.taken = 0
        me = cast("Any", self)
        self.writer = CheckpointWriter(BrokerConfig(), me, me, me, self._take)

    def _take(self) -> Checkpoint:
        self.taken += 1
        written, number = self.written, self.taken
        return Checkpoint({each: lambda each=each: written.append((each, number)) for each in (SLOW, FAST)})

    def after(self, delay_ms: int, callback: Callable[[], None]) -> None:
        self.due.append(callback)

    def run(self, work: Callable[[], None], directory: Path, failed: str, kind: object) -> None:
        self.under_way[directory] = work

    def ring(self) -> None:
        due, self.due = self.due, []
        for each in due:
            each()

    def do(self, directory: Path) -> None:
        self.under_way.pop(directory)()


def test_a_disk_that_hangs_holds_up_no_checkpoint_of_another() -> None:
    around = Surroundings()
    around.writer.write_in_background()
    around.do(FAST)
    around.writer.write_soon()
    around.ring()
    around.do(FAST)
    assert around.written == [(FAST, 1), (FAST, 2)]
    for _ in range(5):
        around.ring()
    assert not around.under_way.keys() - {SLOW}
    around.do(SLOW)
    around.ring()
    around.do(SLOW)
    assert around.written[2:] == [(SLOW, 1), (SLOW, 3)]
    assert not around.due


def test_slow_disks_do_not_keep_one_another_busy() -> None:
    around = Surroundings()
    around.writer.write_in_background()
    around.writer.write_soon()
    for each in (SLOW, FAST):
        around.ring()
        around.do(each)
    around.ring()
    assert around.under_way.keys() == {SLOW, FAST}
    assert not around.due
