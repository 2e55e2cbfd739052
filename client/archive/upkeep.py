"""The upkeep of an archive: make large files of small ones, and expire old snapshots.

    compact   small files of one partition and day, next to each other in offsets -> one file; the state goes along
    expire    old snapshots go, then the files that only they named, then files that no commit can name any more

Compaction replaces files of archivers alone: those of other engines may have columns of their own.

Promise: a file is deleted only if no snapshot of the table names it, and none ever will. Its age says nothing of that.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow.fs
import pyarrow.parquet
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import PyArrowFileIO, parquet_file_to_data_file
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import ExpireSnapshots

from . import ArchiveError
from .data_files import DataFile, each_file
from .day_files import TARGET_BYTES, sync
from .layout import arrow_schema, of_table, place_of
from .once import COMMIT_TIMEOUT_S, Moved, Once, OnceMade, Stopped, looked
from .parquet_files import DAY_FIELD, base_of, compacted_name, parquet_writer, parsed_name
from .row_files import batch_of
from .row_tables import last_batch
from .run import Archiver
from .state import STATE_KEY, TOPIC_KEY, state_of

log = logging.getLogger(__name__)

# So many small files of a day are worth a new one.
MIN_FILES = 8
# A commit of a compaction rewrites no more than this.
_COMPACTED_BYTES, _COMPACTED_FILES = 512 << 20, 1_000
# The last snapshots stay, and for this time what a compaction has replaced: appends alone take no file from readers.
KEEP_MS, KEEP_SNAPSHOTS = 24 * 3_600_000, 10
# Each compaction keeps two snapshots for so long, and each snapshot makes commits dearer.
COMPACTS_EACH_MS = 3_600_000
_PARQUET: Any = pyarrow.parquet
# An expiry takes a second at most, and archivers commit less often.
_ATTEMPTS = 10
# Commits of a table from one upkeep to the next: an archiver may end after each of them.
_COMMITS = 25


class Overtaken(ArchiveError):
    """Other commits came before an expiry again and again."""


def keep_up(archiver: Archiver) -> None:
    """Compact and expire after each so many commits of a table: between its commits, so that none conflicts."""
    if not is_due(archiver.sequence_number):
        return
    catalog, name = archiver.catalog, archiver.name
    try:
        metadata = looked(lambda: catalog.load_table(name), sleep=archiver.pause).metadata
        last = max((each.timestamp_ms for each in metadata.snapshots if _replaces(each)), default=0)
        if metadata.last_updated_ms - last >= COMPACTS_EACH_MS:
            compact(catalog, name, archiver.pause, timeout_s=archiver.options.commit_timeout_s)
        expire(catalog, name, archiver.pause)
    except Overtaken as error:
        log.warning("%s", error.message)
    except Stopped:
        log.info("the upkeep of %s is left to the next one", ".".join(name))


def is_due(sequence_number: int) -> bool:
    """Tell whether upkeep follows the commit of this number."""
    return sequence_number % _COMMITS == 0


# -- Compaction


def compact(
    catalog: Any, name: tuple[str, ...], pause: Callable[[float], object] = time.sleep, *,
    min_files: int = MIN_FILES, target_bytes: int = TARGET_BYTES, timeout_s: float = COMMIT_TIMEOUT_S,
) -> int:  # fmt: skip
    """Replace small files by large ones, in one commit. Return how many are gone: 0 if another commit came first.

    `pause` waits for the catalog, and may raise Stopped, also before each file.
    """
    table = looked(lambda: catalog.load_table(name), timeout_s, sleep=pause)
    try:
        with Once(catalog, timeout_s, sleep=pause).transaction(table) as transaction:
            state, groups = state_of(table), _first_groups(table, min_files, target_bytes)
            base = table.metadata.current_snapshot_id
            made = [_merged(table, group, base, pause) for group in groups]
            if not groups:
                return 0
            with transaction.update_snapshot(snapshot_properties={STATE_KEY: state.text()}).overwrite() as changing:
                for each in (file for group in groups for file in group):
                    changing.delete_data_file(each.entry)
                for path in made:
                    changing.append_data_file(parquet_file_to_data_file(table.io, transaction.table_metadata, path))
    except Moved:
        log.info("another commit to %s came before the compaction", ".".join(name))
        return 0
    return sum(map(len, groups))


class _Small(NamedTuple):
    """A file as the search for groups has it: a table may have more files than memory has room for."""

    partition: int
    day: int
    first: int
    last: int
    size: int
    # Among the files of the head.
    number: int
    is_small: bool


def _first_groups(table: Any, min_files: int, target_bytes: int) -> list[list[DataFile]]:
    """Return the first groups of small files. The manifests are read twice, whatever is found."""
    numbers = (_small(each, number, target_bytes) for number, each in enumerate(each_file(table)))
    files = np.fromiter(numbers, [(name, np.int64) for name in _Small._fields])
    files.sort(order=["partition", "day", "first"])
    groups = _bounded(_groups(map(_Small._make, files), min_files, target_bytes))
    group_of = {each.number: number for number, group in enumerate(groups) for each in group}
    held: list[list[DataFile]] = [[] for _ in groups]
    for number, each in enumerate(each_file(table) if groups else ()):
        if number in group_of:
            held[group_of[number]].append(each)
    return [sorted(each, key=lambda file: file.bounds.first) for each in held]


def _small(file: DataFile, number: int, target_bytes: int) -> _Small:
    size, is_ours = file.entry.file_size_in_bytes, parsed_name(file.path) is not None or base_of(file.path) is not None
    is_small = is_ours and size < target_bytes // 2
    return _Small(file.bounds.partition, file.day, file.bounds.first, file.bounds.last, size, number, is_small)


def _groups(files: Iterable[_Small], min_files: int, target_bytes: int) -> Iterator[list[_Small]]:
    """Yield small files of one partition and day that are next to each other in the order of offsets."""
    group: list[_Small] = []
    size = 0
    for each in files:
        is_next = bool(group) and _follows(group[-1], each) and size + each.size <= target_bytes
        if not is_next or not each.is_small or len(group) == _COMPACTED_FILES:
            if len(group) >= min_files:
                yield group
            group, size = [], 0
        if each.is_small:
            group.append(each)
            size += each.size
    if len(group) >= min_files:
        yield group


def _follows(before: _Small, after: _Small) -> bool:
    is_same = (before.partition, before.day) == (after.partition, after.day)
    return is_same and before.last < after.first


def _bounded(groups: Iterator[list[_Small]]) -> list[list[_Small]]:
    taken: list[list[_Small]] = []
    size = count = 0
    for group in groups:
        size += sum(each.size for each in group)
        count += len(group)
        if taken and (size > _COMPACTED_BYTES or count > _COMPACTED_FILES):
            break
        taken.append(group)
    return taken


def _merged(table: Any, group: Sequence[DataFile], base: int, pause: Callable[[float], object]) -> str:
    """Return the path of a new file with the rows of these, a row group at a time."""
    folder = group[0].path.rpartition("/")[0]
    assert f"/{DAY_FIELD}=" in folder
    path = f"{folder}/{compacted_name(base)}"
    schema = arrow_schema(table.schema())
    with table.io.new_output(path).create() as stream, parquet_writer(stream, schema) as writer:
        for each in group:
            pause(0)
            with table.io.new_input(each.path).open() as source:
                reader = _PARQUET.ParquetFile(source)
                for number in range(reader.num_row_groups):
                    writer.write_table(of_table(reader.read_row_group(number), schema))
    sync(path)
    return path


# -- Expiry


def expire(
    catalog: Any, name: tuple[str, ...], pause: Callable[[float], object] = time.sleep, *, keep_ms: int = KEEP_MS,
    keep_snapshots: int = KEEP_SNAPSHOTS, now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
) -> tuple[int, int]:  # fmt: skip
    """Expire snapshots, and delete files that none names and none will. Return the numbers of snapshots and files.

    Archivers and other expiries may commit meanwhile: it begins again then. Raises Overtaken where that goes on.
    `pause` waits for the catalog, and may raise Stopped.
    """
    before: dict[str, Any] = {}
    expired = 0
    load = partial(looked, lambda: catalog.load_table(name), sleep=pause)
    for _ in range(_ATTEMPTS):
        table = load()
        _past(table)  # before anything goes, the state can be read
        old = _old(table.metadata, now_ms() - keep_ms, keep_snapshots)
        try:
            before |= _metadata_files(table, old)
            if old:
                looked(partial(_expire, table, old), sleep=pause)
                table = load()
                expired += len(old)
            return expired, _delete(table, before)
        except (CommitFailedException, FileNotFoundError) as error:
            log.warning("another commit to %s came before the expiry, which begins again: %s", ".".join(name), error)
    raise Overtaken(f"other commits to {'.'.join(name)} come first all the time, and nothing more is expired")


def _expire(table: Any, old: Sequence[Any]) -> None:
    expiry = ExpireSnapshots(transaction=OnceMade(table, autocommit=True))
    expiry.by_ids([each.snapshot_id for each in old]).commit()


def _delete(table: Any, before: dict[str, Any]) -> int:
    """Delete the files of expired snapshots that no other one names, and what is left over. Return how many."""
    left = _metadata_files(table, table.metadata.snapshots)
    gone = [each for each in before if each not in left]
    used = _Names(path for manifest in left.values() for path in _named(table, manifest))
    paths = set(gone)
    for each in gone:
        with suppress(FileNotFoundError):  # another expiry was faster
            paths.update(path for path in _named(table, before[each]) if path not in used)
    paths.update(_left_over(table, used))
    for path in paths:
        with suppress(FileNotFoundError):
            table.io.delete(path)
    return len(paths)


def _old(metadata: Any, before_ms: int, keep: int) -> list[Any]:
    """Return the snapshots that may go: not the last ones, not of a branch or tag, not replaced since `before_ms`."""
    held = {each.snapshot_id for each in metadata.refs.values()}
    for each in metadata.snapshots:
        if _replaces(each) and each.timestamp_ms >= before_ms:
            held |= {each.snapshot_id, each.parent_snapshot_id}
    known = sorted(metadata.snapshots, key=lambda each: each.sequence_number or 0)
    return [each for each in known[: max(len(known) - keep, 0)] if each.snapshot_id not in held]


def _replaces(snapshot: Any) -> bool:
    """Tell whether a snapshot lacks files of its parent: after a compaction, here or by another engine."""
    return snapshot.summary is not None and snapshot.summary.operation is not Operation.APPEND


def _metadata_files(table: Any, snapshots: Sequence[Any]) -> dict[str, Any]:
    """Return the manifest lists of snapshots, with None, and their manifests, each with itself."""
    found: dict[str, Any] = {}
    for each in snapshots:
        for manifest in each.manifests(table.io):
            found[manifest.manifest_path] = manifest
        found[each.manifest_list] = None
    return found


def _named(table: Any, manifest: Any) -> Iterator[str]:
    """Yield the data files that a manifest names. Those that a snapshot has removed are in an older one's manifests."""
    if manifest is not None:
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            yield entry.data_file.file_path


