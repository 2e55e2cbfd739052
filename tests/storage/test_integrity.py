"""What `verify` finds in a folder, and that `repair` does what a start would."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.storage.integrity import CUT, KNOWN, REBUILT, REMOVED, SERVED, repair, segment_files, verify
from odradek.storage.log import Log, LogConfig
from odradek.tests.storage.batches import append, batch, flip, headers_of
from odradek.tests.support.seeds import examples

CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=150)
COUNT = 30


def opened(directory: Path, *, clean: bool = False, point: int = 0) -> Log:
    return Log.open(directory, CONFIG, clean=clean, now_ms=1000, recovery_point=point)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of so many batches of one size, closed cleanly; timestamps go up and down."""
    directory = tmp_path_factory.mktemp("whole") / "t-0"
    log = opened(directory)
    for n in range(COUNT):
        append(log, batch(n, timestamp_ms=1000 + n * 7 % 23, producer_id=3, sequence=n, leader_epoch=n // 12))
    log.close()
    return directory


@pytest.fixture
def directory(whole: Path, tmp_path: Path) -> Path:
    """A copy to be damaged."""
    return Path(shutil.copytree(whole, tmp_path / "t-0"))


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_sound_log_has_no_findings_and_is_read_whole(directory: Path) -> None:
    before, read = contents(directory), 0

    def progress(size: int) -> None:
        nonlocal read
        read += size

    assert list(verify(directory, COUNT, progress)) == []
    assert read == sum(size for _, _, size in segment_files(directory))
    assert contents(directory) == before


@settings(max_examples=examples(150), deadline=None)
@given(at=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), data=st.data())
def test_no_flipped_bit_of_any_file_goes_unseen(whole: Path, at: float, bit: int, data: st.DataObject) -> None:
    names = sorted(
        path.name for path in whole.iterdir() if path.stat().st_size and path.suffix in (".log", ".index", ".snapshot")
    )
    name = data.draw(st.sampled_from(names))
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(shutil.copytree(whole, Path(folder) / "t-0"))
        position = int(at * (directory / name).stat().st_size)
        one = len(batch(0, producer_id=3))
        is_last = name == segment_files(directory)[-1][1].name and position >= (directory / name).stat().st_size - one
        # No CRC covers the leader epoch, nor the offset: that of the last batch may be any that is larger.
        if name.endswith(".log") and position % one in (range(16) if is_last else range(12, 16)):
            return
        flip(directory / name, position, bit)
        found = list(verify(directory, COUNT))
        assert name in {each.path.name for each in found} or (name.endswith(".log") and found)


def test_damage_below_the_recovery_point_stays_and_past_it_is_cut(directory: Path) -> None:
    (base, path, size), *later = segment_files(directory)[1:]
    one = len(batch(0, producer_id=3))
    flip(path, 2 * one + 30)
    (stays,) = verify(directory, COUNT)
    assert (stays.path, stays.position, stays.size, stays.at_start) == (path, 2 * one, one, SERVED)
    assert "CRC" in stays.why
    cut, *rest = verify(directory, base)
    assert (cut.path, cut.position, cut.size, cut.at_start) == (path, 2 * one, size - 2 * one, CUT)
    assert [(each.path, each.at_start) for each in rest] == [(path, CUT) for _, path, _ in later]


def test_a_repair_cuts_only_what_the_check_reported(directory: Path) -> None:
    (base, path, _), *_ = segment_files(directory)[1:]
    flip(path, 30)
    findings = list(verify(directory, base))
    report, end = repair(directory, base, 0, findings, 1000)
    assert end == base
    assert {(each.path, each.size) for each in report.cuts} == {(each.path, each.size) for each in findings}
    assert list(verify(directory, end)) == []
    assert [header.base_offset for header in headers_of(opened(directory, point=end))] == list(range(base))


def test_a_repair_leaves_damage_below_the_recovery_point_where_it_is(directory: Path) -> None:
    path = segment_files(directory)[0][1]
    flip(path, 10)
    before = path.read_bytes()
    findings = list(verify(directory, COUNT))
    report, end = repair(directory, COUNT, 0, findings, 1000)
    assert (report.cuts, end) == ([], COUNT)
    assert path.read_bytes() == before
    assert [each.at_start for each in verify(directory, COUNT)] == [KNOWN]


INDEX_DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "not whole entries": lambda path: path.write_bytes(path.read_bytes() + b"\1"),
    "too long": lambda path: path.write_bytes(path.read_bytes() + b"\x7f" * 24),
    "a wrong entry": lambda path: flip(path, 3),
}


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", INDEX_DAMAGES)
def test_an_index_that_does_not_agree_is_found_and_built_again(directory: Path, suffix: str, damage: str) -> None:
    path = segment_files(directory)[1][1].with_suffix(suffix)
    INDEX_DAMAGES[damage](path)
    (found,) = findings = list(verify(directory, COUNT))
    assert (found.path, found.at_start) == (path, REBUILT)
    report, _ = repair(directory, COUNT, 0, findings, 1000)
    assert report.cuts == []
    assert list(verify(directory, COUNT)) == []


def test_the_zeros_that_a_killed_kafka_leaves_are_no_finding(directory: Path) -> None:
    for suffix in (".index", ".timeindex"):
        path = segment_files(directory)[1][1].with_suffix(suffix)
        path.write_bytes(path.read_bytes() + bytes(240))
    assert list(verify(directory, COUNT)) == []


def test_indexes_past_the_recovery_point_are_built_again_anyway(directory: Path) -> None:
    path = segment_files(directory)[-1][1].with_suffix(".timeindex")
    path.unlink()
    assert list(verify(directory, COUNT - 1)) == []


def test_small_files_that_do_not_parse_are_found(directory: Path) -> None:
    snapshot = sorted(directory.glob("*.snapshot"))[0]
    flip(snapshot, 20)
    (directory / "leader-epoch-checkpoint").write_text("0\n5\n")
    (directory / "partition.metadata").write_text("?")
    found = {(each.path.name, each.at_start) for each in verify(directory, COUNT)}
    expected = {(snapshot.name, REMOVED), ("leader-epoch-checkpoint", REBUILT), ("partition.metadata", "made again")}
    assert found == expected
