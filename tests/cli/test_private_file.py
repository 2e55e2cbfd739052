"""Private files are replaced as a whole: also where the disk is full, and after a power cut."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.cli.errors import CliError
from odradek.cli.private_file import write_private
from odradek.storage import files
from odradek.testing.lossy_disk import LossyDisk
from odradek.tests.support.disks.ruled_disk import FullDisk


def test_after_a_power_cut_a_file_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, disk = tmp_path / "file", LossyDisk()
    monkeypatch.setattr(files, "DISK", disk)
    for text in ("one", "two"):
        write_private(path, text)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("two", 0o600)
    assert {disk.after_power_cut(seed).get(path) for seed in range(100)} <= {None, b"one", b"two"}


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_private(tmp_path / "file", "one")
    monkeypatch.setattr(files, "DISK", FullDisk(lambda _: True))
    with pytest.raises(CliError, match="file cannot be written: No space"):
        write_private(tmp_path / "file", "two")
    assert (tmp_path / "file").read_text() == "one"
