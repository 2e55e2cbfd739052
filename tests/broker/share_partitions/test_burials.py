"""Dead letters in histories by seed, and planted bugs that they find."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from odradek.broker.share_partitions import dead_letter_topics, dead_letters
from odradek.broker.share_partitions.actor import SharePartitionActor
from odradek.broker.share_partitions.machine import DeadLetters, SharePartition
from odradek.broker.share_partitions.stretches import RecordState, Stretch
from odradek.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from odradek.tests.support.histories.burial_history import SETTINGS, Broken, BurialHistory
from odradek.tests.support.seeds import seeds

SEEDS = seeds(range(20), range(2_000))
ACTOR: Any = SharePartitionActor


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letter_topics, "PAUSES_S", (0.0,) * 4)


@pytest.mark.parametrize("seed", SEEDS)
async def test_no_dead_letter_is_lost_by_a_crash(seed: int) -> None:
    await BurialHistory(seed).run()


class _Wire:
    """A leader that takes everything."""

    async def produce(self, *_: object) -> ProduceResponse:
        await asyncio.sleep(0)
        return ProduceResponse([TopicProduceResponse(partition_responses=[PartitionProduceResponse()])])


async def test_a_long_range_lets_the_dead_letters_of_others_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "MAX_RECORDS", 2)
    history = BurialHistory(0)
    history.wire = cast(Any, _Wire())
    history.start()
    writes = [
        asyncio.ensure_future(
            history.writer.write(
                "g", cast(Any, SimpleNamespace(topic="t", index=at)), [DeadLetters(0, last, 1, True)], SETTINGS
            )
        )
        for at, last in enumerate((99, 2))
    ]
    done, left = await asyncio.wait(writes, return_when=asyncio.FIRST_COMPLETED)
    assert (done, left) == ({writes[1]}, {writes[0]})
    await writes[0]
    assert history.writer.counts["g"].records == 103
    history.writer.close()


def _archived_before_written(monkeypatch: pytest.MonkeyPatch) -> None:
    async def bury(self: Any, machine: SharePartition, letters: Sequence[DeadLetters]) -> None:
        await self._settle(machine, machine.archive(letters), is_certain=True)
        await self._dead_letters.write(self.key.group_id, self.partition, letters, self.settings)

    monkeypatch.setattr(ACTOR, "_bury", bury)


def _written_before_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    settle = ACTOR._settle

    async def planted(self: Any, machine: SharePartition, change: Any, is_certain: bool) -> None:
        letters = [
            DeadLetters(each.first, each.last, 1, True)
            for each in change.stretches
            if each.state is RecordState.ARCHIVING
        ]
        if letters:
            await self._dead_letters.write(self.key.group_id, self.partition, letters, self.settings)
        await settle(self, machine, change, is_certain)

    monkeypatch.setattr(ACTOR, "_settle", planted)


def _a_load_forgets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ACTOR, "_bury_again", lambda *_: None)


def _the_start_moves_over_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(stretch: Stretch) -> bool:
        return stretch.state in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED, RecordState.ARCHIVING)

    monkeypatch.setattr(Stretch, "is_done", property(planted))


PLANTED = (_archived_before_written, _written_before_the_state, _a_load_forgets_them, _the_start_moves_over_them)


@pytest.mark.parametrize("plant", PLANTED)
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)

    async def play() -> None:
        for seed in range(200):
            await BurialHistory(seed).run()

    with pytest.raises((Broken, AssertionError)):
        asyncio.run(play())
