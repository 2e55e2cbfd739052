"""Whose the data directory is: locked, marked, and refused in one line where it is somebody else's."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from odradek.broker.log_dirs.data_dir import DataDir, StartError
from odradek.storage import checkpoints
from odradek.storage.files import Disk
from odradek.tests.support.disks.disk import FaultyDisk, PowerCut


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "data"


def start_error(path: Path, node_id: int = 1) -> str:
    with pytest.raises(StartError) as caught:
        DataDir.open(path, node_id)
    line = str(caught.value)
    assert "\n" not in line and str(path) in line
    return line


def test_a_new_one_is_made_and_keeps_its_identity(path: Path) -> None:
    first = DataDir.open(path, 1)
    first.close()
    again = DataDir.open(path, 1)
    assert again.meta == first.meta
    assert len(again.meta.cluster_id) == 22
    again.close()


def test_has_one_owner_at_a_time(path: Path) -> None:
    first = DataDir.open(path, 1)
    assert "in use by another process" in start_error(path)
    first.close()
    DataDir.open(path, 1).close()


def test_is_clean_only_once_after_each_clean_stop(path: Path) -> None:
    first = DataDir.open(path, 1)
    assert not first.clean
    first.mark_clean({}, None)
    first.close()
    second = DataDir.open(path, 1)
    assert second.clean
    second.close()
    third = DataDir.open(path, 1)
    assert not third.clean
    third.close()


@pytest.mark.parametrize(
    ("boots", "may_have_lost"),
    [("1112", [True, True, False, True]), ([""] * 4, [True] * 4)],
    ids=["boots have names", "they have none"],
)
def test_power_may_have_been_cut_until_a_start_of_this_boot_has_dealt_with_it(
    path: Path, boots: Sequence[str], may_have_lost: list[bool]
) -> None:
    disk, found = Disk(), list[bool]()
    for number, boot in enumerate(boots):
        disk.boot_id = partial(str, boot)
        data_dir = DataDir.open(path, 1, disk)
        found.append(data_dir.may_have_lost)
        if number:
            data_dir.note_boot()
        data_dir.close()
    assert found == may_have_lost


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("has_lock", [True, False])
def test_a_copy_is_told_from_the_original_until_it_was_noted(path: Path, is_clean: bool, has_lock: bool) -> None:
    def opened(note: bool = False) -> bool:
        data_dir = DataDir.open(path, 1)
        was_copy = data_dir.is_copy
        if note:
            data_dir.note_boot()
        if is_clean:
            data_dir.mark_clean({}, None)
        data_dir.close()
        return was_copy

    assert [opened(note=True), opened(), opened()] == [False] * 3
    shutil.copytree(path, path.with_name("copy"))
    shutil.rmtree(path)
    path.with_name("copy").rename(path)
    if not has_lock:
        (path / ".lock").unlink()
    assert [opened(), opened(note=True), opened()] == [True, True, False]


def test_the_directory_of_another_node_is_rejected_and_left_unchanged(path: Path) -> None:
    first = DataDir.open(path, 1)
    first.mark_clean({}, None)
    first.close()
    assert "belongs to node 1, this broker is node 2" in start_error(path, 2)
    again = DataDir.open(path, 1)
    assert again.clean
    again.close()


def test_the_directory_of_another_program_is_rejected_and_left_unchanged(path: Path) -> None:
    path.mkdir(parents=True)
    (path / "thesis.txt").write_text("years of work")
    assert "not empty and not a broker's (thesis.txt)" in start_error(path)
    assert os.listdir(path) == ["thesis.txt"]


@pytest.mark.parametrize("name", ["lost+found", "meta.properties.tmp", ".lock"])
def test_a_directory_may_hold_lost_and_found_or_the_rest_of_a_first_start(path: Path, name: str) -> None:
    path.mkdir(parents=True)
    if name == "lost+found":
        (path / name).mkdir()
    else:
        (path / name).write_text("half")
    DataDir.open(path, 1).close()


@pytest.mark.parametrize("content", [b"", b"version=2\ncluster.id=x\nnode.id=1\n", b"node.id=1\n", b"\xff\xfe", b"x"])
def test_a_damaged_identity_is_refused(path: Path, content: bytes) -> None:
    DataDir.open(path, 1).close()
    (path / checkpoints.META_PROPERTIES).write_bytes(content)
    assert "cannot be used" in start_error(path)
    assert "cannot be used" in start_error(path)


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("/proc/odradek", "cannot be written"),
        ("/dev/null", "is no directory"),
        ("/dev/null/data", "cannot be written"),
    ],
)
def test_a_directory_that_cannot_be_written_is_named_in_the_error(place: str, why: str) -> None:
    assert f"{place} {why}" in start_error(Path(place))


def test_a_name_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    """Neither the metadata journal nor a response to a client could hold it."""
    path = tmp_path / os.fsdecode(b"d\xff")
    with pytest.raises(StartError, match=r"d\\udcff' is not UTF-8: choose another --data-dir"):
        DataDir.open(path, 1)
    assert not path.exists()


def test_a_first_start_may_be_cut_at_any_step(tmp_path: Path) -> None:
    disk = FaultyDisk()
    DataDir.open(tmp_path / "whole", 1, disk).close()
    for steps in range(disk.steps):
        path = tmp_path / str(steps)
        disk = FaultyDisk()
        disk.stop_after(steps)
        with pytest.raises(PowerCut):
            DataDir.open(path, 1, disk)
        disk.lose(seed=steps)
        DataDir.open(path, 1, disk).close()
