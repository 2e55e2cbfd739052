"""A stage for one transactional id: commands as lines of text go in, and what comes of them comes out as lines of text.

It does what the coordinator does around the machine (log, timer, clock, partitions), at once and without randomness.
Producer ids are 1, 2, ... in their order. Each answer has the label of its request.

    id [version=0|2]                                  a new transactional id on an empty log
    init LABEL [id=N epoch=N] [timeout=MS]            InitProducerId
    add LABEL id=N epoch=N places=t/0,t/1 [v=0|2]     AddPartitionsToTxn
    verify LABEL id=N epoch=N places=t/0              AddPartitionsToTxn that only verifies
    end LABEL id=N epoch=N commit|abort [v=0|2]       EndTxn
    wait MS                                           time passes; the timer may ring
    sweep / expire RETENTION_MS                       look for time-outs / for unused ids
    hold / committed / failed ERROR                   appends wait / are committed / fail
    late PLACE,... / refuse PLACE,...                 markers of these partitions wait / fail
    marked PLACE,...                                  markers that waited are written
    epoch N                                           raise the producer's epoch
    restart                                           lose the memory and load the log
    show                                              print the standing of the id
"""

from __future__ import annotations

import itertools
import shlex

from odradek.broker.coordination.machine import append_error
from odradek.broker.coordination.transactions import events, machine, records
from odradek.broker.coordination.transactions.records import Standing, TopicPartition, TransactionRecord
from odradek.broker.coordination.transactions.states import TransactionState
from odradek.broker.coordination.transactions.transaction import Transaction, TransactionLimits
from odradek.protocol.errors import ErrorCode

TRANSACTIONAL_ID = "x"
Options = dict[str, str]


