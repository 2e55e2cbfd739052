"""A backup of a running broker: links to all its files, and how long each of them is at one moment.

The moment is one turn of the event loop, in which nothing is appended to any partition or to the metadata journal. So
the backup is what a kill of the process at that moment would leave, and a restored broker starts as after a kill:
records, offsets of groups, transactions and topics agree with each other.

That turn only notes what the logs are. Afterwards the links that belong to it are looked for, in turns. Those that lack
are made in threads, and another moment is tried: some files have come meanwhile (a roll, compaction), and others have
left the log. Links that are no longer needed are not copied. An empty segment has no link, because its first batch
may come as a file of its own (staging.py).
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
from ...storage.log import AtMoment, Log
from ...storage.log_view import LogView
from ...storage.segments.names import LOG_SUFFIX, segment_name
from ...storage.segments.segment import Segment
from ..threads import DiskThreads, Work
from ..turns import keeper
from .metadata_journal import Metadata
from .topic import Topic
from .topics import Topics

# Each try lacks only the files that came during the one before.
MAX_ATTEMPTS = 100
# Logs whose segments a thread links at a time.
_LINKED_AT_ONCE = 500
# Segments that one call of a thread links.
_LINKS_PER_CALL = 1_000


# A partition at the moment: its topic, its number and its log, as they were then.
_Held = tuple[Topic, int, Log, AtMoment]


class _Moment(NamedTuple):
    partitions: list[_Held]
    journal: list[Path]
    # Of the last of these files, the only one that grows.
    journal_bytes: int


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
            moment = self._moment()
            lacking = await self._lacking(moment)
            if not lacking and moment.journal == list(self._journal):
                break
            await self._link_journal(moment.journal)
            await self._link_logs(lacking)
        else:
            raise StorageError(f"files come and go faster than {MAX_ATTEMPTS} tries can hold them")
        for data_dir in self._directories:
            held = [each for each in moment.partitions if each[2].parent_name == str(data_dir)]
            await self._in_thread(data_dir, partial(self._write, data_dir, held, moment.journal_bytes))

    async def _in_thread(self, data_dir: Path, work: Callable[[], None]) -> None:
        await self._threads.run(Work.BACKGROUND, data_dir, work)

    def _moment(self) -> _Moment:
        """Return what the partitions are now: little work, because nobody is served meanwhile. Raises KafkaError."""
        topics = self._topics.all()
        held = [
            (topic, each.index, each.log, each.log.at_this_moment())
            for topic in topics
            for each in topic.partitions
            if each.is_online
        ]
        if len(held) < sum(len(topic.partitions) for topic in topics):
            for each in (each for topic in topics for each in topic.partitions):
                each.check_online()
        return _Moment(held, self._metadata.journal_files, self._metadata.journal_end.size)

    async def _lacking(self, moment: _Moment) -> list[Log]:
        """Return the logs with segments that have no link. Raises StorageError where a segment cannot have one."""
        links, failed, found = self._links, self._failed, list[Log]()
        for _, _, log, (segments, active_bytes, _, _) in moment.partitions:
            active = segments[-1]
            lacking = [
                each for each in segments if each not in links and (active_bytes if each is active else each.size)
            ]
            if lacking:
                found.append(log)
            for segment in lacking:
                if segment in failed:
                    raise failed[segment]
            await keeper().pause()
        return found

    # -- Links -------------------------------------------------------------------------------------

    async def _link_logs(self, logs: Iterable[Log]) -> None:
        views: list[tuple[Log, LogView]] = []
        for number, log in enumerate(logs, 1):
            views.append((log, log.view()))
            await keeper().pause()
            if number % _LINKED_AT_ONCE == 0:
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

    # -- After the moment --------------------------------------------------------------------------

    def _write(self, data_dir: Path, partitions: list[_Held], journal_bytes: int) -> None:
        """Write what belongs to the backup of one data directory."""
        held = Held(self._directories[data_dir])
        for each in partitions:
            self._take(each, held)
        starts = {(topic.name, number): start for topic, number, _, (_, _, start, _) in partitions}
        held.texts.append((LOG_START, offsets_text(starts)))
        held.texts.append((META_PROPERTIES, self._disk.read_file(data_dir / META_PROPERTIES).decode()))
        if data_dir == self._metadata_dir:
            *_, tail = self._journal
            for path, (link, size) in self._journal.items():
                held.files.append((path.name, link, journal_bytes if path == tail else size))
        held.write(self._disk)

    def _take(self, partition: _Held, held: Held) -> None:
        topic, number, _, (segments, active_bytes, _, leader_epochs) = partition
        name = f"{topic.name}-{number}"
        for segment in segments:
            path = f"{name}/{segment_name(segment.base_offset)}{LOG_SUFFIX}"
            size = active_bytes if segment is segments[-1] else segment.size
            if size:
                held.files.append((path, self._links[segment], size))
            else:
                held.texts.append((path, ""))
        held.texts.append((f"{name}/{PARTITION_METADATA}", partition_metadata_text(topic.id)))
        epochs = [f"{epoch} {offset}" for epoch, offset in leader_epochs]
        held.texts.append((f"{name}/{LEADER_EPOCH}", entries_text(epochs)))
