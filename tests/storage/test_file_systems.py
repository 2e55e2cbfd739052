"""Reads that need no disk: in the page cache, on a file system in memory, and where the system cannot tell."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.storage import page_cache, system_calls
from odradek.storage.files import DISK, File, FileRange, NotCached

SHM = Path("/dev/shm")


@pytest.fixture
def in_memory() -> Iterator[Path]:
    if not SHM.is_dir() or not os.access(SHM, os.W_OK):
        pytest.skip(f"{SHM} is not there")
    with tempfile.TemporaryDirectory(dir=SHM) as name:
        yield Path(name)


@pytest.fixture
def without_nowait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system such as macOS."""
    monkeypatch.delattr(os, "RWF_NOWAIT", raising=False)
    monkeypatch.setattr(system_calls, "NOWAIT", None)


def written(directory: Path) -> File:
    file = DISK.open(directory / "x", create=True)
    DISK.write(file, b"0123456789", 0)
    return file


def test_a_file_on_tmpfs_is_always_in_memory(in_memory: Path) -> None:
    file = written(in_memory)
    assert bytes(DISK.read_cached(file, 4, 3)) == b"3456"
    assert bytes(FileRange(file, 8, 2).read_nowait() or b"") == b"89"
    # Fewer bytes than wanted are for the read that raises ShortRead.
    assert DISK.read_nowait(file, 4, 8) is None


def test_a_system_without_the_flag_reads_in_threads(on_disk: Path, without_nowait: None) -> None:
    file = written(on_disk)
    with pytest.raises(NotCached):
        DISK.read_cached(file, 4, 3)
    assert FileRange(file, 3, 4).read_nowait() is None
    assert FileRange(file, 3, 4).read() == b"3456"


def test_a_file_system_that_rejects_the_flag_is_asked_once_a_file(
    on_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as NFS: it has a disk somewhere, so that a read may wait."""
    file, calls = written(on_disk), []

    def rejected(*arguments: object) -> int:
        calls.append(arguments)
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(system_calls, "READ_WITH_FLAGS", rejected)
    for _ in range(3):
        assert DISK.read_nowait(file, 4, 3) is None
    assert len(calls) == 1


def test_a_cold_byte_is_not_taken_for_a_missing_flag(on_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(on_disk)

    def cold(*arguments: object) -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    with monkeypatch.context() as patched:
        patched.setattr(system_calls, "READ_WITH_FLAGS", cold)
        assert DISK.read_nowait(file, 4, 3) is None
    assert bytes(DISK.read_cached(file, 4, 3)) == b"3456"


@pytest.mark.parametrize(
    ("system", "release", "file_system", "is_trusted"),
    [
        ("linux", "5.17.0-1-amd64", "ext4", True),
        ("linux", "6.18.44", "xfs", True),
        ("linux", "5.16.9", "ext4", False),
        ("linux", "4.19", "xfs", False),
        ("linux", "odd", "ext4", False),
        ("linux", "6.18.44", "nfs4", False),
        ("linux", "6.18.44", "", False),
        ("darwin", "23.1.0", "ext4", False),
    ],
)
def test_one_call_forces_all_files_to_disk_only_where_it_tells_of_lost_writes(
    on_disk: Path, monkeypatch: pytest.MonkeyPatch, system: str, release: str, file_system: str, is_trusted: bool
) -> None:
    monkeypatch.setattr(page_cache.sys, "platform", system)
    monkeypatch.setattr(page_cache.platform, "release", lambda: release)
    monkeypatch.setattr(page_cache, "_type_of", lambda device: file_system)
    assert (page_cache.syncfs_of(written(on_disk).fd) is not None) == is_trusted


def test_forcing_the_whole_file_system_says_whether_it_was_possible(on_disk: Path) -> None:
    file = written(on_disk)
    assert DISK.fsync_all(file) == (page_cache.syncfs_of(file.fd) is not None)
