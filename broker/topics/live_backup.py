"""A backup of a running broker: links to all its files, and how long each of them is at one moment.

The moment is one turn of the event loop, in which nothing is appended to any partition or to the metadata journal. So
the backup is what a kill of the process at that moment would leave, and a restored broker starts as after a kill:
records, offsets of groups, transactions and topics agree with each other.

Links are made in threads before the moment, and some of their files have left the log when it comes (a roll, retention,
compaction). Then the links that lack are made, and another moment is tried. Links that are no longer needed are not
copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from ...storage.checkpoints import (
    LEADER_EPOCH,
    LOG_START,
    META_PROPERTIES,
    PARTITION_METADATA,
    entries_text,
    offsets_text,
    partition_metadata_text,
)
from ...storage.errors import StaleView, StorageError
from ...storage.files import Disk
from ...storage.held_files import Held
from ...storage.log import Log
from ...storage.log_view import LogView
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
                held = self._moment()
                break
            await self._link_journal(journal)
            await self._link_logs(lacking)
        else:
            raise StorageError(f"files come and go faster than {MAX_ATTEMPTS} tries can hold them")
        for data_dir, each in held.items():
            await self._in_thread(data_dir, partial(self._write, data_dir, each))

    async def _in_thread(self, data_dir: Path, work: Callable[[], None]) -> None:
        await self._threads.run(Work.BACKGROUND, data_dir, work)

    def _lacking(self) -> list[Log]:
        """Return the logs with segments that have no link."""
        links = self._links
        return [
            each.log for each in self._topics.partitions() if any(segment not in links for segment in each.log.segments)
        ]

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
            slots = [slot for slot, segment in enumerate(view.originals) if segment not in self._links]
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
                # It has left the log. If it has not, the next try meets the same error, and the last one says so.
                if not isinstance(error, StaleView) and self._disk.exists(view.originals[slot].path(".log")):
                    raise

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

    def _moment(self) -> dict[Path, Held]:
        """Return what each data directory holds now."""
        held = {data_dir: Held(directory) for data_dir, directory in self._directories.items()}
        starts: dict[Path, dict[tuple[str, int], int]] = {each: {} for each in held}
        for topic in self._topics.all():
            for each in topic.partitions:
                each.check_online()
                data_dir = each.log.directory.parent
                starts[data_dir][topic.name, each.index] = each.log.log_start_offset
                self._take(each.log, topic.id, held[data_dir])
        for data_dir, offsets in starts.items():
            held[data_dir].texts.append((LOG_START, offsets_text(offsets)))
        tail = self._metadata.journal_files[-1]
        for path, (link, size) in self._journal.items():
            size = self._metadata.journal_end.size if path == tail else size
            held[self._metadata_dir].files.append((path.name, link, size))
        return held

    def _take(self, log: Log, topic_id: bytes, held: Held) -> None:
        name = log.directory.name
        for segment in log.segments:
            held.files.append((f"{name}/{segment.path('.log').name}", self._links[segment], segment.size))
        held.texts.append((f"{name}/{PARTITION_METADATA}", partition_metadata_text(topic_id)))
        epochs = [f"{epoch} {offset}" for epoch, offset in log.epochs.entries]
        held.texts.append((f"{name}/{LEADER_EPOCH}", entries_text(epochs)))

    def _write(self, data_dir: Path, held: Held) -> None:
        meta = self._disk.read_file(data_dir / META_PROPERTIES).decode()
        held.texts.append((META_PROPERTIES, meta))
        held.write(self._disk)
