from __future__ import annotations

from pathlib import Path

import pytest
from odradek.storage.errors import DamagedFile
from odradek.storage.leader_epochs import LeaderEpochs


@pytest.fixture
def epochs(tmp_path: Path) -> LeaderEpochs:
    epochs = LeaderEpochs.load(tmp_path)
    for epoch, start in [(0, 0), (2, 10), (5, 30)]:
        epochs.assign(epoch, start)
    return epochs


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 10)),
        (1, (0, 10)),
        (2, (2, 30)),
        (4, (2, 30)),
        (5, (5, 99)),
        (6, (-1, -1)),
    ],
)
def test_an_epoch_ends_where_the_next_one_begins(epochs: LeaderEpochs, asked: int, answer: tuple[int, int]) -> None:
    assert epochs.end_offset_for(asked, 99) == answer


def test_an_epoch_older_than_all_ends_where_the_first_begins(tmp_path: Path) -> None:
    epochs = LeaderEpochs(tmp_path / "x", ((3, 50),))
    assert epochs.end_offset_for(1, 99) == (1, 50)


def test_a_log_without_epochs_knows_none(tmp_path: Path) -> None:
    epochs = LeaderEpochs.load(tmp_path)
    assert (epochs.latest, epochs.end_offset_for(0, 5), epochs.epoch_for(0)) == (-1, (-1, -1), -1)


def test_the_epoch_of_an_offset(epochs: LeaderEpochs) -> None:
    assert [epochs.epoch_for(offset) for offset in (0, 9, 10, 29, 30, 1000)] == [0, 0, 2, 2, 5, 5]


def test_an_older_or_the_same_epoch_is_not_noted_again(epochs: LeaderEpochs) -> None:
    before = epochs.entries
    epochs.assign(5, 40)
    epochs.assign(1, 50)
    assert epochs.entries == before


def test_an_epoch_that_wrote_nothing_gives_way(epochs: LeaderEpochs) -> None:
    epochs.assign(6, 30)
    assert epochs.entries == ((0, 0), (2, 10), (6, 30))


def test_truncating_from_both_ends(epochs: LeaderEpochs) -> None:
    epochs.truncate_from_end(30)
    assert (epochs.entries, epochs.latest) == (((0, 0), (2, 10)), 2)
    epochs.truncate_from_start(15)
    assert epochs.entries == ((2, 15),)
    epochs.truncate_from_end(0)
    assert (epochs.entries, epochs.latest) == ((), -1)


def test_the_file_is_kafkas_and_comes_back(epochs: LeaderEpochs) -> None:
    epochs.save()
    assert epochs.path.read_text() == "0\n3\n0 0\n2 10\n5 30\n"
    assert LeaderEpochs.load(epochs.path.parent).entries == epochs.entries


BAD = ["", "1\n0\n", "0\n2\n0 0\n", "0\n1\n0 x\n", "0\n1\n0\n", "0\n2\n1 0\n1 5\n", "0\n2\n0 5\n1 4\n"]


@pytest.mark.parametrize("text", BAD)
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_text(text)
    with pytest.raises(DamagedFile, match="leader-epoch-checkpoint"):
        LeaderEpochs.load(tmp_path)
