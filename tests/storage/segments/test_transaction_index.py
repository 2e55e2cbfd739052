"""The index of aborted transactions: its bytes, and what is asked of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.storage.errors import DamagedFile
from odradek.storage.segments.transaction_index import ENTRY_BYTES, AbortedTransaction, TransactionIndex

# Kafka 4.3.1's DumpLogSegments reads this file as
#     version: 0 producerId: 1 firstOffset: 0 lastOffset: 3 lastStableOffset: 1
#     version: 0 producerId: 2 firstOffset: 1 lastOffset: 5 lastStableOffset: 6
GOLDEN = bytes.fromhex(
    "0000 0000000000000001 0000000000000000 0000000000000003 0000000000000001"
    "0000 0000000000000002 0000000000000001 0000000000000005 0000000000000006"
)
ENTRIES = [AbortedTransaction(1, 0, 3, 1), AbortedTransaction(2, 1, 5, 6)]


def test_the_bytes_are_kafkas(tmp_path: Path) -> None:
    index = TransactionIndex(tmp_path / "0.txnindex")
    for entry in ENTRIES:
        index.append(entry)
    assert index.path.read_bytes() == GOLDEN
    assert TransactionIndex(index.path, len(GOLDEN)).entries() == ENTRIES


def test_there_is_no_file_before_the_first_entry(tmp_path: Path) -> None:
    index = TransactionIndex(tmp_path / "0.txnindex")
    assert index.collect(0, 100) == ([], False)
    index.sync()
    index.trim()
    assert not index.path.exists()


def test_a_file_that_ends_inside_an_entry_is_known_by_its_size(tmp_path: Path) -> None:
    index = TransactionIndex(tmp_path / "0.txnindex")
    assert index.found(2 * ENTRY_BYTES)
    assert not index.found(2 * ENTRY_BYTES + 1)


@pytest.mark.parametrize("data", [GOLDEN[:-1], b"\0\1" + GOLDEN[2:]])
def test_damage_is_an_error_not_an_answer(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "0.txnindex").write_bytes(data)
    index = TransactionIndex(tmp_path / "0.txnindex", len(GOLDEN))
    with pytest.raises(DamagedFile):
        index.entries()


def test_an_entry_taken_back_is_written_over(tmp_path: Path) -> None:
    index = TransactionIndex(tmp_path / "0.txnindex")
    index.append(ENTRIES[0])
    index.append(AbortedTransaction(9, 9, 9, 9))
    index.drop_last()
    index.append(ENTRIES[1])
    assert index.path.read_bytes() == GOLDEN


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 3)), max_size=12), st.integers(0, 40), st.integers(0, 40))
def test_a_look_up_returns_the_transactions_that_overlap_the_range(
    tmp_path_factory: pytest.TempPathFactory, shapes: list[tuple[int, int]], offset: int, up_to: int
) -> None:
    index = TransactionIndex(tmp_path_factory.mktemp("index") / "0.txnindex")
    entries, last, stable = [], 0, 0
    for reach, step in shapes:
        last += step
        stable = max(stable, last + 1 - step)
        entries.append(AbortedTransaction(1, max(last - reach, 0), last, stable))
        index.append(entries[-1])
    # From the first whose last stable offset reaches the end on, nothing can matter: it is the last one looked at.
    late = [each for each in entries if each.last_offset >= offset]
    decisive = next((at for at, each in enumerate(late) if each.last_stable_offset >= up_to), None)
    seen = late if decisive is None else late[: decisive + 1]
    assert index.collect(offset, up_to) == ([each for each in seen if each.first_offset < up_to], decisive is not None)
    index.truncate_to(offset)
    assert index.entries() == [each for each in entries if each.last_offset < offset]
