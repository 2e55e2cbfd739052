"""The data directories (log.dirs): the partitions of each, the place of new ones, and directories that are offline.

Each directory is locked and has its own meta.properties, checkpoints and clean-stop marker; all share the cluster and
node ids. A new partition goes to the directory with the fewest that has room. The metadata journal lies in the first
directory, or in `metadata.log.dir`, which then need not hold partitions.

A directory is offline until the next start if it cannot be used at start (also for want of room, which a start after a
crash needs), or if its device fails while the broker runs.
Its partitions answer KAFKA_STORAGE_ERROR and have no leader in Metadata; all others go on. While a directory is
offline, a partition that is in no other directory counts as being there: it is not made again. The broker cannot start
without the directory of the metadata.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.config import NEVER
from ...storage.errors import StorageError, do_all
from ...storage.files import DISK, Disk
from ...storage.journal import Journal, JournalEnd
from ...storage.known_logs import KnownLog
from ...storage.log import Log
from ..configs.broker_config import BrokerConfig
from .data_dir import JOURNAL_NAME, DataDir, DirectoryFailed, StartError
from .missing_disk import is_new, refuse_missing_disk
from .offset_checkpoints import OffsetCheckpoints
from .partition_dirs import PartitionDirs, partition_of

_log = logging.getLogger(__name__)


class LogDir:
    """One data directory. `data` is None where it could not even be opened, and while it is new."""

    def __init__(self, path: Path, data: DataDir | None, failure: str | None, disk: Disk) -> None:
        self.path = path
        self.data = data
        # Why it is offline; None while it is online.
        self.failure = failure
        self.partitions = PartitionDirs(path, disk)
        self.checkpoints = OffsetCheckpoints(path, disk, empty=data is None)
        # The number of its partitions, online or not.
        self.count = 0
        # In a cluster: whether a write was refused for lack of room, and there is none since (full_disks.py).
        self.is_full = False
        # Partitions that are offline though the directory is online, because the start could not read their logs.
        self.unread: list[tuple[str, int]] = []

    @property
    def is_online(self) -> bool:
        return self.failure is None

    @property
    def is_clean(self) -> bool:
        """Whether the last stop closed every log of the directory well."""
        return self.data is not None and self.data.clean

    def fsync_all(self) -> bool:
        """Force every file here to disk in one call. Return False where each needs its own."""
        return self.data is not None and self.data.lock.fsync_all()

    @property
    def may_have_lost(self) -> bool:
        """Whether a power cut may have taken what no fsync has covered."""
        return self.data is not None and self.data.may_have_lost

    def recovery_point(self, partition: tuple[str, int]) -> int:
        """Return up to where a partition was forced to disk for certain; -1 where nobody knows.

        A partition that the checkpoint does not name has been made since, if power was cut: nothing is certain of it.
        """
        of_new = 0 if self.may_have_lost and self.checkpoints.names_points else -1
        return self.checkpoints.recovery_points.get(partition, of_new)

    def take_known(self, name: str) -> KnownLog | None:
        """Return what the last stop knew of the log in the directory `name`, once: a start needs it no longer."""
        return self.data.known_logs.pop(name, None) if self.data is not None else None

    def fail(self, error: StorageError, partitions: int) -> None:
        """Take the directory offline until the next start. The caller takes its `partitions` offline."""
        self.failure = error.message
        text = "data directory %s is offline until the next start, and with it %d partitions: %s"
        _log.error(text, self.path, partitions, error.message)


class Checkpoint:
    """The offsets of all partitions at one moment, not yet on disk."""

    def __init__(self, writers: dict[Path, Callable[[], None]]) -> None:
        # One for each data directory. They may run in any thread, at the same time.
        self.writers = writers

    def write(self, directories: Collection[Path] | None = None) -> None:
        """Write those of these directories (default: all), in any thread.

        Raises the first StorageError after all have been tried.
        """
        do_all(write for path, write in self.writers.items() if directories is None or path in directories)


class LogDirs:
    """The data directories of one broker. `open` before anything is read, `close` last of all."""

    def __init__(self, dirs: list[LogDir], metadata: DataDir, disk: Disk = DISK) -> None:
        # In the order of log.dirs.
        self.all = dirs
        self.metadata = metadata
        self._disk = disk
        self._by_path = {each.path: each for each in dirs}
        self._by_name = {str(each.path.absolute()): each for each in dirs}
        # The directory of each partition that the start found, by the name of the partition's own directory.
        self._found: dict[str, LogDir] = {}
        # Directories without meta.properties. They are not touched until `take_new_dirs`.
        self._new = [each for each in dirs if each.is_online and each.data is None]
        # Directories with names that have changed, perhaps in an earlier run, and no fsync covers that yet.
        self._unsynced = set(dirs)

    @classmethod
    def open(cls, config: BrokerConfig, disk: Disk = DISK, cluster_id: str = "") -> LogDirs:
        """Open and lock all of them; a directory that cannot be used is offline.

        New ones get `cluster_id`, or a new id where that is "".
        Raises StartError where that is the one with the metadata, or one belongs to another cluster or program.
        """
        check_whose(config.data_dir, config.data_dirs, disk)
        opened: dict[Path, DataDir] = {}
        try:
            clustered = config.zookeeper_connect is not None
            metadata = DataDir.open(config.data_dir, config.node_id, disk, cluster_id, is_clustered=clustered)
            opened[config.data_dir.absolute()] = metadata
            dirs = [_open(path, config.node_id, metadata, opened, disk) for path in config.data_dirs]
        except BaseException:
            for each in opened.values():
                each.close()
            raise
        return cls(dirs, metadata, disk)

    @property
    def online(self) -> list[LogDir]:
        return [each for each in self.all if each.is_online]

    @property
    def is_clean(self) -> bool:
        """Whether no log that is online needs recovery, and none is a copy: clients may know later records."""
        dirs = [self.metadata, *(each.data for each in self.online if each.data is not None)]
        return all(each.clean and not each.is_copy for each in dirs)

    @property
    def paths_with_metadata(self) -> list[Path]:
        """Every data directory, and that of the metadata where it is none of them, behind them."""
        paths = [each.path for each in self.all]
        metadata = self.metadata.path
        return paths if metadata.absolute() in [each.absolute() for each in paths] else [*paths, metadata]

    def of(self, log: Log) -> LogDir:
        """Return the directory of a log."""
        return self._by_path[log.directory.parent]

    def at(self, path: Path) -> LogDir:
        """Return the directory with this path, as `all` has it."""
        return self._by_path[path]

    def named(self, path: str) -> LogDir | None:
        """Return the directory with this absolute path, or None."""
        return self._by_name.get(path)

    def holding(self, path: Path) -> LogDir | None:
        """Return the directory that a file lies in, or that `path` is, or None."""
        return next((self._by_path[each] for each in (path, *path.parents) if each in self._by_path), None)

    # -- Directories of partitions ---------------------------------------------------------------------

    def tidy(self, owned: Mapping[str, bytes]) -> list[Path]:
        """Find the partitions, set aside directories without a topic, and return those that deletions have left.

        `owned` maps the directory name of every partition to its topic id. Raises StartError where a partition is in
        two data directories.
        """
        left: list[Path] = []
        for each in self.online:
            if each in self._new:
                continue
            names, leftovers = each.partitions.tidy(owned)
            left += leftovers
            for name in names:
                other = self._found.setdefault(name, each)
                if other is not each:
                    raise StartError(f"{name} is in {other.path} and in {each.path}: move one of them away")
        return left

    def take_new_dirs(self, owned: Iterable[str], known: Mapping[str, str]) -> dict[str, str]:
        """Begin to use the directories that are new, once it is certain that they are no unmounted disks.

        `owned` are the directory names of all partitions, `known` the ids and paths of the directories of earlier runs.
        Returns the ids and paths to know from now on. Raises StartError, StorageError.
        """
        new = self._new
        opened = [each.data for each in self.all if each.data is not None]
        if len(self.online) == len(self.all):
            missing = sorted(name for name in owned if name not in self._found)
            replaced = [each.path.absolute() for each in opened if each.is_replacement]
            refuse_missing_disk(missing, known, self._ids(), replaced, [each.path for each in new])
        for data in opened:
            # The directory of a broker that wrote no ids yet has none either. Who reads its files asks for it.
            if data.is_replacement or not data.meta.directory_id:
                data.take_new_id()
        self._new = []
        for each in new:
            try:
                meta = self.metadata.meta
                clustered = meta.is_clustered
                each.data = DataDir.open(each.path, meta.node_id, self._disk, meta.cluster_id, is_clustered=clustered)
            except DirectoryFailed as error:
                _log.error("%s; its partitions are offline", error)
                each.failure = str(error)
        # One that is offline now may be any of those that are known.
        return self._ids() if len(self.online) == len(self.all) else {**known, **self._ids()}

    def _ids(self) -> dict[str, str]:
        """Return the path of each directory that is in use, by its id."""
        opened = [each.data for each in self.all if each.data is not None]
        return {each.meta.directory_id: str(each.path.absolute()) for each in opened}

    def find(self, topic: str, index: int) -> LogDir | None:
        """Return the place of a partition of an earlier run, None where it is in an offline directory.

        Where a crash has removed it, it is the place to make it again.
        """
        home = self._found.get(f"{topic}-{index}")
        if home is None:
            if len(self.online) < len(self.all):
                return None
            home = self._fewest()
        home.count += 1
        return home

    def make(self, topic: str, index: int, topic_id: bytes) -> Path:
        """Make the directory of a new partition, in the data directory with the fewest. It is durable after `sync`."""
        home = self._fewest()
        directory = home.partitions.made(topic, index, topic_id)
        home.count += 1
        self._unsynced.add(home)
        return directory

    def unmake(self, topic: str, index: int) -> None:
        """Remove what exists of the directory of a partition that could not be made."""
        for each in self.online:
            each.partitions.unmake(topic, index)

    def leave(self, log: Log) -> None:
        """Count a partition no longer, whose directory is given another name or removed. It is durable after `sync`."""
        home = self.of(log)
        home.count -= 1
        self._unsynced.add(home)

    def sync(self, *homes: LogDir) -> None:
        """Make the new names of directories durable, in these data directories alone or in all."""
        for home in homes or list(self._unsynced):
            if home.is_online:
                self._disk.fsync_dir(home.path)
            self._unsynced.discard(home)

    def check_online(self) -> None:
        """Raise KAFKA_STORAGE_ERROR where every data directory is offline, so that no partition can be made."""
        if not self.online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "every data directory is offline")

    def _fewest(self) -> LogDir:
        self.check_online()
        return min(self.online, key=lambda each: (each.is_full, each.count))

    # -- Checkpoints and stop --------------------------------------------------------------------------

    def naming(self, topic: str) -> list[Path]:
        """Return the directories whose checkpoints have, or will have, an offset of a topic of this name."""
        return [each.path for each in self.online if each.checkpoints.may_name(topic)]

    def cleaner_offset(self, partition: tuple[str, int], log: Log) -> int | None:
        """Return the offset up to which the cleaner has cleaned a partition; None where nothing is known."""
        offset = self.of(log).checkpoints.cleaner_offsets.get(partition)
        return None if offset is None else min(offset, log.cut_to)

    def note_cleaned(self, partition: tuple[str, int], log: Log, offset: int) -> None:
        """Note up to where a partition is clean. The next checkpoint makes it last."""
        self.of(log).checkpoints.cleaner_offsets[partition] = offset
        log.cut_to = NEVER

    def take_checkpoint(self, logs: Mapping[tuple[str, int], Log]) -> Checkpoint:
        """Note the offsets of `logs` as they are now."""
        # By name: to compare paths would be most of the time of a turn of the loop that looks at each partition.
        shares: dict[str, dict[tuple[str, int], Log]] = {str(each.path): {} for each in self.all}
        for partition, log in logs.items():
            shares[log.parent_name][partition] = log
        homes = [(each, shares[str(each.path)]) for each in self.online]
        return Checkpoint({home.path: home.checkpoints.take(share, home.unread) for home, share in homes})

    def mark_clean(self, path: Path, logs: Collection[Log], journal: JournalEnd) -> None:
        """Write the clean-stop marker of a directory, unless one of its logs was not closed well, or it is offline.

        `journal` is the end of the metadata journal. Raises StorageError.
        """
        home = self._by_path.get(path)
        data = self.metadata if home is None else home.data
        is_whole = home is None or (home.is_online and not home.unread)
        if data is not None and is_whole and all(log.is_whole for log in logs):
            known = ((log.directory.name, log.known()) for log in logs)
            end = journal if data is self.metadata else None
            data.mark_clean({name: log for name, log in known if log is not None}, end)

    def note_boot(self) -> None:
        """Note that this start has dealt with what a power cut may have taken: one in the same boot need not."""
        for data in (self.metadata, *(each.data for each in self.online if each.data is not None)):
            try:
                data.note_boot()
            except StorageError as error:
                _log.warning("%s: the next start takes a crash for a power cut", error.message)

    def close(self) -> None:
        """Release the locks."""
        for each in self.all:
            if each.data is not None and each.data is not self.metadata:
                each.data.close()
        self.metadata.close()


def check_whose(metadata: Path, dirs: Iterable[Path], disk: Disk = DISK) -> None:
    """Raise StartError where the directories hold partitions without our metadata. Nothing has been changed then."""
    try:
        has_journal = metadata.is_dir() and Journal.exists(metadata, JOURNAL_NAME, disk)
    except (OSError, StorageError) as error:
        raise StartError(f"data directory {metadata} cannot be read: {error}") from error
    if not has_journal:
        refuse_orphans(metadata, dirs)


def refuse_orphans(metadata: Path, dirs: Iterable[Path]) -> None:
    """Raise StartError for partitions without our metadata: of Kafka, or of a directory that lost its journal.

    A start would set all of them aside.
    """
    for path in dirs:
        try:
            found = sorted(each.name for each in path.iterdir() if partition_of(each.name) and each.is_dir())
        except OSError:
            # The directory is missing or out of reach; opening it raises the right error.
            continue
        if found:
            shown = ", ".join(found[:3])
            why = f"holds partitions ({shown}), and {metadata} has no metadata of ours that tell whose they are"
            how = "mount its disk, or choose another --data-dir ('odradek log import' takes over Kafka's topics)"
            raise StartError(f"data directory {path} {why}: {how}")


def _open(path: Path, node_id: int, metadata: DataDir, opened: dict[Path, DataDir], disk: Disk) -> LogDir:
    whole = path.absolute()
    data = opened.get(whole)
    if data is None:
        if is_new(whole):
            return LogDir(whole, None, None, disk)
        try:
            data = opened[whole] = _open_known(path, node_id, metadata, opened, disk)
        except DirectoryFailed as error:
            _log.error("%s; its partitions are offline", error)
            return LogDir(whole, None, str(error), disk)
    try:
        return LogDir(whole, data, None, disk)
    except StorageError as error:
        raise StartError(f"data directory {path} cannot be used: {error}") from error


def _open_known(path: Path, node_id: int, metadata: DataDir, opened: dict[Path, DataDir], disk: Disk) -> DataDir:
    meta = metadata.meta
    data = DataDir.open(path, node_id, disk, meta.cluster_id, is_clustered=meta.is_clustered)
    ids = {each.meta.directory_id for each in opened.values()}
    data.is_replacement = not data.meta.directory_id or data.meta.directory_id in ids
    return data
