"""The log of the share coordinator: what may be deleted of it."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.broker import BrokerConfig
from odradek.broker.coordination.actor import Actor
from odradek.broker.coordination.interfaces import OnCommitted
from odradek.broker.coordination.replay import Written
from odradek.broker.coordination.share_states import events, records
from odradek.broker.coordination.share_states.coordinator import ShareCoordinator
from odradek.broker.coordination.share_states.share_state import ShareKey
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.tests.support.fakes.clock import FakeClock

A, B = ShareKey("a", bytes(16), 0), ShareKey("b", bytes(16), 0)


class Log:
    """A log whose records are committed when the test says so. Its high watermark may be ahead of what it has told."""

    def __init__(self) -> None:
        self.end = self.start = self.epoch = 0
        self.records: list[Written] = []
        self.appended: list[OnCommitted] = []

    def partition_count(self) -> int:
        return 1

    def coordinator_epoch(self, partition: int) -> int:
        return self.epoch

    def entries(self, partition: int) -> list[Written]:
        return self.records

    def end_offset(self, partition: int) -> int:
        return self.end

    def delete_before(self, partition: int, offset: int) -> None:
        self.start = max(self.start, offset)

    def append(self, partition: int, records: list[Any], on_committed: OnCommitted, *_: object) -> None:
        self.records += [Written(*record, offset=offset) for offset, record in enumerate(records, self.end)]
        self.end += len(records)
        self.appended.append(on_committed)


class World:
    """A share coordinator over that log."""

    def __init__(self) -> None:
        self.log = Log()
        topics = SimpleNamespace(by_id=lambda _: SimpleNamespace(partition_count=1))
        parts: Any = self.log, SimpleNamespace(), FakeClock(), topics
        config = BrokerConfig(share_coordinator_snapshot_update_records_per_snapshot=1)
        self.coordinator = ShareCoordinator(config, *parts)
        self.coordinator.shards.start()
        self.told: list[Any] = []

    def ask(self, key: ShareKey, event: Any, *rest: Any, commit: bool = True) -> None:
        self.coordinator.ask(key, lambda token: event(token, *rest), self.told.append)
        if commit:
            self.commit()

    def commit(self, error: KafkaError | None = None) -> None:
        self.log.appended.pop(0)(error)

    def prune(self) -> int:
        for _ in self.coordinator._prune():  # pyright: ignore[reportPrivateUsage]
            pass
        return self.log.start


@pytest.fixture
def world() -> World:
    return World()


BEGIN = partial(events.Initialize, state_epoch=1, start_offset=0)


async def test_a_first_snapshot_is_not_deleted_before_it_is_told_that_it_is_committed(world: World) -> None:
    world.ask(A, BEGIN, commit=False)
    assert world.prune() == 0
    world.commit()
    assert (world.prune(), world.told) == (0, [None])


async def test_what_no_state_needs_is_deleted(world: World) -> None:
    world.ask(A, BEGIN)
    # An update, and then all of it again.
    world.ask(A, events.Read, 1)
    world.ask(A, events.Read, 2)
    world.ask(B, BEGIN, commit=False)
    world.commit(KafkaError(ErrorCode.NOT_COORDINATOR))
    assert world.prune() == 2
    world.ask(A, events.Delete)
    assert world.prune() == world.log.end == 5


async def test_a_snapshot_that_is_committed_after_the_partition_has_moved_does_not_hold_the_next_reign_up(
    world: World,
) -> None:
    world.ask(A, BEGIN, commit=False)
    world.coordinator.shards.unload(0)
    world.commit()
    # Another coordinator has deleted the state, and this one loads the partition again.
    world.log.records, world.log.end = [], 9
    world.coordinator.shards.load(0)
    assert world.prune() == 9


async def test_what_another_version_may_read_is_kept(world: World) -> None:
    world.ask(A, BEGIN)
    world.ask(B, BEGIN)
    # The later one is met first, in the place of what it follows.
    a, b = world.log.records
    world.log.records = [a, b._replace(value=b"\x00\x09"), a._replace(value=b"\x00\x09", offset=2)]
    world.log.end = 9
    world.coordinator.shards.unload(0)
    world.coordinator.shards.load(0)
    assert world.prune() == 1
    # The same broker leads on in another epoch, without a load.
    world.log.epoch = 1
    assert world.prune() == 1
    # In the next reign the state is there anew.
    world.coordinator.shards.unload(0)
    world.log.epoch, world.log.records = 2, [a._replace(offset=8)]
    world.coordinator.shards.load(0)
    assert world.prune() == 8


async def test_a_reign_that_ends_in_a_round_deletes_nothing(world: World) -> None:
    world.ask(A, BEGIN)
    world.ask(A, events.Read, 1)
    world.ask(A, events.Read, 2)
    for _ in world.coordinator._prune():  # pyright: ignore[reportPrivateUsage]
        world.log.epoch = 1
    assert world.log.start == 0


async def test_a_load_reads_a_record_in_one_step_and_applies_it_in_another(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes some 10 ms where a state has 10,000 batches."""
    for key in (A, B):
        world.ask(key, events.Initialize, 1, 0)
    steps: list[list[str]] = [[]]
    for owner, name in ((records, "decode_record"), (Actor, "apply")):
        real = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *given, real=real: [steps[-1].append(real.__name__), real(*given)][1])
    again = World()
    again.log.records = world.log.records
    for _ in again.coordinator.shards._load(0):  # pyright: ignore[reportPrivateUsage]
        steps.append([])
    assert [each for each in steps if each] == [["decode_record"], ["apply"]] * 2
    assert len(again.coordinator.shards.actors) == 2
