"""A commit whose fate is certain: catalogs that lose, delay, double and refuse answers, and two archivers."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyiceberg", reason="pip install 'odradek[archive]'")

from odradek.client.archive import ArchiveError, upkeep
from odradek.client.archive.once import CommitUncertain, Once, Stopped
from odradek.client.archive.places import catalog_of
from odradek.client.archive.run import Archiver, Round
from odradek.client.archive.state import state_of
from odradek.tests.support.clients.archive_world import World, data_files, files_in, offsets_in, whole
from odradek.tests.support.fakes.faulty_catalog import KINDS, FaultyCatalog, compact
from pyiceberg.exceptions import ForbiddenError, ServiceUnavailableError
from sqlalchemy.exc import OperationalError


@pytest.fixture(scope="module")
def topic(world: World) -> str:
    world.fill("once", 20)
    return "once"


def table_of(catalog: Any, archiver: Archiver) -> Any:
    return catalog.load_table(archiver.name)


def test_pyiceberg_alone_still_appends_the_same_offsets_twice(world: World, catalog: Any, topic: str) -> None:
    """When this fails, pyiceberg's retries have changed: look at `once.py` again, and at the pin in pyproject.toml."""
    archiver = world.archiver(catalog, topic)
    archiver.round()
    path = next(iter(files_in(table_of(catalog, archiver))))
    first, second = table_of(catalog, archiver), table_of(catalog, archiver)
    for each in (first, second):
        each.add_files([path], check_duplicate_files=False)
    assert len(offsets_in(table_of(catalog, archiver))[0]) == 60, "no error, and each row three times"