class Stage:
    """One transactional id and its surroundings."""

    def __init__(self, version: int = 2) -> None:
        ids = itertools.count(1)
        self.limits = TransactionLimits(lambda: next(ids), version)
        self.transaction = Transaction(TRANSACTIONAL_ID, self.limits)
        self.now_ms = 0
        self.log: list[tuple[bytes, bytes | None]] = []
        self.timer_ms: int | None = None
        self.holding = False
        self.held: events.Outcome | None = None
        self.late: set[TopicPartition] = set()
        self.refused: set[TopicPartition] = set()
        self.lines: list[str] = []

    def run(self, command: str) -> list[str]:
        """Run one command and return the lines of its results."""
        self.lines = []
        verb, *words = shlex.split(command)
        options = dict(word.split("=", 1) for word in words if "=" in word)
        getattr(self, f"do_{verb}")([word for word in words if "=" not in word], options)
        return self.lines

    # -- The coordinator

    def step(self, event: events.Event) -> None:
        assert self.held is None, "an actor steps its machine only when its last record is in the log"
        before = self.transaction.state
        outcome = machine.step(self.transaction, event, self.now_ms)
        self._say_move(before)
        if not outcome.records:
            self.release(outcome)
        elif self.holding:
            self.held = outcome
            self.say("(the log keeps its answer back)")
        else:
            self.commit(outcome)

    def commit(self, outcome: events.Outcome) -> None:
        before = self.transaction.state
        for record in outcome.records:
            self.say(f"record {show_standing(record.standing)}")
            self.log.append(records.encode(record))
            self.transaction.apply(record)
        self._say_move(before)
        self.release(outcome)

    def release(self, outcome: events.Outcome) -> None:
        for change in outcome.timers:
            self.timer_ms = self.now_ms + change.delay_ms
            self.say(f"timer in {change.delay_ms}")
        for note in outcome.notes:
            self.say(f"note {note}")
        for label, answer in outcome.replies:
            self.say(f"{label}: {show_answer(answer)}")
        if outcome.markers is not None:
            self.mark(sorted(outcome.markers))

    def mark(self, marked: list[TopicPartition]) -> None:
        standing = self.transaction.standing
        how = "commit" if standing.state is TransactionState.PREPARE_COMMIT else "abort"
        self.say(f"markers {how} id={standing.producer_id} epoch={standing.producer_epoch} {show(marked)}")
        failed = [place for place in marked if place in self.refused]
        written = [place for place in marked if place not in self.refused | self.late]
        if failed:
            self.step(events.MarkersFailed(failed))
        if written or not marked:
            self.step(events.MarkersWritten(written))

    def say(self, line: str) -> None:
        self.lines.append(line)

    def _say_move(self, before: object) -> None:
        if self.transaction.state is not before:
            self.say(f"{before.value} -> {self.transaction.state.value}")  # type: ignore[attr-defined]

    # -- Commands

    def do_id(self, words: list[str], options: Options) -> None:
        self.__init__(int(options.get("version", 2)))

    def do_init(self, words: list[str], options: Options) -> None:
        who = int(options.get("id", -1)), int(options.get("epoch", -1))
        self.step(events.Initialize(words[0], int(options.get("timeout", 60_000)), *who))

    def do_add(self, words: list[str], options: Options) -> None:
        version = int(options.get("v", self.limits.transaction_version))
        who = int(options["id"]), int(options["epoch"])
        self.step(events.AddPartitions(words[0], *who, places(options["places"]), version))

    def do_verify(self, words: list[str], options: Options) -> None:
        who = int(options["id"]), int(options["epoch"])
        self.step(events.VerifyPartitions(words[0], *who, places(options["places"])))

    def do_end(self, words: list[str], options: Options) -> None:
        version = int(options.get("v", self.limits.transaction_version))
        who = int(options["id"]), int(options["epoch"])
        self.step(events.EndTransaction(words[0], *who, words[1] == "commit", version))

    def do_wait(self, words: list[str], options: Options) -> None:
        end_ms = self.now_ms + int(words[0])
        while self.timer_ms is not None and self.timer_ms <= end_ms:
            self.now_ms, self.timer_ms = self.timer_ms, None
            self.say(f"at {self.now_ms}: the timer rings")
            self.step(events.RetryMarkers())
        self.now_ms = end_ms

    def do_sweep(self, words: list[str], options: Options) -> None:
        self.step(events.LookForTimeout())

    def do_expire(self, words: list[str], options: Options) -> None:
        self.step(events.Expire(int(words[0])))

    def do_hold(self, words: list[str], options: Options) -> None:
        self.holding = True

    def do_committed(self, words: list[str], options: Options) -> None:
        self.commit(self._let_go())

    def do_failed(self, words: list[str], options: Options) -> None:
        self.step(
            events.AppendFailed(self._let_go(), append_error(ErrorCode[words[0]], ErrorCode.UNKNOWN_SERVER_ERROR))
        )

    def do_late(self, words: list[str], options: Options) -> None:
        self.late = set(places(words[0])) if words else set()

    def do_refuse(self, words: list[str], options: Options) -> None:
        self.refused = set(places(words[0])) if words else set()

    def do_marked(self, words: list[str], options: Options) -> None:
        self.step(events.MarkersWritten(places(words[0])))

    def do_epoch(self, words: list[str], options: Options) -> None:
        standing = self.transaction.standing._replace(producer_epoch=int(words[0]))
        self.transaction.standing = standing
        self.log.append(records.encode(TransactionRecord(TRANSACTIONAL_ID, standing)))

    def do_restart(self, words: list[str], options: Options) -> None:
        self.transaction = self.replayed()
        self.timer_ms = None
        self.holding, self.held = False, None
        self.late = set()
        self.do_show([], {})
        self.step(events.Loaded())

    def do_show(self, words: list[str], options: Options) -> None:
        unmarked = f" unmarked {show(self.transaction.unmarked)}" if self.transaction.unmarked else ""
        self.say(show_standing(self.transaction.standing) + unmarked)

    def replayed(self) -> Transaction:
        """Return the id as a coordinator loads it from the log."""
        transaction = Transaction(TRANSACTIONAL_ID, self.limits)
        for key, value in dict(self.log).items():
            record = records.decode_record(key, value)
            assert record is not None
            transaction.apply(record)
        return transaction

    def _let_go(self) -> events.Outcome:
        held, self.held, self.holding = self.held, None, False
        assert held is not None, "nothing is held"
        return held


def places(text: str) -> frozenset[TopicPartition]:
    """`t/0,u/1`."""
    return frozenset((topic, int(index)) for topic, _, index in (place.partition("/") for place in text.split(",")))


def show(partitions: list[TopicPartition] | set[TopicPartition] | frozenset[TopicPartition]) -> str:
    return "[" + " ".join(f"{topic}/{index}" for topic, index in sorted(partitions)) + "]"


def show_standing(standing: Standing | None) -> str:
    if standing is None:
        return "expired"
    following = f" next={standing.next_producer_id}" if standing.next_producer_id != -1 else ""
    who = f"id={standing.producer_id}{following} epoch={standing.producer_epoch} last={standing.last_producer_epoch}"
    rest = f"v={standing.client_version} since={standing.start_ms} {show(standing.partitions)}"
    return f"{standing.state.value} {who} {rest}"


def show_answer(answer: events.Answer) -> str:
    if isinstance(answer, ErrorCode):
        return answer.name
    if isinstance(answer, events.Verified):
        return f"added {show(answer.added)}"
    if answer.error is not ErrorCode.NONE:
        return answer.error.name
    return f"id={answer.producer_id} epoch={answer.producer_epoch}"
