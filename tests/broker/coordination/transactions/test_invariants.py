"""Invariants of a transactional id under any order of requests, failures, timers and restarts."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from odradek.broker.coordination.transactions import events
from odradek.broker.coordination.transactions.records import LAST_TOLD_EPOCH, RAISES_EPOCH, TopicPartition
from odradek.broker.coordination.transactions.states import ENDING, IDLE, TransactionState
from odradek.protocol.errors import ErrorCode
from odradek.tests.broker.coordination.transactions.stage import Stage
from odradek.tests.support.seeds import examples

PLACES = st.frozensets(st.sampled_from([("t", 0), ("t", 1), ("u", 0)]), min_size=1)
VERSIONS = st.sampled_from([0, 2])


class Watched(Stage):
    """A stage that collects answers and checks each marker."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[object, list[events.Answer]] = {}
        # For each decision (its place in the log, producer id and epoch) whether it commits.
        self.ends: dict[tuple[int, int, int], bool] = {}
        self.decisions = 0

    def release(self, outcome: events.Outcome) -> None:
        for token, answer in outcome.replies:
            self.answers.setdefault(token, []).append(answer)
        super().release(outcome)

    def mark(self, marked: list[TopicPartition]) -> None:
        standing = self.transaction.standing
        assert self.transaction.state is standing.state in ENDING, "a marker before its decision was committed"
        decision = self.decisions, standing.producer_id, standing.producer_epoch
        commit = standing.state is TransactionState.PREPARE_COMMIT
        assert self.ends.setdefault(decision, commit) is commit, "a decision that changed"
        super().mark(marked)

    def commit(self, outcome: events.Outcome) -> None:
        for record in outcome.records:
            if record.standing is not None and record.standing.state in ENDING:
                self.decisions += 1
        super().commit(outcome)


