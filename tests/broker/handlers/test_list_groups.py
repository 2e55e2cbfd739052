"""ListGroups: who is there, by state and by type."""

from __future__ import annotations

import pytest
from odradek.tests.broker.coordination.groups.wire_requests import commit, lead, list_groups
from odradek.tests.support.clients.raw import Raw


@pytest.fixture(autouse=True)
async def two_groups(raw: Raw) -> None:
    await raw.create_topic("t")
    await lead(raw)
    await commit(raw, {0: 1}, group_id="offsets only")


@pytest.mark.parametrize("version", range(6))
async def test_every_group(raw: Raw, version: int) -> None:
    state, kind = version >= 4, version >= 5
    assert await list_groups(raw, version) == [
        ("g", "consumer", "Stable" if state else "", "classic" if kind else ""),
        ("offsets only", "", "Empty" if state else "", "classic" if kind else ""),
    ]


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        (("stable",), (), ["g"]),
        (("EMPTY", "Stable"), (), ["g", "offsets only"]),
        (("Dead", "nonsense"), (), []),
        ((), ("Classic",), ["g", "offsets only"]),
        ((), ("consumer", "share", "nonsense"), []),
        (("Empty",), ("classic", "consumer"), ["offsets only"]),
    ],
)
async def test_by_state_and_type(raw: Raw, states: tuple[str, ...], types: tuple[str, ...], found: list[str]) -> None:
    assert [group_id for group_id, *_ in await list_groups(raw, 5, states, types)] == found
