"""Positions and commits against a model, whatever the user, auto-commit and rebalances do, and with planted bugs.

The model is one dictionary of plain numbers per partition. After each step the store has what the model has, and no
automatic commit has passed a record that the user still works on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from odradek.client import OffsetAndMetadata, TopicPartition
from odradek.client.consumer.explanation import ConsumerCounts
from odradek.client.consumer.offset_commits import OffsetCommits, StoredOffsets
from odradek.client.consumer.polls import Polls
from odradek.client.consumer.positions import PartitionState, Positions
from odradek.client.core.cluster import Cluster
from odradek.client.core.options import ClusterOptions
from odradek.client.errors import OffsetStoreFailed
from odradek.tests.support.seeds import examples

PARTITIONS = [TopicPartition("t", number) for number in range(3)]
SOME = st.sampled_from(PARTITIONS)


class Store:
    """The user's offset store: a dictionary, which fails when it is told to."""

    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, int] = {}
        self.fails = False

    async def load(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int | None]:
        return {partition: self.offsets.get(partition) for partition in partitions}

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        if self.fails:
            self.fails = False
            raise OSError("the store is away")
        self.offsets.update({partition: each.offset for partition, each in offsets.items()})


@dataclass
class Known:
    """What the model knows of an assigned partition."""

    position: int
    # The end of what the user has processed, and what was committed last by this consumer.
    processed: int
    committed: int | None
    # Auto-commit must not go back behind a commit of the user's.
    above: int = -1
    # Whether the user works on records of it.
    at_work: bool = False


