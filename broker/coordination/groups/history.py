"""The history of a group's rebalances: why each began, how long its phases took, and which members it waited for.

A rebalance has two phases. In the join phase all members join again, and the slowest one decides how long it takes. In
the sync phase they wait for the leader's assignment. It ends stable, or empty if no member is left. It is overtaken if
the next rebalance begins before the assignment is there.

Times are those of the wall clock, for people to read. A clock that is set back makes a phase look shorter, but never
negative. The history is only in memory: a coordinator that starts has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from ....protocol.messages.group_history import HistoricCause, HistoricWait

# Rebalances kept for each group: enough to see a pattern, and little memory beside the members themselves.
MAX_HISTORY = 16

# Causes kept for each rebalance. If a thousand members leave together, the rest is only counted.
MAX_CAUSES = 16

# Characters of each text of a cause that are kept: clients choose them, up to megabytes. Java's give no longer reason,
# and a member id is a client id of 255 at most with some 40 more.
MAX_TEXT_CHARS = 300

# The slowest members of a rebalance that are kept by name.
MAX_WAITED = 8

UNKNOWN_MS = -1


class CauseKind(StrEnum):
    """The reason for a rebalance. The value is the word on the wire and in `--json`."""

    JOINED = "joined"
    CAME_BACK = "came-back"
    LEADER_REJOINED = "leader-rejoined"
    CHANGED_SUBSCRIPTION = "changed-subscription"
    CHANGED_METADATA = "changed-metadata"
    LEFT = "left"
    EXPIRED = "expired"
    NOT_SYNCED = "not-synced"
    TOO_MANY = "too-many-members"
    NOT_WRITTEN = "assignment-not-written"
    REQUESTED = "requested"
    DOWNGRADED = "downgraded"


_CAUSES: dict[str, str] = {
    CauseKind.JOINED: "{who} joined",
    CauseKind.CAME_BACK: "{who} came back under a new id",
    CauseKind.LEADER_REJOINED: "leader {who} joined again",
    CauseKind.CHANGED_SUBSCRIPTION: "{who} changed its subscription",
    CauseKind.CHANGED_METADATA: "{who} changed its metadata",
    CauseKind.LEFT: "{who} left",
    CauseKind.EXPIRED: "{who} expired, {heard}",
    CauseKind.NOT_SYNCED: "{who} did not fetch its assignment in time",
    CauseKind.TOO_MANY: "more members than group.max.size allows",
    CauseKind.NOT_WRITTEN: "the assignment could not be written",
    CauseKind.REQUESTED: "a test asked for a rebalance",
    CauseKind.DOWNGRADED: "the last member of the consumer protocol is gone",
}


class Ending(Enum):
    """The way in which a rebalance ended."""

    RUNNING = "running"
    STABLE = "stable"
    EMPTY = "empty"
    OVERTAKEN = "overtaken"


class Fate(StrEnum):
    """The end of a wait for a member during a rebalance."""

    CAME = "came"
    DROPPED = "dropped"
    # A static member that did not come. It keeps its place until its session ends (KIP-345).
    KEPT = "kept"
    MISSING = "missing"


def kept(cause: HistoricCause) -> HistoricCause:
    """Return a cause as it is kept, with its text for people. Its member id is empty if no member caused it."""
    member_id, instance_id, client_id, detail = cause.member_id, cause.instance_id, cause.client_id, cause.detail
    if len(f"{member_id}{instance_id}{client_id}{detail}") > MAX_TEXT_CHARS:
        member_id, client_id, detail = cut(member_id), cut(client_id), cut(detail)
        instance_id = None if instance_id is None else cut(instance_id)
    who = member_id if instance_id is None else f"{member_id} ({instance_id})"
    tail = f" ({detail})" if detail else ""
    ago = f"last heard of {cause.silent_ms} ms ago"
    heard = "not heard of since this broker started" if cause.silent_ms < 0 else ago
    text = _CAUSES[cause.kind].format(who=who, heard=heard) + tail
    return HistoricCause(
        cause.kind, member_id, instance_id, client_id, cause.client_host, cause.silent_ms, detail, text
    )


@dataclass(slots=True)
class Rebalance:
    """One rebalance, from its first cause until its end."""

    began_ms: int
    old_generation: int
    # The group was empty: it waits `group.initial.rebalance.delay.ms` for more members.
    first_round: bool = False
    causes: list[HistoricCause] = field(default_factory=list[HistoricCause])
    # The number of causes that were not kept.
    more_causes: int = 0
    # The time when the joins were answered.
    joined_ms: int = UNKNOWN_MS
    ended_ms: int = UNKNOWN_MS
    ending: Ending = Ending.RUNNING
    # The generation that it made.
    generation: int = -1
    members: int = 0
    protocol: str = ""
    leader: str = ""
    # The members that it waited for, counted from its beginning.
    waited: list[HistoricWait] = field(default_factory=list[HistoricWait])
    # Until the joins are answered: how long after the beginning each member joined, in milliseconds.
    arrivals: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, causes: Iterable[HistoricCause]) -> None:
        """Add causes. Only the first ones are kept, the rest is counted."""
        for cause in causes:
            if len(self.causes) < MAX_CAUSES:
                self.causes.append(kept(cause))
            else:
                self.more_causes += 1

    def arrived(self, member_id: str, now_ms: int) -> None:
        """Note that a member joined."""
        self.arrivals[member_id] = max(now_ms - self.began_ms, 0)

    def lost(self, member_id: str, now_ms: int) -> None:
        """Note that a member left or expired before it joined."""
        if self.arrivals.pop(member_id, None) is None:
            gone = HistoricWait(cut(member_id), max(now_ms - self.began_ms, 0), Fate.DROPPED)
            self.waited = slowest([*self.waited, gone])

    def joins_answered(self, absent: Mapping[str, Fate], now_ms: int) -> None:
        """Note the end of the join phase. The members in `absent` did not join."""
        self.joined_ms = now_ms
        arrivals = [(cut(member_id), ms) for member_id, ms in self.arrivals.items() if ms]
        waited = self.waited + [HistoricWait(*each, Fate.CAME) for each in arrivals]
        waited += [HistoricWait(cut(member_id), self.join_ms, fate) for member_id, fate in absent.items()]
        self.waited = slowest(waited)
        self.arrivals = {}

    def end(self, ending: Ending, now_ms: int) -> None:
        """Note the end of the rebalance."""
        self.ending = ending
        self.ended_ms = now_ms

    @property
    def join_ms(self) -> int:
        """Return how long the join phase took."""
        return max(self.joined_ms - self.began_ms, 0) if self.joined_ms >= 0 else UNKNOWN_MS

    @property
    def sync_ms(self) -> int:
        """Return how long the sync phase took."""
        return max(self.ended_ms - self.joined_ms, 0) if self.joined_ms >= 0 <= self.ended_ms else UNKNOWN_MS

    @property
    def text(self) -> str:
        """Return the rebalance in one line, for the broker's log."""
        why = "; ".join([cause.text for cause in self.causes] + ([f"{self.more_causes} more"] * bool(self.more_causes)))
        phases: list[str] = []
        if self.joined_ms >= 0:
            phases.append(f"joins {self.join_ms} ms")
            phases += [f"{each.member_id} {_FATES[Fate(each.fate)]} {each.waited_ms} ms" for each in self.waited[:1]]
        if self.joined_ms >= 0 and self.ending is not Ending.EMPTY:
            phases.append(f"assignment {self.sync_ms} ms")
        took = f"{max(self.ended_ms - self.began_ms, 0)} ms" + (f" ({', '.join(phases)})" if phases else "")
        return f"{self._result} after {took}: {why}"

    @property
    def _result(self) -> str:
        if self.ending is Ending.EMPTY:
            return f"is empty with generation {self.generation}"
        if self.ending is Ending.OVERTAKEN:
            return f"began generation {self.generation} and rebalances again"
        who = f"{self.members} member{'s' * (self.members != 1)}"
        return f"is stable in generation {self.generation} with {who} ({self.protocol}, leader {self.leader})"


def cut(text: str) -> str:
    """Return a text of a client as it is kept."""
    return text if len(text) <= MAX_TEXT_CHARS else f"{text[:MAX_TEXT_CHARS]}..."


def slowest(waited: list[HistoricWait]) -> list[HistoricWait]:
    """Return the longest waits first, as many as are kept."""
    return sorted(waited, key=lambda each: -each.waited_ms)[:MAX_WAITED]


_FATES = {
    Fate.CAME: "came after",
    Fate.DROPPED: "did not come within",
    Fate.KEPT: "did not come within",
    Fate.MISSING: "is missing for",
}
