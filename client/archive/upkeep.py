"""The upkeep of an archive: check its offsets, make large files of small ones, and expire old snapshots.

    check     each offset once and none beyond the state, by the bounds in the manifests; rows are read where these meet
    compact   small files of one partition and day, next to each other in offsets -> one file; the state goes along
    expire    old snapshots go, then the files that only they named, then files that no commit can name any more

Compaction replaces files of archivers alone: those of other engines may have columns of their own.

Promise: a file is deleted only if no snapshot of the table names it, and none ever will. Its age says nothing of that.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow.compute
import pyarrow.fs
import pyarrow.parquet
from pyiceberg.io.pyarrow import PyArrowFileIO, parquet_file_to_data_file

from . import ArchiveError
from .layout import DAY_FIELD, arrow_schema
from .once import COMMIT_TIMEOUT_S, Moved, Once
from .parquet_files import TARGET_BYTES, base_of, compacted_name, parquet_writer, parsed_name, sync
from .run import Archiver
from .state import STATE_KEY, Bounds, State, bounds_of, state_of

log = logging.getLogger(__name__)

# So many small files of a day are worth a new one.
MIN_FILES = 8
# A commit of a compaction rewrites no more than this.
_COMPACTED_BYTES = 512 << 20
# Snapshots that stay: readers of an older one have this time, and so many commits.
KEEP_MS, KEEP_SNAPSHOTS = 24 * 3_600_000, 10
_PARQUET: Any = pyarrow.parquet
_COMPUTE: Any = pyarrow.compute


@dataclass(frozen=True, slots=True)
class _File:
    """A data file of the head, with its bounds and its day."""

    entry: Any
    bounds: Bounds
    day: int

    @property
    def path(self) -> str:
        return self.entry.file_path


def files_of(table: Any) -> list[_File]:
    """Return the files of a table's head. Raises ArchiveError where rows of them are deleted."""
    found: list[_File] = []
    for task in table.scan().plan_files():
        if task.delete_files:
            why = "another engine has deleted rows by delete files, which are not understood here"
            raise ArchiveError(f"the table at {table.metadata.location}: {why}")
        found.append(_File(task.file, bounds_of(task.file, table.metadata), task.file.partition[0]))
    return found


# Commits of an archiver from one upkeep to the next.
_COMMITS = 25


def keep_up(archiver: Archiver) -> None:
    """Compact and expire after each so many commits of an archiver: between its commits, so that none conflicts."""
    if archiver.commits % _COMMITS == 0:
        compact(archiver.catalog, archiver.name, timeout_s=archiver.options.commit_timeout_s)
        expire(archiver.catalog, archiver.name)


# -- Check


def check(table: Any) -> Iterator[str]:
    """Yield what is wrong with the offsets of a table. Raises ArchiveError where it cannot be looked at."""
    state = state_of(table)
    files = files_of(table)
    for each in files:
        bounds = each.bounds
        for partition in range(bounds.partition, bounds.last_partition + 1):
            if bounds.last >= state.offsets.get(partition, 0) and bounds.partition == bounds.last_partition:
                yield f"{each.path} has offset {bounds.last} of partition {partition}, beyond the state of the table"
    for group in _meeting(files):
        yield from _doubles(table, group)


def _meeting(files: Sequence[_File]) -> Iterator[list[_File]]:
    """Yield files whose bounds of partition and offset meet: their rows may, too."""
    mixed = any(each.bounds.partition != each.bounds.last_partition for each in files)
    group: list[_File] = []
    place, end = -1, -1
    for each in sorted(files, key=lambda file: (0 if mixed else file.bounds.partition, file.bounds.first)):
        at = 0 if mixed else each.bounds.partition
        if at != place or each.bounds.first > end:
            if len(group) > 1:
                yield group
            group, place, end = [], at, -1
        group.append(each)
        end = max(end, each.bounds.last)
    if len(group) > 1:
        yield group


def _doubles(table: Any, group: Sequence[_File]) -> Iterator[str]:
    parts = [_read(table, each.path, ["partition", "offset"]) for each in group]
    rows = pyarrow.concat_tables(parts).group_by(["partition", "offset"]).aggregate([([], "count_all")])
    for row in rows.filter(_COMPUTE.greater(rows["count_all"], 1)).slice(0, 10).to_pylist():
        yield f"offset {row['offset']} of partition {row['partition']} is there {row['count_all']} times"


def _read(table: Any, path: str, columns: list[str]) -> Any:
    with table.io.new_input(path).open() as source:
        return _PARQUET.read_table(source, columns=columns)


# -- Compaction


def compact(
    catalog: Any, name: tuple[str, ...], *, min_files: int = MIN_FILES, target_bytes: int = TARGET_BYTES,
    timeout_s: float = COMMIT_TIMEOUT_S,
) -> int:  # fmt: skip
    """Replace small files by large ones, in one commit. Return how many are gone: 0 if another commit came first."""
    table = catalog.load_table(name)
    state = state_of(table)
    groups = _bounded(_small(files_of(table), min_files, target_bytes))
    if not groups:
        return 0
    base = table.metadata.current_snapshot_id
    made = [_merged(table, group, base) for group in groups]
    table.catalog = Once(catalog, timeout_s)
    try:
        with table.transaction() as transaction:
            with transaction.update_snapshot(snapshot_properties={STATE_KEY: state.text()}).overwrite() as changing:
                for each in (file for group in groups for file in group):
                    changing.delete_data_file(each.entry)
                for path in made:
                    changing.append_data_file(parquet_file_to_data_file(table.io, transaction.table_metadata, path))
    except Moved:
        log.info("another commit to %s came before the compaction", ".".join(name))
        return 0
    return sum(map(len, groups))


