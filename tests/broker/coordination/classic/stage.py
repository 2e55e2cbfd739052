"""A stage for one group: commands as lines of text go in, and what comes of them comes out as lines of text.

It plays the coordinator's part around the machine (log, timers, clock), at once and without chance. Member ids are m1,
m2, ... in the order in which they are given out; answers are named after the first word of their command.

    group [hold] [delay=MS] [max=N]                   a new group on an empty log
    join LABEL [member=ID] [instance=ID] [protocols=range:meta,...] [topics=a,b] [type=T]
               [session=MS] [rebalance=MS] [version=N] [reason=R]
    sync LABEL member=ID gen=N [instance=ID] [assign=m1:x,m2:y] [type=T] [protocol=P]
    heartbeat LABEL member=ID gen=N [instance=ID]     leave LABEL [member=ID|instance=ID|member=ID/instance],...
    commit LABEL [member=ID] [gen=N] [instance=ID] offsets=topic/0:5,...
    txn-commit LABEL pid=N [member=ID] [gen=N] [instance=ID] offsets=topic/0:5,...
    txn-end pid=N [abort]                             the marker of a producer's transaction is in the log
    wait MS                                           time passes; timers that fall due ring
    hold / committed / failed ERROR                   the log keeps its answer back / says yes / says no
    restart [max=N]                                   all memory is lost, the log is replayed
    expire RETENTION_MS / drop TOPIC                  old offsets go / a topic was deleted
    delete LABEL                                      the group is to go
    uncommit LABEL offsets=topic/0,...                offsets are to go
    tombstone                                         a tombstone of the group is committed
    unload                                            the coordinator lets the group go
    show                                              what the group is now
"""

from __future__ import annotations

import shlex

from odradek.broker.coordination.classic import machine
from odradek.broker.coordination.classic.states import GroupState
from odradek.broker.coordination.groups import records
from odradek.broker.coordination.groups.events import (
    Answer,
    AppendFailed,
    CommitInTransaction,
    CommitOffsets,
    Create,
    Delete,
    DeleteOffsets,
    DropTopic,
    EndTransaction,
    Event,
    ExpireOffsets,
    Heartbeat,
    InitialDelayPassed,
    Join,
    Joined,
    Leave,
    Left,
    Loaded,
    OffsetsDeleted,
    Outcome,
    Protocols,
    RebalanceTimeout,
    SessionExpired,
    SetTimer,
    Sync,
    Synced,
    TimerEvent,
    Unload,
)
from odradek.broker.coordination.groups.group import Group, GroupLimits
from odradek.broker.coordination.groups.records import NO_PRODUCER, GroupRecord, OffsetRecord, Record
from odradek.broker.coordination.replay import Ended, Replay, Written
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    decode_versioned,
    encode_versioned,
)
from odradek.protocol.messages.group_records import OffsetCommitValue
from odradek.protocol.messages.leave_group import MemberIdentity
from odradek.tests.broker.coordination.classic.world import FakeTopics

GROUP_ID = "g"


def is_open() -> ErrorCode:
    """The verification of a transaction that is open."""
    return ErrorCode.NONE


