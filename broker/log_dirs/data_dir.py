"""A data directory, locked for one process, and the state in which the last stop left it.

It holds Kafka's `meta.properties` (the cluster and node that the data belong to), a lock file, the clean-stop marker,
the metadata journal and one directory for each partition. A second process is refused, and the first does not notice.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path

from ...storage import checkpoints
from ...storage.checkpoints import NO_NODE, MetaProperties
from ...storage.errors import LockedError, StorageError
from ...storage.files import DISK, TEMPORARY_SUFFIX, DirectoryLock, Disk
from ...storage.journal import Journal, JournalEnd
from ...storage.known_logs import CleanStop, KnownLog
from ..clock import ids

# The metadata journal's name, in front of the number of its file.
JOURNAL_NAME = "metadata"

# A directory with only these is new: the file system makes the first, an interrupted first start leaves the second.
_NO_STRANGERS = frozenset({"lost+found", checkpoints.META_PROPERTIES + TEMPORARY_SUFFIX})


class StartError(Exception):
    """The broker cannot start. The message is one line that says why, and what to do."""


class DirectoryFailed(StartError):
    """The system does not let us use a directory. Its partitions are out of reach, all others are not."""


class DataDir:
    """A locked data directory. `open` before anything is read, `close` last of all."""

    def __init__(
        self, path: Path, lock: DirectoryLock, meta: MetaProperties, stop: CleanStop | None, disk: Disk = DISK
    ) -> None:
        """`stop`: what the last stop knew; None where it was not clean."""
        self.path = path
        self.meta = meta
        self.clean = stop is not None
        # Whether a power cut may have taken what no fsync has covered. In a cluster others may have the records.
        self.may_have_lost = stop is None and not lock.is_of_this_boot
        # Whether the start has found it to be a copy, of whatever time, of the directory that a broker had here.
        self.is_copy = False
        # By the names of the logs' directories. A log that is opened takes its entry.
        self.known_logs = dict(stop.logs) if stop is not None else {}
        # Whether an operator put it in the place of a lost one (missing_disk.py).
        self.is_replacement = False
        self.lock = lock
        self._disk = disk

    @classmethod
    def open(
        cls, path: Path, node_id: int, disk: Disk = DISK, cluster_id: str = "", *, is_clustered: bool = False
    ) -> DataDir:
        """Make the directory if it is missing, lock it, and remove the clean-stop marker.

        The directory must belong to `cluster_id`; a new one gets it. With "" any cluster is right, and a new directory
        gets a new id. `is_clustered`: the broker joins a cluster, with its topics if it was alone before.

        Raises DirectoryFailed where the disk is to blame, otherwise StartError; the directory of another cluster or
        program is left unchanged.
        """
        _check_name(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            refuse_strangers(path)
            lock = DirectoryLock(path, disk)
        except LockedError as error:
            why = f"data directory {path} is in use by another process: stop that one, or choose another --data-dir"
            raise StartError(why) from error
        except FileExistsError as error:
            raise DirectoryFailed(f"data directory {path} is no directory: choose another --data-dir") from error
        except (OSError, StorageError) as error:
            raise DirectoryFailed(f"data directory {path} cannot be written: {_reason(error)}") from error
        try:
            is_copy = _is_copy(path, lock, disk)
            meta = _meta(path, node_id, cluster_id, disk, is_clustered=is_clustered)
            stop = _take_clean_stop(path, disk)
        except (OSError, StorageError) as error:
            lock.release()
            raise DirectoryFailed(f"data directory {path} cannot be used: {_reason(error)}") from error
        except StartError:
            lock.release()
            raise
        opened = cls(path, lock, meta, stop, disk)
        opened.is_copy = is_copy
        return opened

    def take_new_id(self) -> None:
        """Give the directory an id of its own: its meta.properties was copied, or has none."""
        self.meta.directory_id = new_id_text()
        checkpoints.write_meta_properties(self.path, self.meta, self._disk)

    def mark_clean(self, known: Mapping[str, KnownLog], journal: JournalEnd | None) -> None:
        """Write the clean-stop marker: everything is on disk, so that the next start need not check the logs.

        `known` are the logs that it need not even open, by their directories' names. `journal` is the end of the
        metadata journal; None where it lies in another directory. In a cluster, records that may be lost leave none.
        """
        if self.may_have_lost and self.meta.is_clustered:
            return
        checkpoints.write_clean_shutdown(self.path, CleanStop(known, journal), self._disk)

    def note_boot(self) -> None:
        """Note that this start has dealt with what a power cut may have taken: one in the same boot need not.

        Raises DiskError.
        """
        self.lock.note_boot(self._disk.identity(self.path / checkpoints.META_PROPERTIES))
        self.may_have_lost = False

    def close(self) -> None:
        """Release the lock."""
        self.lock.release()


def _is_copy(path: Path, lock: DirectoryLock, disk: Disk) -> bool:
    """Return whether a directory was restored, or copied by hand: its meta.properties is no longer the same file."""
    meta = path / checkpoints.META_PROPERTIES
    return disk.exists(meta) and lock.identity not in ("", disk.identity(meta))


def _check_name(path: Path) -> None:
    """Raise StartError for a name that the metadata journal cannot hold, nor a response to a client."""
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError:
        raise StartError(f"the name of data directory {str(path)!a} is not UTF-8: choose another --data-dir") from None


def _take_clean_stop(path: Path, disk: Disk) -> CleanStop | None:
    """Remove the clean-stop marker and return what it says; None without one.

    Raises DiskError; DamagedFile where the metadata journal is not whole: the marker then stays for the next start.
    """
    stop = checkpoints.read_clean_shutdown(path, disk)
    if stop is None:
        return None
    if stop.journal is not None:
        Journal.check_end(path, JOURNAL_NAME, stop.journal, disk)
    checkpoints.remove_clean_shutdown(path, disk)
    return stop


def refuse_strangers(path: Path) -> None:
    """Raise StartError for a directory that holds files, but none of a broker."""
    names = sorted(each.name for each in path.iterdir())
    strangers = [name for name in names if not name.startswith(".") and name not in _NO_STRANGERS]
    if strangers and checkpoints.META_PROPERTIES not in names:
        shown = ", ".join(strangers[:3])
        raise StartError(f"data directory {path} is not empty and not a broker's ({shown}): choose another --data-dir")


def _meta(path: Path, node_id: int, cluster_id: str, disk: Disk, *, is_clustered: bool) -> MetaProperties:
    meta = checkpoints.read_meta_properties(path, disk)
    if meta is None:
        meta = MetaProperties(cluster_id or new_id_text(), node_id, new_id_text(), is_clustered)
        checkpoints.write_meta_properties(path, meta, disk)
    if cluster_id and meta.cluster_id != cluster_id:
        raise StartError(f"data directory {path} belongs to cluster {meta.cluster_id}, the others to {cluster_id}")
    refuse_others(path, meta, node_id, is_clustered=is_clustered)
    is_prepared = meta.node_id == NO_NODE != node_id
    if is_prepared or (is_clustered and not meta.is_clustered):
        meta.node_id, meta.is_clustered = node_id, is_clustered
        checkpoints.write_meta_properties(path, meta, disk)
    return meta


def refuse_others(path: Path, meta: MetaProperties, node_id: int, *, is_clustered: bool) -> None:
    """Raise StartError for a directory of another node, or of a cluster where this broker is alone."""
    if meta.node_id not in (node_id, NO_NODE):
        raise StartError(
            f"data directory {path} belongs to node {meta.node_id}, this broker is node {node_id}: set node.id"
        )
    if meta.is_clustered and not is_clustered:
        # Alone it would lead every partition that it holds, and the cluster would know nothing of what it writes.
        raise StartError(f"data directory {path} belongs to a broker of a cluster: set zookeeper.connect")


def new_id_text() -> str:
    """Return a random UUID as Kafka writes ids: 22 letters of base64 that do not begin with '-'."""
    while True:
        text = urlsafe_b64encode(ids().randbytes(16)).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def _reason(error: OSError | StorageError) -> str:
    """Return what the system says, without the number and the path that Python writes around it."""
    return error.message if isinstance(error, StorageError) else error.strerror or str(error)
