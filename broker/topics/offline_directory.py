"""The data directory of a broker that does not run, for commands that change its metadata.

A new directory belongs to no broker yet: the first one that starts with it makes it its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

from ...storage import checkpoints
from ...storage.files import DISK, Disk
from ..log_dirs.data_dir import DataDir
from ..log_dirs.log_dirs import check_whose
from .metadata_journal import Metadata


class OfflineDirectory:
    """A data directory, locked while it is open. The constructor raises StartError where it cannot be used."""

    def __init__(self, path: Path, disk: Disk = DISK) -> None:
        meta = checkpoints.read_meta_properties(path, disk) if path.is_dir() else None
        check_whose(path, [path], disk)
        self.path, self.disk = path, disk
        self._data_dir = DataDir.open(path, checkpoints.NO_NODE if meta is None else meta.node_id, disk)
        try:
            self.metadata = Metadata(path, disk)
            if not self.metadata.cluster_id:
                self.metadata.set_cluster_id(self._data_dir.meta.cluster_id)
        except BaseException:
            self._data_dir.close()
            raise
        self._is_clean = self._data_dir.clean or not self.metadata.topics

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Release the directory; its logs are as clean as they were."""
        try:
            self.metadata.close()
            if self._is_clean:
                self._data_dir.mark_clean(self._data_dir.known_logs, self.metadata.journal_end)
        finally:
            self._data_dir.close()
