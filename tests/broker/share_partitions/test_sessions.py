"""Share sessions: their bounds. Epochs and ends are tested over the wire (handlers/test_share_fetch.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from odradek.broker.coordination.modern.state import Place
from odradek.broker.coordination.share_states.share_state import StateBatch
from odradek.broker.share_partitions import sessions
from odradek.broker.share_partitions.led_partitions import InFlight, SharePartitions
from odradek.broker.share_partitions.machine import SharePartition
from odradek.broker.share_partitions.sessions import ShareSessions
from odradek.broker.share_partitions.stretches import RecordState
from odradek.protocol.errors import ErrorCode, KafkaError

TOPIC = b"t" * 16


class Connection:
    """What a session knows of its connection."""

    def __init__(self) -> None:
        self.at_close: dict[Hashable, Callable[[], None]] = {}


class NoPartitions:
    """Share partitions of which no member holds a record. A release looks at one a turn."""

    def __init__(self) -> None:
        self.released: list[Place] = []
        # The partitions of which a member holds records.
        self.held: set[Place] = set()

    def holds(self, group_id: str, member_id: str, place: Place) -> bool:
        return place in self.held

    async def acknowledged(self, group_id: str) -> None:
        pass

    async def release(self, group_id: str, member_id: str, places: Iterable[Place]) -> None:
        for place in places:
            self.released.append(place)
            await asyncio.sleep(0)

    async def forget_group(self, *_: Any) -> None:
        pass

    async def close(self, deadline_s: float) -> None:
        pass


@pytest.fixture
def partitions() -> NoPartitions:
    return NoPartitions()


@pytest.fixture
def held(partitions: NoPartitions) -> ShareSessions:
    return ShareSessions(cast(SharePartitions, partitions), max_sessions=3)


def places(count: int) -> list[tuple[bytes, int]]:
    return [(TOPIC, index) for index in range(count)]


async def test_a_session_has_a_bound(held: ShareSessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MAX_PARTITIONS_OF_ONE", 5)
    session = held.begin("g", "ann", places(5), Connection())
    with pytest.raises(KafkaError) as rejected:
        held.update(session, places(6), ())
    assert rejected.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert len(held) == 0


async def test_all_sessions_together_have_a_bound(held: ShareSessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MAX_PARTITIONS", 10)
    ann, connection = held.begin("g", "ann", places(6), Connection()), Connection()
    for _ in range(3):
        with pytest.raises(KafkaError):
            held.begin("g", "bob", places(5), connection)
    assert connection.at_close == {}
    held.begin("g", "bob", places(4), connection)
    await held.end(ann)
    held.update(held.go_on("g", "bob", 1), places(10), places(1))


async def test_forgotten_partitions_count_until_they_come_again(held: ShareSessions) -> None:
    session = held.begin("g", "ann", places(2), Connection())
    held.update(session, (), places(2))
    assert (session.partitions, session.weight) == ({}, 2)
    held.update(session, places(2), ())
    assert (list(session.partitions), session.weight) == (places(2), 2)


async def test_epochs_begin_again_after_the_last(held: ShareSessions) -> None:
    session = held.begin("g", "ann", places(1), Connection())
    session.next_epoch = 2**31 - 1
    held.go_on("g", "ann", 2**31 - 1)
    assert held.go_on("g", "ann", 1).next_epoch == 2


async def test_a_connection_that_closes_ends_the_sessions_that_are_still_its_own(held: ShareSessions) -> None:
    old, new = Connection(), Connection()
    held.begin("g", "ann", places(1), old)
    held.begin("g", "bob", places(1), old)
    held.begin("g", "ann", places(1), new)
    for close in list(old.at_close.values()):
        close()
    assert len(held) == 1
    for close in list(new.at_close.values()):
        close()
    assert len(held) == 0
    await held.close(1)


async def test_a_session_that_ends_gives_back_nothing_of_the_next_one(
    held: ShareSessions, partitions: NoPartitions
) -> None:
    """The member has come back on another connection before all was given back, and acquired records there."""
    ended = held.end(held.begin("g", "ann", places(4), Connection()))
    await asyncio.sleep(0)
    assert partitions.released == places(1)
    session = held.begin("g", "ann", [(TOPIC, 1), (TOPIC, 2)], Connection())
    held.update(session, (), [(TOPIC, 2)])
    await ended
    assert partitions.released == [(TOPIC, 0), (TOPIC, 3)]
    await held.end(session)
    assert set(partitions.released) == set(places(4))


async def test_a_session_forgets_what_left_it_and_is_not_held(
    held: ShareSessions, partitions: NoPartitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MAX_PARTITIONS_OF_ONE", 300)
    session = held.begin("g", "ann", places(1), Connection())
    partitions.held.add((TOPIC, 7))
    for index in range(1, 1000):
        held.update(session, [(TOPIC, index)], [(TOPIC, index - 1)])
    assert len(session.partitions) == 1 and (TOPIC, 7) in session.left
    assert len(session.left) <= 2 * sessions.MIN_LEFT


def test_records_in_flight_are_counted_partition_by_partition() -> None:
    """Those of all partitions of a group are too many for one turn of the loop."""
    shares = SharePartitions(cast(Any, None), cast(Any, None))
    batches = [StateBatch(1, 2, RecordState.ARCHIVING, 1), StateBatch(3, 3, RecordState.ACKNOWLEDGED, 1)]
    machines = (SharePartition(0, batches), None, SharePartition(0))
    actors: Any = {(TOPIC, at): SimpleNamespace(machine=each) for at, each in enumerate(machines)}
    shares._by_group["g"] = actors
    assert list(shares.in_flight("g")) == [InFlight(0, 2), InFlight(), InFlight()]
