"""A catalog that loses, delays, doubles and refuses answers, by script; and what other engines do to a table."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow.parquet as pq
from odradek.client.archive.layout import arrow_schema
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.io.pyarrow import parquet_file_to_data_file

# What a catalog may do with a commit: (applied before the answer, what the answer is).
ANSWERS: dict[str, tuple[bool, Callable[[], Exception]]] = {
    "request lost": (False, lambda: ConnectionError("cut before it arrived")),
    "answer lost": (True, lambda: ConnectionError("cut after it was applied")),
    "state unknown": (False, lambda: CommitStateUnknownException("502")),
    "state unknown, applied": (True, lambda: CommitStateUnknownException("504")),
    "busy": (False, lambda: OSError("429")),
    "busy, applied": (True, lambda: OSError("503")),
    "conflict without one": (False, lambda: CommitFailedException("409")),
    "conflict of its own": (True, lambda: CommitFailedException("409: a proxy sent it twice")),
}
KINDS = (*ANSWERS, "delayed until the look", "delayed until the second try", "applied twice")


class FaultyCatalog:
    """A catalog behind which another one does the work."""

    def __init__(self, catalog: Any, *kinds: str) -> None:
        self._catalog = catalog
        self.kinds = list(kinds)
        # Fails so many looks at a table after a commit that failed.
        self.failing_looks = 0
        self._to_fail = 0
        self._at_look: list[Callable[[], object]] = []
        self._at_commit: list[Callable[[], object]] = []
        # Runs before the next commit, as another program would.
        self.before: Callable[[], object] | None = None
        # What the next looks at a table raise.
        self.away: list[Exception] = []
        # Each runs once a table is loaded, one a load.
        self.beside: list[Callable[[], object]] = []
        self.commits = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def load_table(self, name: Any) -> Any:
        if self.away:
            raise self.away.pop()
        if self._to_fail:
            self._to_fail -= 1
            raise ConnectionError("no answer to a look")
        while self._at_look:
            self._at_look.pop()()
        table = self._catalog.load_table(name)
        if self.beside:
            self.beside.pop(0)()
        return table

    def commit_table(self, *request: Any) -> Any:
        self.commits += 1
        before, self.before = self.before, None
        if before is not None:
            before()
        while self._at_commit:
            self._at_commit.pop()()
        kind = self.kinds.pop(0) if self.kinds else ""
        if kind in ANSWERS:
            applied, answer = ANSWERS[kind]
            if applied:
                self._catalog.commit_table(*request)
            self._to_fail = self.failing_looks
            raise answer()
        if kind.startswith("delayed"):
            later = self._at_look if kind.endswith("look") else self._at_commit
            later.append(lambda: self._late(request))
            raise ConnectionError("cut, and delivered later")
        done = self._catalog.commit_table(*request)
        if kind == "applied twice":
            self._late(request)
        return done

    def _late(self, request: Any) -> None:
        with suppress(CommitFailedException):  # nobody hears the answer
            self._catalog.commit_table(*request)


def compact(table: Any, *, properties: dict[str, str] | None = None) -> bool:
    """Make one file of two of the same partition and day, as another engine would: without our summary."""
    by_place: dict[Any, list[Any]] = {}
    for task in table.scan().plan_files():
        file = task.file
        by_place.setdefault((file.partition[0], file.lower_bounds[1]), []).append(file)
    group = next((each for each in by_place.values() if len(each) > 1), None)
    if group is None:
        return False
    path = f"{table.metadata.location}/data/foreign-{table.metadata.last_sequence_number}.parquet"
    schema = arrow_schema(table.schema())
    with table.io.new_output(path).create() as stream, pq.ParquetWriter(stream, schema) as writer:
        for file in sorted(group, key=lambda each: each.lower_bounds[2]):
            with table.io.new_input(file.file_path).open() as source:
                writer.write_table(pq.read_table(source).cast(schema))
    with table.transaction() as transaction:
        with transaction.update_snapshot(snapshot_properties=properties or {}).overwrite() as changing:
            for file in group:
                changing.delete_data_file(file)
            changing.append_data_file(parquet_file_to_data_file(table.io, transaction.table_metadata, path))
    return True
