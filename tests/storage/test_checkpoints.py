from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from odradek.storage import checkpoints
from odradek.storage.checkpoints import MetaProperties
from odradek.storage.errors import DamagedFile
from odradek.storage.journal import JournalEnd
from odradek.storage.known_logs import CleanStop
from odradek.tests.support.disks.disk import FaultyDisk, PowerCut

TOPIC_ID = bytes(range(16))
META = MetaProperties("5L6g3nShT-eMCtK--X86sw", 1, "9c5YtKjoSdSRiv4kOEGI3A")


def test_offsets_are_kafkas_text_and_come_back(tmp_path: Path) -> None:
    path = tmp_path / checkpoints.RECOVERY_POINT
    offsets = {("flights", 0): 12, ("flights", 11): 0, ("a.b_c-d", 3): 2**63 - 1}
    checkpoints.write_offsets(path, offsets)
    assert path.read_text() == f"0\n3\nflights 0 12\nflights 11 0\na.b_c-d 3 {2**63 - 1}\n"
    assert checkpoints.read_offsets(path) == offsets


def test_a_missing_file_is_an_empty_one(tmp_path: Path) -> None:
    assert checkpoints.read_offsets(tmp_path / "none") == {}
    assert checkpoints.read_meta_properties(tmp_path) is None
    assert checkpoints.read_partition_metadata(tmp_path) is None
    assert checkpoints.read_clean_shutdown(tmp_path) is None


BAD_OFFSETS = ["", "0", "7\n0\n", "0\nx\n", "0\n2\nt 0 5\n", "0\n1\nt 0\n", "0\n1\nt x 5\n", "0\n1\nt 0 5 6\n", "\xff"]


@pytest.mark.parametrize("text", BAD_OFFSETS)
def test_damaged_offsets_name_the_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / checkpoints.LOG_START
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(DamagedFile, match=checkpoints.LOG_START) as caught:
        checkpoints.read_offsets(path)
    assert caught.value.path == path


def test_the_clean_marker_is_taken_once(tmp_path: Path) -> None:
    stop = CleanStop({}, JournalEnd(3, 4))
    checkpoints.write_clean_shutdown(tmp_path, stop)
    assert checkpoints.read_clean_shutdown(tmp_path) == stop
    checkpoints.remove_clean_shutdown(tmp_path)
    assert checkpoints.read_clean_shutdown(tmp_path) is None


def test_meta_properties_come_back(tmp_path: Path) -> None:
    checkpoints.write_meta_properties(tmp_path, META)
    assert (tmp_path / "meta.properties").read_text().splitlines() == [
        "version=1",
        "cluster.id=5L6g3nShT-eMCtK--X86sw",
        "node.id=1",
        "directory.id=9c5YtKjoSdSRiv4kOEGI3A",
    ]
    assert checkpoints.read_meta_properties(tmp_path) == META


def test_meta_properties_as_kafka_writes_them_are_read(tmp_path: Path) -> None:
    text = "#\n#Fri Oct 02 10:00:00 UTC 2026\ncluster.id=x\nversion=1\ndirectory.id=y\nnode.id=7\n"
    (tmp_path / "meta.properties").write_text(text)
    assert checkpoints.read_meta_properties(tmp_path) == MetaProperties("x", 7, "y")


BAD_META = [
    "",
    "version=1\n",
    "version=0\ncluster.id=x\nnode.id=1\n",
    "version=1\ncluster.id=x\nnode.id=me\n",
    "nonsense\n",
]


@pytest.mark.parametrize("text", BAD_META)
def test_damaged_meta_properties_name_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(DamagedFile, match=r"meta\.properties"):
        checkpoints.read_meta_properties(tmp_path)


def test_partition_metadata_comes_back(tmp_path: Path) -> None:
    checkpoints.write_partition_metadata(tmp_path, TOPIC_ID)
    assert (tmp_path / "partition.metadata").read_text() == "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert checkpoints.read_partition_metadata(tmp_path) == TOPIC_ID


BAD_IDS = ["", "version: 0\n", "version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw", "version: 0\ntopic_id: AAEC"]


@pytest.mark.parametrize("text", BAD_IDS)
def test_damaged_partition_metadata_names_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "partition.metadata").write_text(text)
    with pytest.raises(DamagedFile, match=r"partition\.metadata"):
        checkpoints.read_partition_metadata(tmp_path)


@pytest.mark.parametrize("end", [lambda disk, seed: disk.kill(), lambda disk, seed: disk.lose(seed)])
def test_a_crash_at_any_byte_leaves_the_old_or_the_new(tmp_path: Path, end: Callable[[FaultyDisk, int], None]) -> None:
    path = tmp_path / checkpoints.RECOVERY_POINT
    old, new = {("t", 0): 5}, {("t", 0): 77777, ("u", 1): 3}
    for steps in range(1000):
        disk = FaultyDisk()
        checkpoints.write_offsets(path, old, disk)
        disk.stop_after(steps)
        try:
            checkpoints.write_offsets(path, new, disk)
        except PowerCut:
            end(disk, steps)
            assert checkpoints.read_offsets(path) in (old, new)
        else:
            disk.lose(steps)
            assert checkpoints.read_offsets(path) == new
            return
    raise AssertionError("never done")