def _small(files: Sequence[_File], min_files: int, target_bytes: int) -> Iterator[list[_File]]:
    """Yield small files of one partition and day that are next to each other in the order of offsets."""
    group: list[_File] = []
    size = 0
    for each in sorted(files, key=lambda file: (file.bounds.partition, file.day, file.bounds.first)):
        is_next = bool(group) and _follows(group[-1], each) and size + each.entry.file_size_in_bytes <= target_bytes
        if not is_next or not _is_ours(each):
            if len(group) >= min_files:
                yield group
            group, size = [], 0
        if _is_ours(each) and each.entry.file_size_in_bytes < target_bytes // 2:
            group.append(each)
            size += each.entry.file_size_in_bytes
    if len(group) >= min_files:
        yield group


def _follows(before: _File, after: _File) -> bool:
    is_same = (before.bounds.partition, before.day) == (after.bounds.partition, after.day)
    return is_same and before.bounds.last < after.bounds.first


def _is_ours(file: _File) -> bool:
    return parsed_name(file.path) is not None or base_of(file.path) is not None


def _bounded(groups: Iterator[list[_File]]) -> list[list[_File]]:
    taken: list[list[_File]] = []
    size = 0
    for group in groups:
        size += sum(each.entry.file_size_in_bytes for each in group)
        if taken and size > _COMPACTED_BYTES:
            break
        taken.append(group)
    return taken


def _merged(table: Any, group: Sequence[_File], base: int) -> str:
    """Return the path of a new file with the rows of these, a row group at a time."""
    folder = group[0].path.rpartition("/")[0]
    assert f"/{DAY_FIELD}=" in folder
    path = f"{folder}/{compacted_name(base)}"
    schema = arrow_schema(table.schema())
    with table.io.new_output(path).create() as stream, parquet_writer(stream, schema) as writer:
        for each in group:
            with table.io.new_input(each.path).open() as source:
                reader = _PARQUET.ParquetFile(source)
                for number in range(reader.num_row_groups):
                    writer.write_table(reader.read_row_group(number).cast(schema))
    sync(path)
    return path


# -- Expiry


def expire(
    catalog: Any, name: tuple[str, ...], *, keep_ms: int = KEEP_MS, keep_snapshots: int = KEEP_SNAPSHOTS,
    now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
) -> tuple[int, int]:  # fmt: skip
    """Expire snapshots, and delete files that none names and none will. Return the numbers of snapshots and files."""
    table = catalog.load_table(name)
    state = state_of(table)
    old = _old(table.metadata, now_ms() - keep_ms, keep_snapshots)
    before = _metadata_files(table, old)
    if old:
        table.maintenance.expire_snapshots().by_ids([each.snapshot_id for each in old]).commit()
        table = catalog.load_table(name)
    left = _metadata_files(table, table.metadata.snapshots)
    gone = [each for each in before if each not in left]
    used = _named(table, left)
    was_named = _named(table, {each: before[each] for each in gone})
    paths = {*(was_named - used), *gone, *_left_over(table, state, used)}
    for path in paths:
        with suppress(FileNotFoundError):
            table.io.delete(path)
    return len(old), len(paths)


def _old(metadata: Any, before_ms: int, keep: int) -> list[Any]:
    """Return the snapshots that may go: no branch and no tag names them, and they are neither new nor the last ones."""
    held = {each.snapshot_id for each in metadata.refs.values()}
    known = sorted(metadata.snapshots, key=lambda each: each.sequence_number or 0)
    may_go = known[: max(len(known) - keep, 0)]
    return [each for each in may_go if each.timestamp_ms < before_ms and each.snapshot_id not in held]


def _metadata_files(table: Any, snapshots: Sequence[Any]) -> dict[str, Any]:
    """Return the manifest lists of snapshots, with None, and their manifests, each with itself."""
    found: dict[str, Any] = {}
    for each in snapshots:
        for manifest in each.manifests(table.io):
            found[manifest.manifest_path] = manifest
        found[each.manifest_list] = None
    return found


def _named(table: Any, files: dict[str, Any]) -> set[str]:
    """Return the data files that manifests name. Those that a snapshot has removed are in an older one's manifests."""
    return {
        entry.data_file.file_path
        for manifest in files.values()
        if manifest is not None
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    }


def _left_over(table: Any, state: State, used: set[str]) -> Iterator[str]:
    """Yield data files of archivers that no snapshot names, and that no commit can name any more."""
    head = table.metadata.current_snapshot_id
    known = {path.rpartition("/")[2] for path in used}
    for path in _listed(table):
        name, base = parsed_name(path), base_of(path)
        if path.rpartition("/")[2] in known or (name is None and base is None):
            continue
        is_past = base != head if name is None else state.offsets.get(name.partition, 0) > name.begin
        if is_past:
            yield path


def _listed(table: Any) -> Iterator[str]:
    """Yield the paths of all files under the table's data."""
    io, location = table.io, f"{table.metadata.location}/data"
    if not isinstance(io, PyArrowFileIO):
        return  # a FileIO of another kind cannot list
    scheme, netloc, path = io.parse_location(location, io.properties)
    system = io.fs_by_scheme(scheme, netloc)
    selector = pyarrow.fs.FileSelector(path, recursive=True, allow_not_found=True)
    prefix = location[: len(location) - len(path)] if location.endswith(path) else ""
    for each in system.get_file_info(selector):
        if each.is_file:
            yield prefix + each.path
