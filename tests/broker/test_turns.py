"""Large responses: at once where they are small, otherwise a bounded part a turn. Work of one kind in turns."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from odradek.broker.turns import VALUES_AT_ONCE, VALUES_PER_TURN, LargeResponse, Turns, fill
from odradek.protocol.messages.list_groups import ListedGroup, ListGroupsResponse


def test_a_response_of_few_values_is_made_at_once() -> None:
    response = ListGroupsResponse()
    assert fill(response, _groups(response, VALUES_AT_ONCE), VALUES_AT_ONCE) is response
    assert len(response.groups) == VALUES_AT_ONCE


def test_a_response_of_many_values_grows_by_no_more_than_a_turn_may_add() -> None:
    response = ListGroupsResponse()
    large = fill(response, _groups(response, VALUES_AT_ONCE + 1), VALUES_AT_ONCE + 1)
    assert isinstance(large, LargeResponse)
    sizes = [len(response.groups)]
    while large.advance():
        sizes.append(len(response.groups))
    assert sizes == [0, VALUES_PER_TURN, 2 * VALUES_PER_TURN]
    assert len(response.groups) == VALUES_AT_ONCE + 1


async def test_a_turn_takes_one_step_of_all_that_waits() -> None:
    turns, taken = Turns(), list[str]()
    for name in ("a", "b"):
        turns.add(_steps(name, taken))
    assert taken == ["a 1"]
    wanted = ["a 1", "a 2", "b 1", "b 2"]
    while taken != wanted:
        before = len(taken)
        await asyncio.sleep(0)
        assert taken == wanted[: len(taken)] and len(taken) - before <= 1


async def test_steps_that_fail_keep_no_others_from_their_turns() -> None:
    turns, taken = Turns(), list[str]()

    def fail() -> Iterator[None]:
        raise RuntimeError("a defect")
        yield

    with pytest.raises(RuntimeError):
        turns.add(fail())
    turns.add(_steps("b", taken))
    for _ in range(4):
        await asyncio.sleep(0)
    assert taken == ["b 1", "b 2"]


def _steps(name: str, taken: list[str]) -> Iterator[None]:
    for number in (1, 2):
        taken.append(f"{name} {number}")
        yield


def _groups(response: ListGroupsResponse, count: int) -> Iterator[int]:
    for number in range(count):
        response.groups.append(ListedGroup(f"group-{number}"))
        yield 1
