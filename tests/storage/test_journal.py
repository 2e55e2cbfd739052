from __future__ import annotations

import stat
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.storage.errors import DamagedFile, DiskError, LogClosed, StorageError
from odradek.storage.files import DISK
from odradek.storage.journal import FRAME_MAX_BYTES, Journal
from odradek.tests.support.disks.disk import FaultyDisk, PowerCut
from odradek.tests.support.seeds import examples

Record = dict[str, Any]
NAME = "metadata"


def opened(directory: Path, disk=DISK) -> Journal:
    return Journal.open(directory, NAME, disk)


def records(directory: Path, disk=DISK) -> list[Record]:
    return opened(directory, disk).records


def tail(directory: Path) -> Path:
    (path,) = directory.glob("*.journal")
    return path


def test_records_come_back_in_order(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    assert journal.records == []
    journal.append([{"type": "topic", "name": "flights", "id": bytes(16), "partitions": 6, "configs": {"a": "b"}}])
    journal.append([{"n": 1}, {"n": -(2**63)}, {"n": None}])
    journal.close()
    assert records(tmp_path) == [
        {"type": "topic", "name": "flights", "id": bytes(16), "partitions": 6, "configs": {"a": "b"}},
        {"n": 1},
        {"n": -(2**63)},
        {"n": None},
    ]


def test_a_snapshot_takes_the_place_of_what_was_before(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    for number in range(5):
        journal.append([{"n": number}])
    journal.snapshot([{"sum": 10}])
    journal.append([{"n": 5}])
    assert records(tmp_path) == [{"sum": 10}, {"n": 5}]
    journal.snapshot([])
    assert records(tmp_path) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "metadata-0000000002.journal",
        "metadata-0000000002.snapshot",
    ]


def test_two_journals_share_a_directory(tmp_path: Path) -> None:
    first, second = Journal.open(tmp_path, "a"), Journal.open(tmp_path, "a-b")
    first.append([{"n": 1}])
    second.append([{"n": 2}])
    second.snapshot([{"n": 3}])
    first.snapshot([{"n": 4}])
    assert Journal.open(tmp_path, "a").records == [{"n": 4}]
    assert Journal.open(tmp_path, "a-b").records == [{"n": 3}]


def test_a_closed_journal_takes_nothing(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.close()
    journal.close()
    for attempt in (lambda: journal.append([{}]), lambda: journal.snapshot([])):
        with pytest.raises(LogClosed):
            attempt()


def test_records_that_no_frame_could_hold_are_refused(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    with pytest.raises(StorageError, match="exceed"):
        journal.append([{"value": bytes(FRAME_MAX_BYTES)}])
    journal.append([{"n": 1}])
    assert records(tmp_path) == [{"n": 1}]


# -- crashes ------------------------------------------------------------------------------------------

operations = st.lists(
    st.one_of(
        st.tuples(
            st.just("append"), st.lists(st.fixed_dictionaries({"n": st.integers(0, 300)}), min_size=1, max_size=3)
        ),
        st.tuples(st.just("snapshot"), st.just([])),
    ),
    max_size=6,
)

SCRIPT: list[tuple[str, list[Record]]] = [
    ("append", [{"n": 1}]),
    ("append", [{"n": 2}, {"n": 3}]),
    ("snapshot", []),
    ("append", [{"n": 4}]),
    ("snapshot", []),
    ("append", [{"n": 5}]),
]


def run(journal: Journal, script: list[tuple[str, list[Record]]], states: list[list[Record]]) -> None:
    """Do what `script` says; `states` gets the state before and after each operation as it begins."""
    state = list(journal.records)
    for kind, records in script:
        state = state + records if kind == "append" else [{"was": len(state)}]
        states.append(state)
        if kind == "append":
            journal.append(records)
        else:
            journal.snapshot(state)
        del states[0]


def crash(
    directory: Path, script: list[tuple[str, list[Record]]], steps: int, end: Callable[[FaultyDisk], None]
) -> bool:
    """Stop `script` after `steps`: the state before or after the operation that was cut must be there. Then go on."""
    disk = FaultyDisk()
    states: list[list[Record]] = [[]]
    disk.stop_after(steps)
    finished = False
    with suppress(PowerCut):
        run(opened(directory, disk), script, states)
        finished = True
    end(disk)
    found = records(directory, disk)
    assert found in states
    journal = opened(directory, disk)
    journal.append([{"after": 1}])
    journal.snapshot([*found, {"after": 2}])
    end(disk)
    assert records(directory, disk) == [*found, {"after": 2}]
    return finished


@pytest.mark.parametrize("loses", [False, True])
def test_a_crash_at_every_byte_leaves_the_state_before_or_after(tmp_path: Path, loses: bool) -> None:
    for steps in range(2000):
        end = partial(FaultyDisk.lose, seed=steps) if loses else FaultyDisk.kill
        if crash(tmp_path / str(steps), SCRIPT, steps, end):
            return
    raise AssertionError("never done")


@given(operations, st.integers(0, 600), st.integers(0, 100))
@settings(max_examples=examples(60))
def test_a_power_cut_anywhere_in_any_script_leaves_before_or_after(
    script: list[tuple[str, list[Record]]], steps: int, seed: int
) -> None:
    with TemporaryDirectory() as directory:
        crash(Path(directory), script, steps, lambda disk: disk.lose(seed))


def test_a_torn_last_frame_is_cut_off_whatever_is_left_of_it(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.append([{"n": 1}])
    whole = tail(tmp_path).read_bytes()
    journal.append([{"n": 2}])
    both = tail(tmp_path).read_bytes()
    torn = [both[:size] + bytes(zeros) for size in range(len(whole), len(both)) for zeros in (0, len(both) - size)]
    # The length and the CRC of an empty frame are zeros, too.
    for left in [*torn, *(whole + bytes(size) for size in range(1, 40))]:
        tail(tmp_path).write_bytes(left)
        journal = opened(tmp_path)
        assert journal.records == [{"n": 1}]
        assert tail(tmp_path).read_bytes() == whole


def test_damage_in_the_middle_is_named_and_nothing_is_dropped(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    ends = [8]
    for number in range(4):
        journal.append([{"n": number}])
        ends.append(tail(tmp_path).stat().st_size)
    good = tail(tmp_path).read_bytes()
    for position in range(ends[0], ends[3]):
        bad = bytearray(good)
        bad[position] ^= 0x55
        tail(tmp_path).write_bytes(bad)
        with pytest.raises(DamagedFile) as caught:
            opened(tmp_path)
        assert caught.value.path == tail(tmp_path)
        assert caught.value.position in ends[:3]
        assert caught.value.position <= position
        assert tail(tmp_path).read_bytes() == bad


def test_any_damage_of_a_snapshot_is_named(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.snapshot([{"n": 1}, {"n": 2}])
    (path,) = tmp_path.glob("*.snapshot")
    good = path.read_bytes()
    for position in range(len(good)):
        for bad in (good[:position] + bytes([good[position] ^ 0x10]) + good[position + 1 :], good[:position]):
            path.write_bytes(bad)
            with pytest.raises(DamagedFile, match="snapshot"):
                opened(tmp_path)
    path.unlink()
    with pytest.raises(DamagedFile, match="missing"):
        opened(tmp_path)


def test_a_file_that_no_crash_could_leave_is_rejected(tmp_path: Path) -> None:
    opened(tmp_path).append([{"n": 1}])
    whole = tail(tmp_path).read_bytes()
    for left in (b"", b"ODR", b"ODRJ\0\0\0\0", bytes(40), b"ODRJRNL1" + b"garbage"):
        tail(tmp_path).write_bytes(left)
        assert opened(tmp_path).records == []
    for of_another_format in (b"garbage from the first byte on", b"ODRJRNL2" + whole[8:]):
        tail(tmp_path).write_bytes(of_another_format)
        with pytest.raises(DamagedFile, match="does not begin with"):
            opened(tmp_path)


# -- disks that refuse ---------------------------------------------------------------------------------


def test_after_a_full_disk_the_journal_goes_on(tmp_path: Path) -> None:
    disk = FaultyDisk()
    journal = opened(tmp_path, disk)
    journal.append([{"n": 1}])
    for room in range(13):
        disk.room_bytes = room
        with pytest.raises(DiskError, match="No space"):
            journal.append([{"n": 2}])
        disk.room_bytes = room
        with pytest.raises(DiskError, match="No space"):
            journal.snapshot([{"n": 9}])
    disk.room_bytes = None
    journal.append([{"n": 3}])
    assert records(tmp_path) == [{"n": 1}, {"n": 3}]


def test_a_flipped_bit_in_the_last_frame_stops_the_start(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.append([{"n": 1}])
    position = tail(tmp_path).stat().st_size
    journal.append([{"type": "topic", "name": "flights", "id": "x" * 16}])
    journal.close()
    good = tail(tmp_path).read_bytes()
    for bit in range(position * 8, len(good) * 8):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        tail(tmp_path).write_bytes(bad)
        with pytest.raises(DamagedFile, match=f"cut it at byte {position} ") as caught:
            opened(tmp_path)
        assert (caught.value.path, caught.value.position) == (tail(tmp_path), position)
        assert tail(tmp_path).read_bytes() == bad


def test_after_a_failed_fsync_it_takes_nothing_more_and_the_frame_is_not_believed(tmp_path: Path) -> None:
    disk = FaultyDisk()
    journal = opened(tmp_path, disk)
    journal.append([{"n": 1}])
    disk.fsync_fails = True
    with pytest.raises(DiskError, match="fsync"):
        journal.append([{"n": 2}])
    disk.fsync_fails = False
    with pytest.raises(LogClosed, match="fsync"):
        journal.append([{"n": 2}])
    disk.kill()
    journal = opened(tmp_path, disk)
    assert journal.records == [{"n": 1}]
    journal.append([{"n": 3}])
    disk.lose(1)
    assert records(tmp_path, disk) == [{"n": 1}, {"n": 3}]


def test_a_start_syncs_the_journal_before_it_relies_on_it(tmp_path: Path) -> None:
    for seed in range(20):
        directory, disk = tmp_path / str(seed), FaultyDisk()
        journal = opened(directory, disk)
        journal.append([{"n": 1}])
        journal.append([{"n": 2}])
        # Killed between the write and the fsync.
        node = next(node for path, node in disk._live.items() if path == tail(directory))
        node.platter = node.platter[:30]
        disk.kill()
        found = records(directory, disk)
        disk.lose(seed)
        assert records(directory, disk) == found


def test_nobody_else_can_read_it_also_where_an_earlier_version_has_made_it(tmp_path: Path) -> None:
    def modes() -> set[int]:
        return {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}

    journal = Journal.open(tmp_path, "x")
    journal.append([{"a": 1}])
    assert modes() == {0o600}
    journal.snapshot([{"a": 1}])
    journal.append([{"a": 2}])
    assert modes() == {0o600}
    journal.close()
    for path in tmp_path.iterdir():
        path.chmod(0o644)
    Journal.open(tmp_path, "x").close()
    assert modes() == {0o600}
