"""A log's directory on its way out: NAME.N-delete, so that NAME is free at once and a crash leaves what to do next."""

from __future__ import annotations

from pathlib import Path

from .files import DISK, Disk

DELETED_SUFFIX = "-delete"
# What file systems allow.
MAX_FILE_NAME = 255


def aside(directory: Path, number: int) -> Path:
    """Return what `directory` is called then; a name that is too long with it loses its end."""
    suffix = f".{number}{DELETED_SUFFIX}"
    return directory.with_name(directory.name[: MAX_FILE_NAME - len(suffix)] + suffix)


def remove_set_aside(directory: Path, disk: Disk = DISK) -> None:
    """Remove a directory that was set aside, with the files in it."""
    for name in disk.sizes(directory):
        disk.unlink(directory / name)
    disk.rmdir(directory)
