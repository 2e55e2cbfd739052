"""What a running broker holds for a backup: links to its files, and how much of each belongs to one moment.

    DATA-DIR/backup.HEX-delete/1, 2, ...        links to files that may grow or lose their names meanwhile
    DATA-DIR/backup.HEX-delete/contents.json    {"files": [[path, link, bytes], ...], "texts": [[path, text], ...]}

`path` is where the file belongs in a data directory; of a link only the first `bytes` are copied. The directory is
named as that of a deleted partition, so that the next start removes it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, cast

from .deleted_directory import DELETED_DIR_SUFFIX
from .errors import DamagedFile
from .files import DISK, Disk

CONTENTS = "contents.json"


@dataclass(slots=True)
class Held:
    """What a backup takes from one data directory."""

    directory: Path
    # Path in the data directory, name of the link, bytes.
    files: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])
    # Path in the data directory, and the whole text of the file.
    texts: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def write(self, disk: Disk = DISK) -> None:
        """Write `contents.json`. It needs no fsync: after a power cut nobody asks for it."""
        text = json.dumps({"files": self.files, "texts": self.texts})
        disk.write_atomically(self.directory / CONTENTS, text.encode(), durable=False)

    @classmethod
    def read(cls, directory: Path) -> Held:
        """Read it. Raises DamagedFile, DiskError."""
        path = directory / CONTENTS
        try:
            found: Any = json.loads(DISK.read_file(path))
            files = [(str(name), str(link), int(size)) for name, link, size in cast("list[Any]", found["files"])]
            texts = [(str(name), str(text)) for name, text in cast("list[Any]", found["texts"])]
        except (ValueError, TypeError, KeyError) as error:
            raise DamagedFile(path, 0, str(error)) from error
        for name in [*(name for name, _, _ in files), *(name for name, _ in texts)]:
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                raise DamagedFile(path, 0, f"{name!r} is no file of a data directory")
        for _, link, _ in files:
            if not link.isdecimal():
                raise DamagedFile(path, 0, f"{link!r} is no link")
        return cls(directory, files, texts)

    @property
    def size_bytes(self) -> int:
        return sum(size for _, _, size in self.files)


def held_path(data_dir: Path, number: int) -> Path:
    """Return the directory for the links of backup `number` in a data directory."""
    return data_dir / f"backup.{number:x}{DELETED_DIR_SUFFIX}"