class Commits(RuleBasedStateMachine):
    """A consumer's positions and commits beside the model."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.store = Store()
        self.positions, self.polls = Positions(), Polls()
        cluster = Cluster(ClusterOptions("unused:1", retry_backoff_ms=0, retry_backoff_max_ms=0))
        offsets = StoredOffsets(self.store)
        self.commits = OffsetCommits(cluster, offsets, self.positions, self.polls, ConsumerCounts())
        self.commits.automatic = True
        self.model: dict[TopicPartition, Known] = {}
        self.stored: dict[TopicPartition, int] = {}

    def teardown(self) -> None:
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        self.loop.run_until_complete(work)

    def state(self, partition: TopicPartition) -> PartitionState:
        state = self.positions.get(partition)
        assert state is not None
        return state

    # -- The user

    @rule(partition=SOME, count=st.integers(0, 5))
    def poll(self, partition: TopicPartition, count: int) -> None:
        async def ask() -> None:
            self.polls.begin()
            if count and partition in self.model:
                state = self.state(partition)
                assert state.position == self.model[partition].position
                state.position += count
                self.polls.mark_returned(state)
            self.polls.end()

        self.run(ask())
        for known in self.model.values():
            if known.at_work:
                known.processed, known.at_work = known.position, False
        if count and partition in self.model:
            self.model[partition].position += count
            self.model[partition].at_work = True

    @precondition(lambda self: self.model)
    @rule(data=st.data(), offset=st.integers(0, 30))
    def seek(self, data: st.DataObject, offset: int) -> None:
        partition = data.draw(st.sampled_from(sorted(self.model)))
        self.state(partition).move_to(offset)
        known = self.model[partition]
        known.position = known.processed = offset
        known.above, known.at_work = -1, False  # what was returned before is of no concern any more

    @rule()
    def commit_what_was_returned(self) -> None:
        self._commit({partition: known.position for partition, known in self.model.items()})

    @precondition(lambda self: self.model)
    @rule(data=st.data(), offset=st.integers(0, 30))
    def commit_an_offset(self, data: st.DataObject, offset: int) -> None:
        self._commit({data.draw(st.sampled_from(sorted(self.model))): offset})

    def _commit(self, offsets: dict[TopicPartition, int]) -> None:
        fails = self.store.fails and bool(offsets)
        with suppress(OffsetStoreFailed):
            self.run(
                self.commits.commit({partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()})
            )
            assert not fails, "a commit that failed was said to have succeeded"
        if not fails:
            self.stored |= offsets
            for partition, offset in offsets.items():
                known = self.model[partition]
                known.committed, known.above = offset, max(known.processed, offset)

    # -- Auto-commit and rebalances

    @rule()
    def the_store_will_fail(self) -> None:
        self.store.fails = True

    @rule()
    def auto_commit(self) -> None:
        due = {
            partition: known.processed
            for partition, known in self.model.items()
            if known.processed != known.committed and known.processed > known.above
        }
        fails = self.store.fails and bool(due)
        self.run(self.commits.commit_processed())
        if not fails:
            self.stored |= due
            for partition, offset in due.items():
                self.model[partition].committed = offset

    @rule(partitions=st.sets(SOME))
    def assign(self, partitions: set[TopicPartition]) -> None:
        """Take exactly these: new ones begin at the stored offset, and those that stay keep their positions."""
        self.auto_commit()  # as before each revocation
        gone = [partition for partition in self.model if partition not in partitions]
        self.polls.drop(self.positions.drop(gone))
        for state in self.positions.replace(partitions):
            stored = self.store.offsets.get(state.partition)
            state.move_to(stored or 0)
            state.committed = stored
        for partition in gone:
            del self.model[partition]
        for partition in partitions - self.model.keys():
            stored = self.stored.get(partition)
            self.model[partition] = Known(stored or 0, stored or 0, stored)

    @rule(partition=SOME)
    def lose(self, partition: TopicPartition) -> None:
        self.polls.drop(self.positions.drop([partition]))
        self.model.pop(partition, None)

    # -- What holds

    @invariant()
    def the_store_has_what_the_model_has(self) -> None:
        assert self.store.offsets == self.stored

    @invariant()
    def positions_are_those_of_the_model(self) -> None:
        assert {state.partition: (state.position, state.processed) for state in self.positions} == {
            partition: (known.position, known.processed) for partition, known in self.model.items()
        }

    @invariant()
    def no_record_that_is_worked_on_counts_as_processed(self) -> None:
        waiting = self.positions.uncommitted_offsets()
        assert all(
            waiting[partition].offset < known.position
            for partition, known in self.model.items()
            if known.at_work and partition in waiting
        )


SETTINGS = settings(
    max_examples=examples(100), stateful_step_count=30, suppress_health_check=list(HealthCheck), deadline=None
)


def test_positions_and_commits_are_those_of_the_model() -> None:
    run_state_machine_as_test(Commits, settings=SETTINGS)


def processed_when_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    def mark_returned(self: Polls, state: PartitionState) -> None:
        real(self, state)
        state.processed = state.position

    real = Polls.mark_returned
    monkeypatch.setattr(Polls, "mark_returned", mark_returned)


def auto_commit_overtakes_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Positions,
        "uncommitted_offsets",
        lambda self: {
            state.partition: OffsetAndMetadata(state.processed) for state in self if state.processed != state.committed
        },
    )


def a_kept_partition_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(self: Positions, partitions: Collection[TopicPartition]) -> list[PartitionState]:
        self.drop(list(self.partitions()))
        return real(self, partitions)

    real = Positions.replace
    monkeypatch.setattr(Positions, "replace", replace)


def a_seek_keeps_the_bound_of_an_earlier_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    def move_to(self: PartitionState, offset: int, leader_epoch: int = -1) -> None:
        above = self.auto_commit_above
        real(self, offset, leader_epoch)
        self.auto_commit_above = above

    real = PartitionState.move_to
    monkeypatch.setattr(PartitionState, "move_to", move_to)


def a_failed_commit_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    async def commit(self: StoredOffsets, *arguments: Any) -> None:
        with suppress(OffsetStoreFailed):
            await real(self, *arguments)

    real = StoredOffsets.commit
    monkeypatch.setattr(StoredOffsets, "commit", commit)


@pytest.mark.parametrize(
    "plant",
    [
        processed_when_returned,
        auto_commit_overtakes_the_user,
        a_kept_partition_begins_again,
        a_seek_keeps_the_bound_of_an_earlier_commit,
        a_failed_commit_counts,
    ],
    ids=lambda plant: plant.__name__,
)
def test_a_planted_bug_is_found(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    quick = settings(
        SETTINGS, max_examples=300, derandomize=True, phases=[Phase.generate], print_blob=False, database=None
    )
    with pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(Commits, settings=quick)
