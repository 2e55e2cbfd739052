"""Archives in a directory: what a commit leads to is on the disk when it is acknowledged, names of folders included."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyiceberg", reason="pip install 'odradek[archive]'")

from odradek.client.archive import upkeep
from odradek.client.archive.layout import place_of
from odradek.client.archive.places import catalog_of
from odradek.client.archive.row_files import RowFiles
from odradek.client.archive.row_tables import commit_rows, open_rows, rows_schema
from odradek.tests.support.clients.archive_world import World, files_in
from sqlalchemy import event, text


class Disk:
    """Which files and names a power cut leaves: those that were forced to the disk, and nothing else."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files: set[str] = set()
        # Folder -> the names in it.
        self.names: dict[str, set[str]] = {}
        real = os.fsync

        def fsync(descriptor: int) -> None:
            path = os.readlink(f"/proc/self/fd/{descriptor}")
            if os.path.isdir(path):
                self.names[path] = set(os.listdir(path))
            else:
                self.files.add(path)
            real(descriptor)

        monkeypatch.setattr(os, "fsync", fsync)

    def has(self, location: str, top: Path) -> bool:
        """Tell whether a file is there after a power cut, and each folder on the way to it from `top`."""
        path = Path(location.removeprefix("file://"))
        way = [path, *(each for each in path.parents if each.is_relative_to(top) and each != top)]
        return str(path) in self.files and all(each.name in self.names.get(str(each.parent), ()) for each in way)


def reached(catalog: Any, name: tuple[str, ...]) -> set[str]:
    """The files that a table leads to."""
    table = catalog.load_table(name)
    found = {table.metadata_location, *files_in(table)}
    for each in table.metadata.snapshots:
        found |= {each.manifest_list, *(manifest.manifest_path for manifest in each.manifests(table.io))}
    return found


@pytest.mark.parametrize("kind", ["topic", "rows"])
def test_a_commit_is_on_the_disk_before_it_is_acknowledged(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    disk = Disk(monkeypatch)
    place = tmp_path / "new" / "archive"
    catalog = catalog_of(str(place), create=True)
    missing: list[str] = []
    committed: list[set[str]] = []

    event.listen(catalog.engine, "commit", lambda _: committed.append(set(disk.files)))
    name, write = _of(kind, world, catalog)
    for _ in range(3):
        write()
        found = reached(catalog, name)
        # Before the last row of SQLite: metadata first, the commit last.
        assert found <= {f"file://{each}" for each in committed[-1]}
        missing += [each for each in found if not disk.has(each, tmp_path)]
    if kind == "topic":
        assert upkeep.compact(catalog, name, min_files=2)
        missing += [each for each in reached(catalog, name) if not disk.has(each, tmp_path)]
    assert missing == []
    assert "catalog.db" in disk.names[str(place)]
    with catalog.engine.connect() as connection:
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 3, "EXTRA"
    catalog.close()


def _of(kind: str, world: World, catalog: Any) -> tuple[tuple[str, ...], Callable[[], object]]:
    if kind == "topic":
        made: list[int] = []

        def archive() -> None:
            world.fill("forced", 2, new=not made)
            made.append(1)
            assert archiver.round().is_committed

        archiver = world.archiver(catalog, "forced")
        return archiver.name, archive
    name = ("air", "delays")

    def rows() -> None:
        batch = pa.RecordBatch.from_pydict({"id": [1]})
        table, _ = open_rows(catalog, name, batch.schema)
        files = RowFiles(place_of(table)._replace(schema=rows_schema(table)), None)
        files.add(batch)
        commit_rows(catalog, name, files.finish())

    return name, rows
