"""A log's directory while it is being deleted: it is renamed to NAME.N-delete first, and its files are removed later.

The rename frees NAME at once. After a crash the name says that the directory is to be removed.
"""

from __future__ import annotations

from pathlib import Path

from .files import DISK, Disk

DELETED_DIR_SUFFIX = "-delete"
# The longest name that file systems allow.
MAX_FILE_NAME_BYTES = 255


def deleted_path(directory: Path, word: str) -> Path:
    """Return the name `NAME.WORD-delete` beside `directory`; the end of a name that is too long is left out."""
    suffix = f".{word}{DELETED_DIR_SUFFIX}"
    return directory.with_name(directory.name[: MAX_FILE_NAME_BYTES - len(suffix)] + suffix)


def remove_directory(directory: Path, disk: Disk = DISK) -> None:
    """Remove a directory and the files in it; it holds no other directories. One that was never made is no error."""
    if not disk.exists(directory):
        return
    for name in disk.sizes(directory):
        disk.unlink(directory / name)
    disk.rmdir(directory)
