"""Slices of the event loop: when they end, who gets the next one, and responses that are made in them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

import pytest
from odradek.broker.turns import VALUES_AT_ONCE, Keeper, LargeResponse, fill
from odradek.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from odradek.tests.support.brokers.slices import end_slices_after, ticking_keeper


async def test_a_response_of_few_values_is_made_at_once() -> None:
    response = ListGroupsResponse()
    assert fill(response, _groups(response, VALUES_AT_ONCE), VALUES_AT_ONCE) is response
    assert len(response.groups) == VALUES_AT_ONCE


async def test_nothing_of_a_response_of_many_values_is_made_before_its_turn() -> None:
    response = ListGroupsResponse()
    large = fill(response, _groups(response, VALUES_AT_ONCE + 1), VALUES_AT_ONCE + 1)
    assert isinstance(large, LargeResponse)
    assert response.groups == []
    await Keeper().finish(large.steps)
    assert len(response.groups) == VALUES_AT_ONCE + 1


async def test_a_response_of_few_values_that_take_long_is_made_in_turns() -> None:
    end_slices_after(2)
    response = ListGroupsResponse()
    large = fill(response, _groups(response, 9), 9)
    assert isinstance(large, LargeResponse)
    # Two come before the first look at the clock.
    assert len(response.groups) == 4


async def test_a_slice_ends_by_the_clock_and_the_next_one_begins_in_the_next_turn() -> None:
    keeper, taken = ticking_keeper(3), list[str]()
    keeper.run(_steps("a", 7, taken))
    assert len(taken) == 3
    await asyncio.sleep(0)
    assert len(taken) == 6
    await asyncio.sleep(0)
    assert len(taken) == 7


async def test_all_work_of_a_turn_has_one_slice_together_and_each_at_least_a_step() -> None:
    keeper, taken = ticking_keeper(3), list[str]()
    for name in ("a", "b", "c"):
        keeper.run(_steps(name, 4, taken))
    assert taken == ["a 1", "a 2", "a 3", "b 1", "c 1"]
    before = len(taken)
    while len(taken) < 12:
        await asyncio.sleep(0)
        assert len(taken) - before <= 3
        before = len(taken)
    assert sorted(taken) == [f"{name} {number}" for name in "abc" for number in range(1, 5)]


async def test_work_that_is_left_has_slices_in_order() -> None:
    keeper, taken = ticking_keeper(2), list[str]()
    for name in ("a", "b"):
        keeper.queue(partial(keeper.take, _steps(name, 4, taken)))
    for _ in range(6):
        await asyncio.sleep(0)
    assert taken == ["a 1", "a 2", "b 1", "b 2", "a 3", "a 4", "b 3", "b 4"]


async def test_a_coroutine_that_waits_for_its_turn_has_a_slice_of_its_own() -> None:
    keeper, seen = ticking_keeper(2), list[str]()

    async def work(name: str) -> None:
        for number in range(6):
            seen.append(f"{name}{number}")
            await keeper.pause()

    await asyncio.wait_for(asyncio.gather(work("a"), work("b")), 20)
    # In the first turn they share a slice, and each takes a step at least.
    assert "".join(seen) == "a0a1b0a2a3b1b2a4a5b3b4b5"


async def test_steps_that_fail_keep_no_others_from_their_turns() -> None:
    keeper, taken, failures = ticking_keeper(1), list[str](), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))

    def fail() -> Iterator[None]:
        yield
        raise RuntimeError("a defect")

    keeper.run(fail())
    keeper.run(_steps("b", 2, taken))
    for _ in range(6):
        await asyncio.sleep(0)
    assert taken == ["b 1", "b 2"]
    assert [str(each) for each in failures] == ["a defect"]


async def test_who_waits_for_steps_learns_of_their_failure() -> None:
    def fail() -> Iterator[None]:
        yield
        raise RuntimeError("a defect")

    with pytest.raises(RuntimeError, match="a defect"):
        await ticking_keeper(1).finish(fail())


async def test_a_coroutine_that_was_cancelled_takes_no_slice() -> None:
    keeper, taken = ticking_keeper(1), list[str]()
    waiting = asyncio.ensure_future(keeper.finish(_steps("a", 9, taken)))
    await asyncio.sleep(0)
    waiting.cancel()
    keeper.run(_steps("b", 3, taken))
    for _ in range(6):
        await asyncio.sleep(0)
    assert taken == ["a 1", "b 1", "b 2", "b 3"]


async def test_no_turn_is_scheduled_once_nothing_is_left() -> None:
    keeper = ticking_keeper(1)
    keeper.run(_steps("a", 3, []))
    for _ in range(9):
        await asyncio.sleep(0)
    assert not keeper._is_open


def _steps(name: str, count: int, taken: list[str]) -> Iterator[None]:
    for number in range(1, count + 1):
        taken.append(f"{name} {number}")
        yield


def _groups(response: ListGroupsResponse, count: int) -> Iterator[None]:
    for number in range(count):
        response.groups.append(ListedGroup(f"group-{number}"))
        yield
