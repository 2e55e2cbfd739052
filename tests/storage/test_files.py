from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from odradek.storage.errors import DiskError, LockedError, ShortRead
from odradek.storage.files import DISK, DirectoryLock, FileRange, NotCached


def test_a_range_reads_itself(tmp_path: Path) -> None:
    file = DISK.open(tmp_path / "x", create=True)
    DISK.write(file, b"0123456789", 0)
    held = FileRange(file, 3, 4)
    assert (len(held), held.read(), bytes(held.read_nowait() or b"")) == (4, b"3456", b"3456")
    assert FileRange(file, 3, 0).read() == b""
    assert FileRange(file, 3, 0).read_nowait() == b""


def test_a_range_of_a_file_that_was_cut_is_a_typed_error(tmp_path: Path) -> None:
    file = DISK.open(tmp_path / "x", create=True)
    DISK.write(file, b"0123456789", 0)
    held = FileRange(file, 3, 7)
    DISK.truncate(file, 5)
    with pytest.raises(ShortRead, match=r"x at 3: wanted 7 bytes, found 2"):
        held.read()
    assert held.read_nowait() is None


def test_a_file_closes_with_its_last_reference(tmp_path: Path) -> None:
    file = DISK.open(tmp_path / "x", create=True)
    fd = file.fileno()
    held = FileRange(file, 0, 0)
    del file
    os.fstat(fd)
    del held
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_failures_name_operation_and_path(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match=f"open {tmp_path}/none/x: No such file") as caught:
        DISK.open(tmp_path / "none" / "x", create=True)
    assert (caught.value.operation, caught.value.path, caught.value.errno) == ("open", tmp_path / "none" / "x", 2)


def test_a_missing_file_is_unlinked_already(tmp_path: Path) -> None:
    DISK.unlink(tmp_path / "none")


def test_a_directory_has_one_owner_at_a_time(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    with pytest.raises(LockedError, match=f"pid {os.getpid()}"):
        DirectoryLock(tmp_path)
    program = (
        "import sys, pathlib; from odradek.storage.files import DirectoryLock; DirectoryLock(pathlib.Path(sys.argv[1]))"
    )
    other = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True)
    assert other.returncode == 1
    assert "LockedError" in other.stderr
    lock.release()
    lock.release()
    DirectoryLock(tmp_path).release()


def test_listing_a_directory_passes_over_what_vanishes_meanwhile(tmp_path: Path) -> None:
    # A flush in a thread renames its temporary files while a roll lists the directory. A link to nothing is as such a
    # file is: its name is there, and there is nothing to look at.
    (tmp_path / "there").write_bytes(b"four")
    (tmp_path / "gone.tmp").symlink_to(tmp_path / "nothing")
    assert DISK.sizes(tmp_path) == {"there": 4}


def test_a_large_read_that_needs_no_disk_gives_all_or_nothing(tmp_path: Path) -> None:
    data = bytes(range(256)) * 1000
    (tmp_path / "f").write_bytes(data)
    file = DISK.open(tmp_path / "f")
    assert DISK.read_nowait(file, len(data), 0) == data
    assert DISK.read_nowait(file, len(data) - 1, 1) == data[1:]
    assert DISK.read_nowait(file, len(data), 1) is None
    with pytest.raises(NotCached):
        DISK.read_cached(file, len(data), 1)


def test_bytes_dropped_from_the_page_cache_can_still_be_read(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 10_000)
    file = DISK.open(tmp_path / "f")
    DISK.fsync(file)
    DISK.forget(file, 10_000, 0)
    assert DISK.read(file, 10_000, 0) == b"x" * 10_000
