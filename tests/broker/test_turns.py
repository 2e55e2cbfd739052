"""Large responses: at once where they are small, otherwise a bounded part a turn."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.broker.turns import VALUES_AT_ONCE, VALUES_PER_TURN, LargeResponse, fill
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


def _groups(response: ListGroupsResponse, count: int) -> Iterator[int]:
    for number in range(count):
        response.groups.append(ListedGroup(f"group-{number}"))
        yield 1
