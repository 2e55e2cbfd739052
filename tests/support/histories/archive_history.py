"""A random history of an archive: producers, kills at each step, faulty answers, two archivers, foreign maintenance.

After each step the table holds [0, state) of each partition once, and a read of table and log has all that was written
once. At the end the table holds the topic.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from odradek.client.archive import once, parquet_files, places, run, state, union, union_table, upkeep
from odradek.client.archive.run import Archiver
from odradek.client.archive.state import state_of
from odradek.tests.support.clients.archive_world import World, offsets_in, whole
from odradek.tests.support.fakes.faulty_catalog import KINDS, FaultyCatalog, compact

PARTITIONS = 2
# Where a program may be killed: before or after each of these calls.
STEPS: tuple[tuple[Any, str], ...] = (
    (parquet_files.PartitionFiles, "add"),
    (parquet_files.PartitionFiles, "_write"),
    (parquet_files.PartitionFiles, "_open"),
    (parquet_files.PartitionFiles, "_close"),
    (parquet_files.PartitionFiles, "finish"),
    (run, "commit_files"),
    (run, "open_or_create"),
    (places, "check_topic"),
    (state, "ancestors"),
    (once.Once, "_fate"),
)


class Killed(BaseException):
    """The program ends here."""


@contextmanager
def killed_at(step: int, steps: Sequence[tuple[Any, str]] = STEPS) -> Iterator[None]:
    """End the program at this step, counted over both sides of all these calls."""
    left = [step]

    def passed() -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Killed

    def watched(call: Callable[..., Any]) -> Callable[..., Any]:
        def inner(*args: Any, **options: Any) -> Any:
            passed()
            result = call(*args, **options)
            passed()
            return result

        return inner

    before = [(owner, name, getattr(owner, name)) for owner, name in steps]
    try:
        for owner, name, call in before:
            setattr(owner, name, watched(call))
        yield
    finally:
        for owner, name, call in before:
            setattr(owner, name, call)


class ArchiveHistory:
    """A topic and its table, and what happens to them by a seed."""

    def __init__(self, world: World, catalog: Any, topic: str, seed: int) -> None:
        self.chance = random.Random(seed)
        self._world, self._real, self._topic = world, catalog, topic
        self._faulty = FaultyCatalog(catalog)
        self._written = 0
        self._archivers = [self._new() for _ in range(2)]
        self.happened: list[str] = []
        self._fill(new=True)

    def run(self, steps: int) -> None:
        """Do so many steps, and look at the table after each of them."""
        doing: list[tuple[Callable[[], object], int]] = [
            (self._fill, 3), (self._archive, 4), (self._archive_and_die, 4), (self._archive_beside, 2),
            (self._compact, 2), (self._roll_back, 1), (self._expire, 2), (self._keep_up, 2),
        ]  # fmt: skip
        for _ in range(steps):
            (do,) = self.chance.choices([each for each, _ in doing], [weight for _, weight in doing])
            self.happened.append(do.__name__)
            do()
            self.check()
        self._faulty.kinds.clear()
        while self._archivers[0].round().is_committed:
            pass
        table = self._table()
        assert offsets_in(table) == whole(PARTITIONS, self._written // PARTITIONS), self.happened

    def check(self) -> None:
        """Compare the rows of the table with its state."""
        if not self._real.table_exists(self._archivers[0].name):
            return
        table = self._table()
        state = state_of(table)
        found = offsets_in(table)
        for partition in range(PARTITIONS):
            assert found.get(partition, []) == list(range(state.offsets.get(partition, 0))), self.happened
        place = self._real.properties["warehouse"].removeprefix("file://")
        cut = union.cut(place, self._topic, self._world.reading)
        both = union_table.read(lambda: cut, ["partition", "offset"], lambda each: each, lambda *_: True).to_pydict()
        rows = self._written // PARTITIONS
        assert both["partition"] == [each for each in range(PARTITIONS) for _ in range(rows)], self.happened
        assert both["offset"] == [*range(rows)] * PARTITIONS, self.happened

    # -- Steps

    def _fill(self, *, new: bool = False) -> None:
        rows = PARTITIONS * self.chance.randint(1, 5)
        self._world.fill(self._topic, rows, partitions=PARTITIONS, new=new)
        self._written += rows

    def _archive(self) -> None:
        self._faulty.kinds = self.chance.choices(["", *KINDS], k=self.chance.randint(0, 3))
        self._faulty.failing_looks = self.chance.randint(0, 1)
        self.chance.choice(self._archivers).round()

    def _archive_and_die(self) -> None:
        at = self.chance.randrange(2)
        with killed_at(self.chance.randint(1, 40)):
            try:
                self._archivers[at].round()
            except Killed:
                self._archivers[at] = self._new()

    def _archive_beside(self) -> None:
        first, second = self.chance.sample(self._archivers, 2)
        between = self.chance.choice([first.round, self._compact, self._roll_back])
        self._faulty.before = between
        second.round()
        self._faulty.before = None

    def _compact(self) -> None:
        if self._real.table_exists(self._archivers[0].name):
            compact(self._table())

    def _keep_up(self) -> None:
        name = self._archivers[0].name
        if self._real.table_exists(name):
            upkeep.compact(self._faulty, name, min_files=2, timeout_s=5.0)
            upkeep.expire(self._real, name, keep_ms=-1, keep_snapshots=self.chance.randint(1, 5))

    def _roll_back(self) -> None:
        if not self._real.table_exists(self._archivers[0].name):
            return
        table = self._table()
        known = list(state.ancestors(table.metadata))[1:]
        if known:
            table.manage_snapshots().rollback_to_snapshot(self.chance.choice(known).snapshot_id).commit()

    def _expire(self) -> None:
        if not self._real.table_exists(self._archivers[0].name):
            return
        table = self._table()
        ids = [each.snapshot_id for each in table.metadata.snapshots]
        head = table.metadata.current_snapshot_id
        old = [each for each in ids if each != head and self.chance.random() < 0.8]
        if old:
            table.maintenance.expire_snapshots().by_ids(old).commit()

    def _table(self) -> Any:
        return self._real.load_table(self._archivers[0].name)

    def _new(self) -> Archiver:
        return self._world.archiver(self._faulty, self._topic, commit_timeout_s=5.0)