class _Names:
    """Names of files in eight bytes each: a table may have more of them than memory has room for.

    Two names in 2 ** 64 are taken for one. Then a file stays that might have gone.
    """

    def __init__(self, paths: Iterator[str]) -> None:
        self._marks = np.unique(np.fromiter(map(self._mark, paths), np.int64))

    def __contains__(self, path: str) -> bool:
        mark = self._mark(path)
        at = int(np.searchsorted(self._marks, mark))
        return at < len(self._marks) and self._marks[at] == mark

    @staticmethod
    def _mark(path: str) -> int:
        return hash(path.rpartition("/")[2])


def _past(table: Any) -> Callable[[str], bool]:
    """Return what tells of a file, by its name, that no commit can name it any more."""
    metadata = table.metadata
    offsets = state_of(table).offsets if TOPIC_KEY in metadata.properties else {}

    def is_past(path: str) -> bool:
        name, base, batch = parsed_name(path), base_of(path), batch_of(path)
        if name is not None:
            return offsets.get(name.partition, 0) > name.begin
        if batch is not None:
            last = last_batch(metadata, batch.query_id)
            return last is not None and last >= batch.number
        return base is not None and base != metadata.current_snapshot_id

    return is_past


def _left_over(table: Any, used: _Names) -> Iterator[str]:
    """Yield data files of ours that no snapshot names, and that no commit can name any more."""
    is_past = _past(table)
    return (path for path in _listed(table) if path not in used and is_past(path))


def _listed(table: Any) -> Iterator[str]:
    """Yield the paths of all files in the table's folder of data, a folder at a time."""
    if not isinstance(table.io, PyArrowFileIO):
        return  # a FileIO of another kind cannot list
    place = place_of(table)
    folders = [place.root]
    while folders:
        for each in place.files.get_file_info(pyarrow.fs.FileSelector(folders.pop(), allow_not_found=True)):
            if each.is_file:
                yield place.location + each.path.removeprefix(place.root)
            elif each.type == pyarrow.fs.FileType.Directory:
                folders.append(each.path)
