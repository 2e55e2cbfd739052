"""What clients of a simulated cluster did and saw: the material of the judge."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

Place = tuple[str, int]


def name_of(place: Place) -> str:
    """Return how logs and people call a partition."""
    return f"{place[0]}-{place[1]}"


@dataclass
class Transaction:
    """One transaction: its records, by place, and how it ended. None: nobody knows."""

    name: str
    values: list[tuple[Place, bytes]] = field(default_factory=list)
    committed: bool | None = None
    # The offset that it commits for the group of its writer; None: none.
    offset: int | None = None


@dataclass(frozen=True)
class Commit:
    """A commit of a group's offset that was acknowledged, with the time of its request and of its answer."""

    member: str
    place: Place
    offset: int
    began_s: float
    ended_s: float


@dataclass
class Keyed:
    """A key of a compacted topic: its last acknowledged value with its offset, and every value that was sent."""

    offset: int = -1
    value: bytes | None = None
    sent: set[bytes | None] = field(default_factory=set)


@dataclass
class Checkpoint:
    """What the driver of a query has on disk: where each planned batch ends, and how many are complete."""

    ends: list[int] = field(default_factory=list)
    complete: int = 0

    def copy(self) -> Checkpoint:
        return Checkpoint(self.ends[:], self.complete)


@dataclass(frozen=True)
class Hold:
    """A record that a member of a share group has had since a time, and what lets others have it when it changes."""

    member: str
    since_s: float
    while_same: object


@dataclass
class History:
    """All of it."""

    # place -> producer -> the numbers that it sent, in order
    sent: dict[Place, dict[str, list[int]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    # place -> value -> offset
    acknowledged: dict[Place, dict[bytes, int]] = field(default_factory=lambda: defaultdict(dict))
    transactions: list[Transaction] = field(default_factory=list)
    # reader -> place -> (offset, value), in the order of reading
    read: dict[str, dict[Place, list[tuple[int, bytes]]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    commits: list[Commit] = field(default_factory=list)
    # Every commit that was begun: (place, offset).
    wanted_commits: set[tuple[Place, int]] = field(default_factory=set)
    # (place, epoch) -> the member that had it
    owners: dict[tuple[Place, int], str] = field(default_factory=dict)
    # What a share group was given, and what of it was accepted: (place, offset).
    delivered: set[tuple[Place, int]] = field(default_factory=set)
    accepted: set[tuple[Place, int]] = field(default_factory=set)
    # The records of the group that members work on.
    held: dict[tuple[Place, int], Hold] = field(default_factory=dict)
    # That of the last driver.
    query: Checkpoint = field(default_factory=Checkpoint)
    keyed: dict[bytes, Keyed] = field(default_factory=lambda: defaultdict(Keyed))
    # Topics that were created (True) or deleted (False). None: nobody knows.
    topics: dict[str, bool | None] = field(default_factory=dict)
    # Who may read by an ACL that was created (True), or deleted (False). None: nobody knows.
    readers: dict[str, bool | None] = field(default_factory=dict)
    # The config that was set last; None: nobody knows.
    config: str | None = None
    # Where the records of the topic that is trimmed begin and end, at least.
    kept: int = 0
    trimmed_end: int = 0
    # Violations that a client has seen for itself.
    seen: list[str] = field(default_factory=list)
    # What was counted: for the table of what was covered.
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