class Stage:
    """One group and the world around it."""

    def __init__(self) -> None:
        self.limits = GroupLimits()
        self.group = Group(GROUP_ID, self.limits, FakeTopics())
        self.now_ms = 0
        self.log: list[Written | Ended] = []
        self.timers: dict[TimerEvent, int] = {}
        self.holding = False
        self.held: Outcome | None = None
        self.lines: list[str] = []
        self.ids = 0

    def run(self, command: str) -> list[str]:
        """Does one command; returns what came of it."""
        self.lines = []
        verb, *words = shlex.split(command)
        getattr(self, f"do_{verb.replace('-', '_')}")(*split(words))
        return self.lines

    # What coordinators do.

    def step(self, event: Event) -> None:
        before = self.group.state
        outcome = machine.step(self.group, event, self.now_ms)
        if self.group.state is not before:
            self.say(f"{before.value} -> {self.group.state.value}")
        if not outcome.records:
            self.release(outcome)
        elif self.holding:
            self.held = outcome
            self.say("(the log keeps its answer back)")
        else:
            self.commit(outcome)

    def commit(self, outcome: Outcome) -> None:
        before = self.group.state
        for record in outcome.records:
            self.say(f"record {_show_record(record)}")
            producer_id = NO_PRODUCER if outcome.producer is None else outcome.producer[0]
            self.log.append(Written(*records.encode(record), producer_id))
            self.group.apply(record)
        if self.group.state is not before:
            self.say(f"{before.value} -> {self.group.state.value}")
        self.release(outcome)

    def release(self, outcome: Outcome) -> None:
        for label, answer in outcome.replies:
            self.say(f"{label}: {show_answer(answer)}")
        for change in {change.event: change for change in outcome.timers}.values():  # the last word on each
            if isinstance(change, SetTimer):
                self.timers[change.event] = self.now_ms + change.delay_ms
                self.say(f"timer {_show_timer(change.event)} in {change.delay_ms}")
            elif self.timers.pop(change.event, None) is not None:
                self.say(f"timer {_show_timer(change.event)} cancelled")
        for note in outcome.notes:
            self.say(f"note {note}")

    def say(self, line: str) -> None:
        self.lines.append(line)

    # Commands.

    def do_group(self, words: list[str], options: dict[str, str]) -> None:
        limits = GroupLimits(int(options.get("delay", 3000)), int(options.get("max", 2**31 - 1)))
        self.__init__()
        self.limits = limits
        self.group = Group(GROUP_ID, limits, FakeTopics())
        self.holding = "hold" in words
        self.step(Create())

    def do_join(self, words: list[str], options: dict[str, str]) -> None:
        version = int(options.get("version", 9))
        session_ms = int(options.get("session", 10_000))
        if not options.get("member"):
            self.ids += 1
        self.step(
            Join(
                words[0],
                options.get("member", ""),
                f"m{self.ids}",
                options.get("instance"),
                "client",
                "/host",
                session_ms,
                int(options.get("rebalance", 60_000)) if version else session_ms,
                options.get("type", "consumer"),
                protocols_of(options),
                options.get("reason"),
                needs_member_id=version >= 4,
                can_skip_assignment=version >= 9,
            )
        )

    def do_sync(self, words: list[str], options: dict[str, str]) -> None:
        assigned = {member: data.encode() for member, data in pairs(options.get("assign", ""))}
        names = options.get("type"), options.get("protocol")
        self.step(Sync(words[0], options["member"], options.get("instance"), int(options["gen"]), assigned, *names))

    def do_heartbeat(self, words: list[str], options: dict[str, str]) -> None:
        self.step(Heartbeat(words[0], options["member"], options.get("instance"), int(options["gen"])))

    def do_leave(self, words: list[str], options: dict[str, str]) -> None:
        leavers = [MemberIdentity(member) for member in options.get("member", "").split(",") if member]
        for word in options.get("instance", "").split(","):
            if word:
                instance, _, member = word.partition("/")
                leavers.append(MemberIdentity(member, instance))
        self.step(Leave(words[0], leavers))

    def do_commit(self, words: list[str], options: dict[str, str]) -> None:
        member, instance = options.get("member", ""), options.get("instance")
        offsets = self._offsets(options)
        self.step(CommitOffsets(words[0], member, instance, int(options.get("gen", -1)), offsets))

    def do_txn_commit(self, words: list[str], options: dict[str, str]) -> None:
        member, instance, producer_id = options.get("member", ""), options.get("instance"), int(options["pid"])
        offsets = self._offsets(options, producer_id)
        generation = int(options.get("gen", -1))
        self.step(CommitInTransaction(words[0], member, instance, generation, offsets, (producer_id, 0), is_open))

    def do_txn_end(self, words: list[str], options: dict[str, str]) -> None:
        ended = Ended(int(options["pid"]), "abort" not in words)
        self.log.append(ended)
        self.step(EndTransaction(*ended))

    def _offsets(self, options: dict[str, str], producer_id: int = NO_PRODUCER) -> list[Record]:
        offsets: list[Record] = []
        for place, offset in pairs(options["offsets"]):
            topic, partition = place.split("/")
            value = OffsetCommitValue(offset=int(offset), commit_timestamp=self.now_ms)
            offsets.append(OffsetRecord(GROUP_ID, topic, int(partition), value, producer_id))
        return offsets

    def do_wait(self, words: list[str], options: dict[str, str]) -> None:
        end_ms = self.now_ms + int(words[0])
        while self.timers:
            event = min(self.timers, key=lambda timer: self.timers[timer])
            if self.timers[event] > end_ms:
                break
            self.now_ms = self.timers.pop(event)
            self.say(f"at {self.now_ms}: {_show_timer(event)} rings")
            self.step(event)
        self.now_ms = end_ms

    def do_hold(self, words: list[str], options: dict[str, str]) -> None:
        self.holding = True

    def do_committed(self, words: list[str], options: dict[str, str]) -> None:
        self.commit(self._let_go())

    def do_failed(self, words: list[str], options: dict[str, str]) -> None:
        self.step(AppendFailed(self._let_go(), ErrorCode[words[0]]))

    def do_restart(self, words: list[str], options: dict[str, str]) -> None:
        self.limits = GroupLimits(self.limits.initial_rebalance_delay_ms, int(options.get("max", self.limits.max_size)))
        self.group = self.replayed()
        self.timers.clear()
        self.holding, self.held = False, None
        self.do_show([], {})
        self.step(Loaded())

    def do_expire(self, words: list[str], options: dict[str, str]) -> None:
        self.step(ExpireOffsets(int(words[0])))

    def do_drop(self, words: list[str], options: dict[str, str]) -> None:
        self.step(DropTopic(words[0]))

    def do_delete(self, words: list[str], options: dict[str, str]) -> None:
        self.step(Delete(words[0]))

    def do_uncommit(self, words: list[str], options: dict[str, str]) -> None:
        self.step(DeleteOffsets(words[0], places_of(options)))

    def do_tombstone(self, words: list[str], options: dict[str, str]) -> None:
        self.commit(Outcome([GroupRecord(GROUP_ID, None)]))

    def do_unload(self, words: list[str], options: dict[str, str]) -> None:
        self.step(Unload())

    def do_show(self, words: list[str], options: dict[str, str]) -> None:
        group = self.group
        self.say(f"{group.state.value} gen={group.generation} protocol={group.protocol} leader={group.leader}")
        for member in group.roster.members.values():
            protocols = ",".join(f"{name}:{show_bytes(data)}" for name, data in member.protocols)
            instance = f" instance={member.instance_id}" if member.instance_id else ""
            self.say(f"  {member.member_id}{instance} {protocols} -> {member.assignment.decode()!r}")
        if group.roster.pending:
            self.say(f"  only given an id: {' '.join(group.roster.pending)}")
        for topic, partitions in group.offsets:
            shown = " ".join(f"{index}:{value.offset}" for index, value in partitions.items())
            self.say(f"  offsets {topic} {shown}")
        for overtaken in (True, False):
            for producer_id, (topic, index), value in group.offsets.pending.in_order(overtaken=overtaken):
                late = " (overtaken)" if overtaken else ""
                self.say(f"  pending {topic} {index}:{value.offset} of producer {producer_id}{late}")

    def replayed(self) -> Group:
        """The group as a coordinator would find it that starts now."""
        group = Group(GROUP_ID, self.limits, FakeTopics())
        replay = Replay()
        for each in self.log:
            replay.take(each)
        for key, value, producer_id, _ in replay.outcome():
            record = records.decode_record(key, value)
            assert record is not None
            group.apply(record._replace(producer_id=producer_id) if isinstance(record, OffsetRecord) else record)
        return group

    def _let_go(self) -> Outcome:
        held, self.held, self.holding = self.held, None, False
        assert held is not None, "nothing is held"
        return held