class Invariants(RuleBasedStateMachine):
    """One transactional id: producers begin, continue, write, end and are late, and the coordinator restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Watched()
        self.asked = 0
        self.told: list[tuple[int, int]] = [(1, 0)]
        self.owners: dict[tuple[int, int], object] = {}

    def ask(self, event: events.Event) -> None:
        self.stage.lines = []
        self.stage.step(event)

    def token(self) -> int:
        self.asked += 1
        return self.asked

    @property
    def is_free(self) -> bool:
        """Return whether the machine may be stepped."""
        return self.stage.held is None

    @initialize()
    def begin(self) -> None:
        self.ask(events.Initialize(self.token(), 1000))

    @precondition(lambda self: self.is_free)
    @rule(data=st.data(), goes_on=st.booleans())
    def init(self, data: st.DataObject, goes_on: bool) -> None:
        who = data.draw(st.sampled_from(self.told)) if goes_on else (-1, -1)
        self.ask(events.Initialize(self.token(), 1000, *who))

    def someone(self, data: st.DataObject) -> tuple[int, int]:
        """Draw a producer that was told its id and epoch: mostly the present one."""
        owner = self.stage.transaction.standing.owner_after_end()
        return data.draw(st.sampled_from([*[owner] * 3 * (owner in self.told) * len(self.told), *self.told]))

    @precondition(lambda self: self.is_free)
    @rule(data=st.data(), places=PLACES, version=VERSIONS)
    def add(self, data: st.DataObject, places: frozenset[TopicPartition], version: int) -> None:
        self._owned(events.AddPartitions(self.token(), *self.someone(data), places, version))

    @precondition(lambda self: self.is_free)
    @rule(data=st.data(), commit=st.booleans(), version=VERSIONS)
    def end(self, data: st.DataObject, commit: bool, version: int) -> None:
        who, standing = self.someone(data), self.stage.transaction.standing
        event = events.EndTransaction(self.token(), *who, commit, version)
        self.ask(event)
        if version == RAISES_EPOCH == standing.client_version and who == standing.owner_after_end():
            # At every moment of the end before, also while its markers are being written.
            for answer in self.stage.answers.get(event.token, ()):
                assert isinstance(answer, events.Producer)
                assert answer.error not in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING)

    @precondition(lambda self: self.is_free and self.stage.transaction.standing.owner_after_end() in self.told)
    @rule(places=PLACES, commit=st.booleans(), version=VERSIONS)
    def end_with_slow_markers(self, places: frozenset[TopicPartition], commit: bool, version: int) -> None:
        owner = self.stage.transaction.standing.owner_after_end()
        self.stage.late = set(places)
        self.ask(events.AddPartitions(self.token(), *owner, places, version))
        if self.is_free:
            self.ask(events.EndTransaction(self.token(), *owner, commit, version))

    def _owned(self, event: events.AddPartitions) -> None:
        """Check that a producer that does not own the id changes nothing."""
        standing = self.stage.transaction.standing
        is_owner = (event.producer_id, event.producer_epoch) == (standing.producer_id, standing.producer_epoch)
        self.ask(event)
        if not is_owner:
            assert self.stage.transaction.standing is standing
            assert self.stage.answers[event.token][0] is not ErrorCode.NONE

    @precondition(lambda self: self.is_free)
    @rule()
    def sweep(self) -> None:
        self.stage.now_ms += 1001
        self.ask(events.LookForTimeout())

    @precondition(lambda self: self.is_free)
    @rule()
    def exhaust(self) -> None:
        if self.stage.transaction.state in IDLE and self.stage.transaction.recorded:
            self.stage.run(f"epoch {LAST_TOLD_EPOCH}")

    @rule(places=PLACES)
    def late(self, places: frozenset[TopicPartition]) -> None:
        self.stage.late = set(places)

    @rule(places=PLACES)
    def refuse(self, places: frozenset[TopicPartition]) -> None:
        self.stage.refused = set(places)

    @precondition(lambda self: self.is_free)
    @rule()
    def all_is_well_again(self) -> None:
        late, self.stage.late, self.stage.refused = self.stage.late, set(), set()
        self.stage.lines = []
        # A marker that was refused is not under way any more.
        if under_way := late & (self.stage.transaction.unmarked - self.stage.transaction.to_retry):
            self.stage.step(events.MarkersWritten(under_way))
        # The actor's timer waits, too, while the machine may not be stepped.
        if self.is_free:
            self.stage.run("wait 1000")

    @precondition(lambda self: self.is_free)
    @rule()
    def hold(self) -> None:
        self.stage.holding = True

    @precondition(lambda self: not self.is_free)
    @rule(well=st.booleans())
    def log_answers(self, well: bool) -> None:
        self.stage.run("committed" if well else "failed KAFKA_STORAGE_ERROR")

    @rule()
    def restart(self) -> None:
        self.stage.run("restart")
        assert self.stage.transaction.state is not TransactionState.PREPARE_EPOCH_FENCE

    @invariant()
    def each_request_is_answered_once(self) -> None:
        assert all(len(answers) == 1 for answers in self.stage.answers.values())

    @invariant()
    def nobody_is_told_the_coordinators_own_epoch(self) -> None:
        for answers in self.stage.answers.values():
            for answer in answers:
                if isinstance(answer, events.Producer) and answer.error is ErrorCode.NONE:
                    assert 0 <= answer.producer_epoch <= LAST_TOLD_EPOCH
                    self.told.append((answer.producer_id, answer.producer_epoch))
        self.told = list(dict.fromkeys(self.told))
        self.stage.answers.clear()

    @invariant()
    def what_is_open_stands_in_the_log(self) -> None:
        transaction = self.stage.transaction
        assert transaction.unmarked <= transaction.standing.partitions
        assert transaction.to_retry <= transaction.unmarked
        assert transaction.state not in IDLE or not transaction.standing.partitions
        assert transaction.state is transaction.standing.state or not self.is_free

    def teardown(self) -> None:
        """Check that no transaction stays ending when no failure is left."""
        if not self.is_free:
            self.stage.run("committed")
        self.stage.holding = False
        self.stage.refused = self.stage.late = set()
        if self.stage.transaction.recorded:
            self.stage.run("restart")
        assert self.stage.transaction.state not in ENDING


TestInvariants = Invariants.TestCase
TestInvariants.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)
