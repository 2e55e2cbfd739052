"""What a clean stop knows of a log: the next start opens no file of it, and trusts nothing that has changed since."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from odradek.protocol.records.crc import crc32c
from odradek.storage.errors import CorruptBatch, DiskError
from odradek.storage.files import Disk
from odradek.storage.journal import JournalEnd
from odradek.storage.known_logs import KAFKAS_MARKER, CleanStop, KnownLog, decode, encode
from odradek.storage.log import Log, LogConfig
from odradek.tests.storage.batches import append, batch, flip, read_all
from odradek.tests.support.disks.disk import FaultyDisk
from odradek.tests.support.disks.ruled_disk import RuledDisk, allow, disk_error

CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=150)
BATCHES = 12
KNOWN = KnownLog({"0.log": [5, 6]}, 7, 8, 9, [[0, 0], [2, 5]], True)
STOP = CleanStop({"t-0": KNOWN}, JournalEnd(2, 345))


def opened(directory: Path, known: KnownLog | None, disk: Disk, config: LogConfig = CONFIG) -> Log:
    point = known.end_offset if known is not None else 0
    return Log.open(directory, config, clean=True, now_ms=2000, recovery_point=point, known=known, disk=disk)


def written(directory: Path, *, producer_id: int = -1, config: LogConfig = CONFIG) -> tuple[bytes, KnownLog]:
    """Write and close a log; return its bytes and what is known of it."""
    log = opened(directory, None, Disk(), config)
    for number in range(BATCHES):
        append(log, batch(number, producer_id=producer_id, sequence=number, leader_epoch=number // 5))
    data = read_all(log)
    log.close()
    known = log.known()
    assert known is not None
    return data, known


# -- The marker


def test_the_marker_tells_what_was_written_to_it() -> None:
    marker = encode(STOP)
    assert marker.startswith(KAFKAS_MARKER + b"\n")
    assert decode(marker) == STOP


def test_any_damage_of_the_marker_means_that_nothing_is_known() -> None:
    marker = encode(STOP)
    for position in range(len(KAFKAS_MARKER) + 1, len(marker) - 1):
        assert decode(marker[:position] + bytes([marker[position] ^ 1]) + marker[position + 1 :]) == CleanStop({})
    for size in range(len(marker) - 1):
        assert decode(marker[:size]) == CleanStop({})


LATER = json.dumps({"version": 2, "logs": {"t-0": ["something else"]}}).encode()
OF_LATER_VERSION = b"\n".join([KAFKAS_MARKER, b"%d" % crc32c(LATER), LATER, b""])


@pytest.mark.parametrize("marker", [b"", b"{}", KAFKAS_MARKER, KAFKAS_MARKER + b"\n", OF_LATER_VERSION])
def test_a_marker_of_another_program_or_version_tells_nothing_of_logs(marker: bytes) -> None:
    assert decode(marker) == CleanStop({})


def test_the_marker_of_an_earlier_version_knows_no_end_of_the_journal() -> None:
    assert b"journal" not in encode(CleanStop({"t-0": KNOWN}))
    assert decode(encode(CleanStop({"t-0": KNOWN}))) == CleanStop({"t-0": KNOWN}, None)


# -- A log


def test_a_known_log_is_there_without_an_open_file_and_goes_on(tmp_path: Path) -> None:
    data, known = written(tmp_path)
    asked: list[str] = []
    disk = RuledDisk(lambda _, path: asked.append(path.name))
    log = opened(tmp_path, known, disk)
    assert asked == []
    assert (log.log_end_offset, log.recovery_point, log.epochs.latest) == (BATCHES, BATCHES, 2)
    log.close()
    assert asked == [], "nothing has changed that a stop would have to write"
    assert log.known() == known
    log = opened(tmp_path, known, disk)
    assert read_all(log) == data
    more = batch(BATCHES, leader_epoch=2)
    append(log, more)
    assert read_all(log) == data + more
    log.close()
    again = opened(tmp_path, None, Disk())
    assert again.recovery.clean
    assert read_all(again) == data + more


def test_the_producers_of_a_known_log_are_known(tmp_path: Path) -> None:
    _, known = written(tmp_path, producer_id=7)
    asked: set[str] = set()
    log = opened(tmp_path, known, RuledDisk(lambda _, path: asked.add(path.suffix)))
    assert asked == {".snapshot"}
    plain = opened(tmp_path, None, Disk())
    assert dict(log.producers.items()) == dict(plain.producers.items())


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def add(path: Path) -> None:
    (path.parent / "00000000000000000000.txnindex").touch()


@pytest.mark.parametrize("change", [cut, flip, Path.unlink, add])
def test_a_log_that_has_changed_since_the_stop_is_opened(tmp_path: Path, change: Callable[[Path], None]) -> None:
    _, known = written(tmp_path)
    change(max(tmp_path.glob("*.log")))
    log = opened(tmp_path, known, Disk())
    assert not log.segments[-1].is_resting


@pytest.mark.parametrize("config", [CONFIG, LogConfig()])
def test_where_the_end_cannot_be_read_any_more_the_log_goes_on_in_a_new_segment(
    tmp_path: Path, config: LogConfig
) -> None:
    """No offset is given away twice, and what is sound stays."""
    data, known = written(tmp_path, config=config)
    disk = FaultyDisk()
    newest = max(tmp_path.glob("*.log"))
    disk.spoil(newest, newest.stat().st_size - 10, 1)
    log = opened(tmp_path, known, disk, config)
    more = batch(BATCHES, leader_epoch=2)
    append(log, more)
    assert log.segments[-1].base_offset == BATCHES
    assert log.read(BATCHES, 1000, BATCHES + 1).read() == more
    assert log.read(0, 1, BATCHES + 1).read() == data[: len(batch(0))]
    with pytest.raises(CorruptBatch):
        log.read(BATCHES - 1, 1000, BATCHES + 1)
    log.close()
    assert log.known() is None, "the next start opens it, and reports the damage"


def test_a_log_that_lacks_descriptors_at_its_first_append_takes_the_next(tmp_path: Path) -> None:
    data, known = written(tmp_path)

    def refuse(operation: str, path: Path) -> None:
        raise disk_error(operation, path, errno.EMFILE)

    disk = RuledDisk(refuse)
    log = opened(tmp_path, known, disk)
    more = batch(BATCHES, leader_epoch=2)
    with pytest.raises(DiskError, match="Too many open files"):
        append(log, more)
    disk.rule = allow
    append(log, more)
    assert read_all(log) == data + more