def split(words: list[str]) -> tuple[list[str], dict[str, str]]:
    options = dict(word.split("=", 1) for word in words if "=" in word)
    return [word for word in words if "=" not in word], options


def pairs(text: str) -> list[tuple[str, str]]:
    """`a:1,b:2`."""
    return [(name, rest) for name, _, rest in (part.partition(":") for part in text.split(",") if part)]


def places_of(options: dict[str, str]) -> dict[str, list[int]]:
    """`offsets=t/0,t/1,u/0`, by topic."""
    places: dict[str, list[int]] = {}
    for place in options["offsets"].split(","):
        topic, index = place.split("/")
        places.setdefault(topic, []).append(int(index))
    return places


def protocols_of(options: dict[str, str]) -> Protocols:
    """What a join speaks: as it is written, or a subscription of topics."""
    if "topics" in options:
        subscription = ConsumerProtocolSubscription(topics=options["topics"].split(","))
        return (("range", encode_versioned(subscription, 1)),)
    return tuple((name, data.encode()) for name, data in pairs(options.get("protocols", "range:x")))


def show_bytes(data: bytes) -> str:
    """A member's metadata: text, or the topics of a subscription."""
    if not data.startswith(b"\0"):
        return data.decode()
    return "+".join(decode_versioned(ConsumerProtocolSubscription, data).topics)


