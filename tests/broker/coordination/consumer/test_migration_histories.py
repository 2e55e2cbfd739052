"""Random histories of groups that migrate between the protocols: one owner of each partition, and no offset lost."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.broker.coordination.consumer import migration, offsets
from odradek.broker.coordination.consumer.state import Current, GroupState
from odradek.broker.coordination.groups.committed_offsets import CommittedOffsets
from odradek.broker.coordination.groups.group import Group
from odradek.protocol.errors import ErrorCode
from odradek.tests.broker.coordination.classic.world import World
from odradek.tests.broker.coordination.consumer.migrating_crowd import MigratingCrowd
from odradek.tests.broker.coordination.consumer.test_single_owner import owned_by_all, subscribed_by_all
from odradek.tests.support.seeds import seeds


def run(seed: int, steps: int = 400) -> MigratingCrowd:
    crowd = MigratingCrowd(seed, World())
    for _ in range(steps):
        crowd.step()
    return crowd


@pytest.mark.parametrize("seed", seeds(range(16), range(60, 1_000)))
async def test_a_group_that_migrates_has_one_owner_for_each_partition_and_loses_no_offset(seed: int) -> None:
    crowd = run(seed)
    crowd.change_policy("bidirectional")
    crowd.join()
    crowd.converge()
    body = crowd.body
    assert body is not None and body.state is GroupState.STABLE
    assert owned_by_all(crowd) == subscribed_by_all(crowd) == body.owners.keys()


async def test_the_histories_have_upgrades_and_downgrades() -> None:
    assert sum(run(seed).changes for seed in range(4)) >= 8


def found_in(seeds: int) -> int:
    """Return how many histories break a promise."""
    return sum(map(is_broken, range(seeds)))


def is_broken(seed: int) -> bool:
    try:
        run(seed)
    except AssertionError:
        return True
    return False


async def test_the_model_finds_an_upgrade_that_forgets_what_members_have(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(group: Group, members: list[Any]) -> dict[str, Current]:
        return {member.member_id: Current(group.generation, group.generation) for member in members}

    monkeypatch.setattr(migration, "_standing", forgetful)
    assert found_in(8) >= 2


async def test_the_model_finds_an_upgrade_that_gives_away_what_a_member_has_not_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kafka 4.3.1 does so."""

    def hasty(group: Group, members: list[Any]) -> dict[str, Current]:
        return {key: now._replace(revoking={}) for key, now in standing(group, members).items()}

    standing = migration._standing
    monkeypatch.setattr(migration, "_standing", hasty)
    # It takes some 200 seeds: from one on that is short before the first that finds it today.
    assert any(map(is_broken, range(220, 500)))


async def test_the_model_finds_offsets_that_go_with_the_classic_group(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(self: Group) -> None:
        self.offsets = CommittedOffsets()
        leave_classic(self)

    leave_classic = Group._leave_classic
    monkeypatch.setattr(Group, "_leave_classic", careless)
    assert found_in(8) >= 2


async def test_the_model_finds_commits_of_members_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "commit_error", lambda *_: ErrorCode.NONE)
    assert found_in(8) >= 2
