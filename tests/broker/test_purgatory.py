"""The purgatory: waiting requests complete when woken, at their deadline, and at the stop."""

from __future__ import annotations

import asyncio

import pytest
from odradek.broker.purgatory import Purgatory
from odradek.broker.timers import Timers
from odradek.tests.support.fakes.clock import FakeClock


class Room:
    """A purgatory with a clock that the test moves, and a count of the attempts."""

    def __init__(self) -> None:
        self.clock = FakeClock(0)
        self.timers = Timers(self.clock)
        self.purgatory = Purgatory(self.timers)
        self.asked = 0
        self.answer: str | None = None

    def attempt(self, expired: bool) -> str | None:
        self.asked += 1
        return "expired" if expired else self.answer


@pytest.fixture
def room() -> Room:
    return Room()


async def _turns() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_waits_until_an_event_makes_the_answer_possible(room: Room) -> None:
    future = room.purgatory.park(["p"], 1000, room.attempt)
    room.purgatory.wake("p")
    await _turns()
    assert not future.done()
    room.answer = "data"
    room.purgatory.wake("p")
    assert await future == "data"
    await _turns()
    assert len(room.purgatory) == 0


async def test_wakes_within_one_turn_retry_a_request_once(room: Room) -> None:
    future = room.purgatory.park(["p", "q"], 1000, room.attempt)
    for _ in range(50):
        room.purgatory.wake("p")
        room.purgatory.wake("q")
    await _turns()
    assert room.asked == 1
    future.cancel()
    await _turns()


async def test_the_deadline_tries_the_request_a_last_time(room: Room) -> None:
    future = room.purgatory.park(["p"], 1000, room.attempt)
    room.clock.advance(1000)
    room.timers.fire_due()
    assert await future == "expired"


async def test_cancelling_leaves_nothing_behind(room: Room) -> None:
    futures = [room.purgatory.park(["p", i], 1000, room.attempt) for i in range(100)]
    for future in futures:
        future.cancel()
    await _turns()
    assert len(room.purgatory) == 0
    assert room.purgatory._by_key == {}


async def test_an_attempt_that_fails_fails_its_own_request_only(room: Room) -> None:
    def broken(expired: bool) -> str | None:
        raise RuntimeError("broken")

    bad = room.purgatory.park(["p"], 1000, broken)
    good = room.purgatory.park(["p"], 1000, room.attempt)
    room.answer = "data"
    room.purgatory.wake("p")
    assert await good == "data"
    with pytest.raises(RuntimeError, match="broken"):
        await bad


async def test_who_waits_is_told_in_the_turn_of_the_response_and_of_a_cancel(room: Room) -> None:
    told: list[asyncio.Future[str]] = []
    woken, cancelled = (room.purgatory.park([key], 1000, room.attempt) for key in ("p", "q"))
    woken.then = cancelled.then = told.append
    assert cancelled.cancel()
    assert told == [cancelled]
    assert not cancelled.cancel()
    room.answer = "data"
    room.purgatory.wake("p")
    await asyncio.sleep(0)
    assert told == [cancelled, woken]
    assert woken.result() == "data"
    assert len(room.purgatory) == 0


async def test_a_failure_of_who_is_told_leaves_no_request_behind(room: Room) -> None:
    def fails(_: asyncio.Future[str]) -> None:
        raise RuntimeError("planted")

    errors: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    first, second = (room.purgatory.park(["p"], 1000, room.attempt) for _ in range(2))
    first.then = fails
    room.answer = "data"
    room.purgatory.wake("p")
    assert await second == "data"
    asyncio.get_running_loop().set_exception_handler(None)
    assert [str(each["exception"]) for each in errors] == ["planted"]


async def test_stopping_answers_everyone(room: Room) -> None:
    futures = [room.purgatory.park(["p"], 60_000, room.attempt) for _ in range(3)]
    room.purgatory.expire_all()
    assert await asyncio.gather(*futures) == ["expired"] * 3


async def test_tells_which_keys_were_woken_since_then_the_last_one_first(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.broker.purgatory.REMEMBERED_KEYS", 3)
    purgatory = room.purgatory
    begin = purgatory.wakes
    for key in ("a", "b", "a", "c"):
        purgatory.wake(key)
    assert purgatory.changed_since(begin) == ["c", "a", "b"]
    assert purgatory.changed_since(begin + 2) == ["c", "a"]
    assert purgatory.changed_since(purgatory.wakes) == []
    # "b" was woken second. A reader that last looked before that is not told what has changed.
    purgatory.wake("d")
    assert purgatory.changed_since(begin + 1) is None
    assert purgatory.changed_since(begin + 2) == ["d", "c", "a"]
    purgatory.forget("c")
    assert purgatory.changed_since(purgatory.wakes - 1) is None
    assert purgatory.changed_since(purgatory.wakes) == []
    purgatory.forget("never woken")
    purgatory.wake("e")
    assert purgatory.changed_since(purgatory.wakes - 1) == ["e"]
