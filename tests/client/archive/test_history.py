"""Random histories of an archive by seed, and kills at each step of a round."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyiceberg", reason="pip install 'odradek[archive]'")

from odradek.client.archive.state import state_of
from odradek.tests.support.clients.archive_world import World, offsets_in, whole
from odradek.tests.support.histories.archive_history import ArchiveHistory, Killed, killed_at
from odradek.tests.support.seeds import seeds


@pytest.mark.parametrize("seed", seeds(range(2), range(2_000)))
def test_each_offset_is_there_once_whatever_happens(
    world: World, catalog: Any, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.client.archive.once._FIRST_PAUSE_S", 0.0)
    ArchiveHistory(world, catalog, f"history-{seed}", seed).run(20)


def test_a_kill_at_each_step_of_a_round_loses_and_doubles_nothing(world: World, catalog: Any) -> None:
    world.fill("killed", 6, partitions=2)
    kills = 0
    while True:
        archiver = world.archiver(catalog, "killed")
        try:
            with killed_at(kills + 1):
                archiver.round()
            break
        except Killed:
            kills += 1
        assert not world.archiver(catalog, "killed").round().lag
        assert state_of(catalog.load_table(archiver.name)).offsets == dict.fromkeys(range(2), 2 + kills)
        world.fill("killed", 2, partitions=2, new=False)
    assert kills > 20
    assert offsets_in(catalog.load_table(archiver.name)) == whole(2, 3 + kills)