@pytest.mark.parametrize("looks", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_each_answer_of_a_catalog_leaves_each_row_once(
    world: World, catalog: Any, topic: str, kind: str, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.client.archive.once._FIRST_PAUSE_S", 0.0)
    faulty = FaultyCatalog(catalog, kind, kind)
    faulty.failing_looks = looks
    archiver = world.archiver(faulty, topic)
    for _ in range(3):
        archiver.round()
    table = table_of(catalog, archiver)
    assert offsets_in(table) == whole(1, 20)
    assert len(table.metadata.snapshots) == 1, "one commit was applied"
    assert state_of(table).offsets == {0: 20}


def test_the_archiver_that_comes_second_gives_up_and_deletes_nothing(
    world: World, catalog: Any, topic: str, tmp_path: Path
) -> None:
    faulty = FaultyCatalog(catalog)
    first, second = world.archiver(catalog, topic), world.archiver(faulty, topic)
    faulty.before = first.round
    found = second.round()
    assert found.is_overtaken and not found.is_committed
    assert offsets_in(table_of(catalog, first)) == whole(1, 20)
    assert len(data_files(tmp_path)) == 2, "its own file may be the one that was committed: nobody may delete it here"
    assert not second.round().is_committed


@pytest.mark.parametrize("kind", ["", "answer lost", "conflict of its own"])
def test_files_are_committed_behind_a_foreign_compaction_that_won(world: World, catalog: Any, kind: str) -> None:
    topic = f"compacted-{len(kind)}"
    world.fill(topic, 5)
    faulty = FaultyCatalog(catalog, kind)
    archiver = world.archiver(faulty, topic)
    for _ in range(3):
        archiver.round()
        world.fill(topic, 5, new=False)
    faulty.before = lambda: compact(table_of(catalog, archiver))
    if kind:
        faulty.kinds.append(kind)
    assert archiver.round().is_committed
    table = table_of(catalog, archiver)
    assert offsets_in(table) == whole(1, 20)
    assert state_of(table).offsets == {0: 20}


def test_a_catalog_that_never_answers_ends_the_archiver_and_keeps_all_files(
    world: World, catalog: Any, topic: str, tmp_path: Path
) -> None:
    faulty = FaultyCatalog(catalog, *["answer lost"])
    faulty.failing_looks = 1_000_000
    archiver = world.archiver(faulty, topic, commit_timeout_s=0.2)
    with pytest.raises(CommitUncertain, match="its files stay"):
        archiver.round()
    table = table_of(catalog, archiver)
    assert offsets_in(table) == whole(1, 20), "it was applied"
    assert all(Path(each.removeprefix("file://")).exists() for each in files_in(table))
    assert not world.archiver(catalog, topic).round().is_committed, "the next run decides by the table"


def test_the_last_kinds_of_answers_are_waited_for_with_growing_pauses() -> None:
    """Without a real clock: pauses grow to two seconds, and end before the deadline."""
    paused: list[float] = []

    class Silent:
        def load_table(self, name: Any) -> Any:
            raise ConnectionError("silent")

    once = Once(Silent(), 10.0, lambda: sum(paused), paused.append)  # type: ignore[arg-type]
    with pytest.raises(CommitUncertain):
        once._fate(_Named(), 1, None, 10.0, OSError("503"))
    assert paused[:3] == [0.05, 0.1, 0.2] and max(paused) == 2.0 and sum(paused) <= 10.0


class _Named:
    """A table that is not there."""

    def name(self) -> tuple[str, str]:
        return "odradek", "t"


def away_for(catalog: Any, looks: int, error: Exception) -> FaultyCatalog:
    faulty = FaultyCatalog(catalog)
    faulty.away = [error] * looks
    return faulty


def test_a_round_waits_for_a_catalog_that_does_not_answer(
    world: World, catalog: Any, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.client.archive.once._FIRST_PAUSE_S", 0.001)
    locked = OperationalError("select", {}, Exception("database is locked"))
    for error in (ConnectionError("cut"), ServiceUnavailableError("503"), locked):
        assert world.archiver(away_for(catalog, 3, error), topic).round().lag == 0
    assert offsets_in(table_of(catalog, world.archiver(catalog, topic))) == whole(1, 20)
    away = away_for(catalog, 3, ConnectionError("cut"))
    with pytest.raises(ConnectionError):
        world.archiver(away, topic, commit_timeout_s=0.0).round()
    for error in (ForbiddenError("403"), FileNotFoundError("no metadata")):
        refusing = away_for(catalog, 3, error)
        with pytest.raises(type(error)):
            world.archiver(refusing, topic).round()
        assert len(refusing.away) == 2, "nothing is asked again that will not change"


def test_a_rest_catalog_that_takes_a_request_and_never_answers_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.client.archive.places._ANSWER_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("PYICEBERG_CATALOG__SILENT__URI", f"http://127.0.0.1:{silent.getsockname()[1]}")
        for kind in ({}, {"PYICEBERG_CATALOG__SILENT__TYPE": "REST"}):
            for name, value in kind.items():
                monkeypatch.setenv(name, value)
            with pytest.raises(ArchiveError, match=r"catalog 'silent' .* cannot be used: .*Read timed out"):
                catalog_of("iceberg://silent")


def test_a_stopped_round_waits_for_no_catalog(world: World, catalog: Any, topic: str, tmp_path: Path) -> None:
    """Before anything is read it ends with nothing done. A commit whose fate is open ends in words: its files stay."""
    away = away_for(catalog, 1_000, ConnectionError("cut"))
    archiver = world.archiver(away, topic, commit_timeout_s=2.0)
    archiver.stop()
    assert archiver.round() == Round()
    assert len(away.away) == 999, "one look was made"
    faulty = FaultyCatalog(catalog, "answer lost")
    archiver = world.archiver(faulty, topic, commit_timeout_s=2.0)

    def stop() -> None:
        archiver.stop()
        faulty.failing_looks = 1_000

    faulty.before = stop
    with pytest.raises(CommitUncertain, match="its files stay"):
        archiver.round()
    assert faulty._to_fail == 999, "one look was made"
    assert not world.archiver(catalog, topic).round().is_committed
    assert offsets_in(table_of(catalog, archiver)) == whole(1, 20)
    with pytest.raises(Stopped):
        upkeep.compact(catalog, archiver.name, archiver.pause, min_files=1)
    archiver.sequence_number = 25
    archiver.catalog = away
    upkeep.keep_up(archiver)
    assert len(away.away) == 998
