"""A backup of a running broker: links to all its files, and how long each of them is at one moment.

The moment is one turn of the event loop, in which nothing is appended to any partition or to the metadata journal. So
the backup is what a kill of the process at that moment would leave, and a restored broker starts as after a kill:
records, offsets of groups, transactions and topics agree with each other.

Links are made in threads before the moment, and some of their files have left the log when it comes (a roll, retention,
compaction). Then the links that lack are made, and another moment is tried. Links that are no longer needed are not
copied. An empty segment has no link, because its first batch may come as a file of its own (staging.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ...storage.checkpoints import (
    LEADER_EPOCH,
    LOG_START,
    META_PROPERTIES,
    PARTITION_METADATA,
    entries_text,
    offsets_text,
    partition_metadata_text,
)
from ...storage.errors import StorageError
from ...storage.files import Disk
from ...storage.held_files import Held
from ...storage.log import Log
from ...storage.log_view import LogView
from ...storage.segments.names import LOG_SUFFIX, segment_name
from ...storage.segments.segment import Segment
from ..threads import DiskThreads, Work
from .metadata_journal import Metadata
from .topics import Topics

# Each try lacks only the files that came during the one before.
MAX_ATTEMPTS = 100
# Logs of which one turn of the loop takes a view.
_VIEWS_PER_TURN = 500
# Segments that one call of a thread links.
_LINKS_PER_CALL = 1_000


class _Held(NamedTuple):
    """A partition at the moment."""

    topic: str
    topic_id: bytes
    number: int
    # The data directory.
    parent_name: str
    log_start_offset: int
    segments: tuple[Segment, ...]
    # Of the active segment, the only one that grows.
    active_bytes: int
    epochs: tuple[tuple[int, int], ...]


class LiveBackup:
    """The files of one backup. `directories`: each data directory's own directory for links, not made yet."""

    def __init__(
        self, topics: Topics, metadata: Metadata, directories: Mapping[Path, Path], threads: DiskThreads, disk: Disk
    ) -> None:
        self._topics = topics
        self._metadata = metadata
        self._directories = directories
        self._threads = threads
        self._disk = disk
        journal_dir = metadata.journal_files[0].parent.absolute()
        self._metadata_dir = next(each for each in directories if each.absolute() == journal_dir)
        # Each segment's link. The segments are held here, so that none of them is taken for another one.
        self._links: dict[Segment, str] = {}
        # Why a segment has none.
        self._failed: dict[Segment, StorageError] = {}
        # The journal's files, and the link and size of each.
        self._journal: dict[Path, tuple[str, int]] = {}
        self._made = 0

    async def hold(self) -> None:
        """Make the links and write what belongs to the moment. Raises StorageError, KafkaError."""
        for data_dir, directory in self._directories.items():
            await self._in_thread(data_dir, partial(self._disk.mkdir, directory))
        for _ in range(MAX_ATTEMPTS):
            lacking = self._lacking()
            journal = self._metadata.journal_files
            if not lacking and journal == list(self._journal):
                # Nothing has happened since: this turn is the moment.
                partitions, journal_bytes = self._moment(), self._metadata.journal_end.size
                break
            await self._link_journal(journal)
            await self._link_logs(lacking)
        else:
            raise StorageError(f"files come and go faster than {MAX_ATTEMPTS} tries can hold them")
        for data_dir in self._directories:
            held = [each for each in partitions if each.parent_name == str(data_dir)]
            await self._in_thread(data_dir, partial(self._write, data_dir, held, journal_bytes))

    async def _in_thread(self, data_dir: Path, work: Callable[[], None]) -> None:
        await self._threads.run(Work.BACKGROUND, data_dir, work)

    def _lacking(self) -> list[Log]:
        """Return the logs with segments that have no link. Raises StorageError where a segment cannot have one."""
        links, failed, found = self._links, self._failed, list[Log]()
        for each in self._topics.partitions():
            lacking = [segment for segment in each.log.segments if segment not in links and segment.size]
            if lacking:
                found.append(each.log)
            for segment in lacking:
                if segment in failed:
                    raise failed[segment]
        return found

    # -- Before the moment -------------------------------------------------------------------------

    async def _link_logs(self, logs: Iterable[Log]) -> None:
        views: list[tuple[Log, LogView]] = []
        for number, log in enumerate(logs, 1):
            views.append((log, log.view()))
            if number % _VIEWS_PER_TURN == 0:
                await self._link(views)
                views = []
        await self._link(views)

    async def _link(self, views: list[tuple[Log, LogView]]) -> None:
        """Link what the views have and no link yet, a bounded number in a call."""
        wanted: dict[Path, list[tuple[LogView, int]]] = {each: [] for each in self._directories}
        for log, view in views:
            slots = [slot for slot, segment in enumerate(view.originals) if segment.size and segment not in self._links]
            wanted[log.directory.parent] += [(view, slot) for slot in slots]
        for data_dir, items in wanted.items():
            for first in range(0, len(items), _LINKS_PER_CALL):
                part = items[first : first + _LINKS_PER_CALL]
                await self._in_thread(
                    data_dir,
                    lambda data_dir=data_dir, part=part: self._link_segments(self._directories[data_dir], part),
                )

    def _link_segments(self, directory: Path, items: list[tuple[LogView, int]]) -> None:
        for view, slot in items:
            try:
                file = view.segments[slot].file
                name = self._new_link(file.path, directory)
                if self._disk.is_same(file, directory / name):
                    self._links[view.originals[slot]] = name
            except StorageError as error:
                # It has left the log, most likely: the next try finds out.
                self._failed[view.originals[slot]] = error

    async def _link_journal(self, paths: list[Path]) -> None:
        if paths == list(self._journal):
            return
        data_dir = self._metadata_dir
        directory, links = self._directories[data_dir], dict[Path, tuple[str, int]]()

        def link() -> None:
            for path in paths:
                name = self._new_link(path, directory)
                links[path] = name, self._disk.sizes(directory)[name]

        try:
            await self._in_thread(data_dir, link)
        except StorageError:
            if self._metadata.journal_files == paths:
                raise
        self._journal = links

    def _new_link(self, source: Path, directory: Path) -> str:
        self._made += 1
        name = str(self._made)
        self._disk.link(source, directory / name)
        return name

    # -- The moment --------------------------------------------------------------------------------

    def _moment(self) -> list[_Held]:
        """Return what the partitions hold now: little for each, because nobody is served meanwhile."""
        found: list[_Held] = []
        for topic in self._topics.all():
            for each in topic.partitions:
                each.check_online()
                log = each.log
                segments = log.segments
                found.append(
                    _Held(
                        topic.name, topic.id, each.index, log.parent_name, log.log_start_offset,
                        segments, segments[-1].size, log.epochs.entries,
                    )
                )  # fmt: skip
        return found

    # -- After the moment --------------------------------------------------------------------------

    def _write(self, data_dir: Path, partitions: list[_Held], journal_bytes: int) -> None:
        """Write what belongs to the backup of one data directory."""
        held = Held(self._directories[data_dir])
        for each in partitions:
            self._take(each, held)
        starts = {(each.topic, each.number): each.log_start_offset for each in partitions}
        held.texts.append((LOG_START, offsets_text(starts)))
        held.texts.append((META_PROPERTIES, self._disk.read_file(data_dir / META_PROPERTIES).decode()))
        if data_dir == self._metadata_dir:
            *_, tail = self._journal
            for path, (link, size) in self._journal.items():
                held.files.append((path.name, link, journal_bytes if path == tail else size))
        held.write(self._disk)

    def _take(self, partition: _Held, held: Held) -> None:
        name = f"{partition.topic}-{partition.number}"
        active = partition.segments[-1]
        for segment in partition.segments:
            path = f"{name}/{segment_name(segment.base_offset)}{LOG_SUFFIX}"
            size = partition.active_bytes if segment is active else segment.size
            if size:
                held.files.append((path, self._links[segment], size))
            else:
                held.texts.append((path, ""))
        held.texts.append((f"{name}/{PARTITION_METADATA}", partition_metadata_text(partition.topic_id)))
        epochs = [f"{epoch} {offset}" for epoch, offset in partition.epochs]
        held.texts.append((f"{name}/{LEADER_EPOCH}", entries_text(epochs)))