def _show_record(record: Record) -> str:
    if isinstance(record, OffsetRecord) and record.value is None:
        return f"offset {record.topic}/{record.partition} deleted"
    if isinstance(record, OffsetRecord):
        assert record.value is not None
        return f"offset {record.topic}/{record.partition} = {record.value.offset}"
    if record.value is None:
        return "group deleted"
    value = record.value
    seats = " ".join(f"{m.member_id}:{m.assignment.decode()!r}" for m in value.members)
    names = f"gen={value.generation} protocol={value.protocol} leader={value.leader}"
    return f"group {value.protocol_type!r} {names} [{seats}]"


def show_answer(answer: Answer) -> str:
    if isinstance(answer, ErrorCode):
        return answer.name
    if isinstance(answer, Left):
        return f"left {' '.join(error.name for error in answer.errors)}"
    if isinstance(answer, OffsetsDeleted):
        return " ".join(["deleted", *(f"{topic}:SUBSCRIBED" for topic in sorted(answer.subscribed))])
    if answer.error is not ErrorCode.NONE:
        # An error stands alone, but for the id that comes with it.
        return f"{answer.error.name} {answer.member_id}".rstrip() if isinstance(answer, Joined) else answer.error.name
    if isinstance(answer, Synced):
        return f"synced {answer.protocol_type}/{answer.protocol} {answer.assignment.decode()!r}"
    skip = " skip_assignment" if answer.skip_assignment else ""
    members = " ".join(
        f"{m.member_id}{f'({m.group_instance_id})' if m.group_instance_id else ''}:{show_bytes(m.metadata)}"
        for m in answer.members
    )
    who = f"{answer.member_id} gen={answer.generation} {answer.protocol_type}/{answer.protocol}"
    return f"joined {who} leader={answer.leader}{skip} [{members}]"


def _show_timer(event: TimerEvent) -> str:
    if isinstance(event, SessionExpired):
        return f"session of {event.member_id}"
    names = {InitialDelayPassed: "initial delay", RebalanceTimeout: "rebalance timeout"}
    return names.get(type(event), "sync timeout")


__all__ = ["GROUP_ID", "GroupState", "Stage"]
