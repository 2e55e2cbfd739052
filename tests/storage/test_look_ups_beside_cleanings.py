"""Look-ups in a view while its segments are cleaned: the log is sound, and no look-up says otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.protocol.records.batch import encode_batch, read_header
from odradek.protocol.records.record import Record
from odradek.storage.errors import CorruptBatch
from odradek.storage.log import Log, LogConfig
from odradek.storage.producers import ProducerStates
from odradek.tests.storage.batches import append, batch, roll
from odradek.tests.storage.cleaning import clean
from odradek.tests.support.disks import beside_cleanings
from odradek.tests.support.seeds import seeds


@pytest.mark.parametrize("first", seeds([0], range(5, 1_000, 5)))
def test_a_look_up_beside_cleanings_finds_what_the_log_held(tmp_path: Path, first: int) -> None:
    cleanings = sum(beside_cleanings.run(tmp_path / str(seed), seed) for seed in range(first, first + 5))
    assert cleanings > 25


def clean_once_more(log: Log) -> None:
    """Append two records of one key, and clean: the first segment is replaced."""
    for value in (b"v" * 300, b"w" * 20):
        record = Record(-1, 1000 + log.log_end_offset, b"k", value)
        data = encode_batch([record], base_offset=log.log_end_offset)
        log.append(data, read_header(data), 0)
    roll(log, 0)
    clean(log, now_ms=1)


def test_a_segment_that_is_copied_late_is_not_mistaken_for_the_next_that_retires(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(index_interval_bytes=1), clean=True, now_ms=0)
    for _ in range(3):
        clean_once_more(log)
    held = log.segments[0]
    held.release()
    held._indexes = None
    sizes = [held.size]
    view = log.view()
    for _ in range(2):
        clean_once_more(log)
        sizes.append(log.segments[0].size)
    retired = log.take_retired()
    assert len({each.path(".log") for each in retired}) == len(retired)
    assert all(each.path(".log").exists() for each in retired)
    located = view.locate(0, log.log_end_offset)
    assert located is not None
    assert located.end == held.size
    log.learn(view)
    assert not log.damaged_places
    for each in retired:
        each.unlink()
    assert not list(log.directory.glob("*.deleted"))
    log.close()


def test_damage_that_a_view_meets_where_the_log_was_cut_meanwhile_is_not_learned(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", LogConfig(index_interval_bytes=1), clean=True, now_ms=0)
    for offset in range(20):
        append(log, batch(offset))
    view = log.view()
    log.truncate_to(3, ProducerStates())
    for offset in range(3, 8):
        append(log, batch(offset, size=77))
    with pytest.raises(CorruptBatch):
        view.locate(15, 20)
    log.learn(view)
    assert not log.damaged_places
    assert log.view().locate(5, 8) is not None
    log.close()
