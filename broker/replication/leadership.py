"""Leadership: what the leader of a partition knows of its followers, and what follows for high watermark and ISR.

A pure machine: appends, fetches of followers, answers of the controller and the time go in; the high watermark and
changes of the ISR, which the controller must confirm, come out. It knows no log, clock or socket.

Promise: the high watermark is at most the log end offset of every replica that may be in the ISR. While a change is
under way nobody knows which of two ISRs is in force, so both count (the maximal ISR, KIP-497). A change that was asked
for more than once counts for some time after it was rejected: an earlier copy may still be under way, and be accepted.
The high watermark never goes back, and stands still while the ISR is smaller than min.insync.replicas.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ...protocol.messages.leader_and_isr import LeaderAndIsrPartitionState

NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class Role:
    """The leader, the ISR and the replicas of one partition, by broker id."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    # Rises with every change of the partition's state; in ZooKeeper it is the version of the znode.
    partition_epoch: int
    replicas: tuple[int, ...]

    @classmethod
    def of(cls, state: LeaderAndIsrPartitionState) -> Role:
        """Return the role that a LeaderAndIsr request gives."""
        return cls(state.leader, state.leader_epoch, tuple(state.isr), state.partition_epoch, tuple(state.replicas))


UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class IsrChange:
    """An ISR that the leader asks the controller for, with the epochs that it knows."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]


class Follower:
    """What the leader knows of one follower in its present epoch."""

    __slots__ = (
        "broker_epoch",
        "caught_up_ms",
        "fetched_ms",
        "leader_end_offset",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, now_ms: int, is_in_sync: bool) -> None:
        self.log_end_offset = UNKNOWN
        self.log_start_offset = UNKNOWN
        self.broker_epoch = UNKNOWN
        # When it last had everything. A member of the ISR gets replica.lag.time.max.ms from the election on.
        self.caught_up_ms = now_ms if is_in_sync else 0
        # When it fetched last, and where the leader's log ended then.
        self.fetched_ms = 0
        self.leader_end_offset = 0

    def fetch(self, offset: int, end_offset: int, now_ms: int, broker_epoch: int) -> None:
        """Note a fetch at `offset`, while the leader's log ends at `end_offset`.

        One that fetches what was there at its last fetch had everything at that time, as in Kafka.
        """
        if offset >= end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.log_end_offset, self.broker_epoch = offset, broker_epoch
        self.fetched_ms, self.leader_end_offset = now_ms, end_offset


class Leadership:
    """One partition while this broker leads it, in one leader epoch."""

    def __init__(
        self,
        node_id: int,
        role: Role,
        log_end_offset: int,
        high_watermark: int,
        min_isr: int,
        lag_time_max_ms: int,
        now_ms: int,
    ) -> None:
        """Begin `role.leader_epoch` with a log that ends at `log_end_offset`."""
        self.node_id = node_id
        self.log_end_offset = log_end_offset
        self.high_watermark = high_watermark
        self.min_isr = min_isr
        self.lag_time_max_ms = lag_time_max_ms
        self.role = role
        self.isr = role.isr
        self.partition_epoch = role.partition_epoch
        # The change that the controller was asked for. Invariant: it stays until its outcome is certain.
        self.pending: IsrChange | None = None
        # Whether it was asked for more than once.
        self._is_repeated = False
        # A rejected change of which another copy may be under way, and until when it counts.
        self._doubt: tuple[tuple[int, ...], int] | None = None
        # Where the log ended when the epoch began: what came before may have been committed by another leader.
        self.epoch_start = log_end_offset
        self.followers: dict[int, Follower] = {}
        self._adopt_replicas(now_ms)
        self._advance()

    # -- State -----------------------------------------------------------------------------------------

    @property
    def maximal_isr(self) -> frozenset[int]:
        """Every replica that may be in the ISR."""
        pending = self.pending.isr if self.pending is not None else ()
        doubtful = self._doubt[0] if self._doubt is not None else ()
        return frozenset((*self.isr, *pending, *doubtful))

    @property
    def effective_min_isr(self) -> int:
        """min.insync.replicas, but no more than there are replicas."""
        return min(self.min_isr, len(self.role.replicas))

    @property
    def is_under_min_isr(self) -> bool:
        """Whether acks=all must be refused."""
        return len(self.isr) < self.effective_min_isr

    # -- Events ----------------------------------------------------------------------------------------

    def appended(self, log_end_offset: int) -> int:
        """Note an append of the leader; return the high watermark. Only a leader alone moves it so."""
        self.log_end_offset = log_end_offset
        if self._is_alone:
            self.high_watermark = log_end_offset
        return self.high_watermark

    def fetched(self, follower: int, offset: int, now_ms: int, broker_epoch: int = UNKNOWN) -> IsrChange | None:
        """Note that a follower has everything below `offset`; return the ISR to ask for where it has caught up."""
        known = self.followers[follower]
        known.fetch(min(offset, self.log_end_offset), self.log_end_offset, now_ms, broker_epoch)
        change = self._grown(follower, known) or self._without_loser(follower, known)
        self._advance()
        return change

    def tick(self, now_ms: int) -> IsrChange | None:
        """Return the ISR to ask for where a follower has lagged for replica.lag.time.max.ms."""
        if self._doubt is not None and now_ms >= self._doubt[1]:
            self._doubt = None
            self._note_alone()
            self._advance()
        if self.pending is not None:
            return None
        lagging = {each for each in self.isr if each != self.node_id and not self._keeps_up(each, now_ms)}
        return self._ask(tuple(each for each in self.isr if each not in lagging)) if lagging else None

    def confirmed(self, isr: tuple[int, ...], partition_epoch: int) -> bool:
        """Take over an ISR that the controller has written. False for one that is no news.

        The answer to an earlier change may come twice: it says nothing of the one that is under way now.
        """
        if partition_epoch <= self.partition_epoch:
            return False
        # No change that was asked for with an older epoch is accepted any more.
        self.isr, self.partition_epoch, self.pending, self._doubt = isr, partition_epoch, None, None
        self._note_alone()
        self._advance()
        return True

    def repeated(self, change: IsrChange) -> None:
        """Note that a change is asked for again, because nobody knows what became of the first request."""
        self._is_repeated = self._is_repeated or self.pending == change

    def rejected(self, change: IsrChange, now_ms: int) -> None:
        """Drop a change that the controller has not made; it counts on if an earlier request may still be made."""
        if self.pending == change:
            self.pending = None
            if self._is_repeated:
                self._doubt = change.isr, now_ms + self.lag_time_max_ms
            self._note_alone()
            self._advance()

    def updated(self, role: Role, now_ms: int) -> None:
        """Take over a new state of the same leader epoch: another ISR, or other replicas (a reassignment)."""
        self.confirmed(role.isr, role.partition_epoch)
        self.role = role
        self._adopt_replicas(now_ms)
        self._advance()

    def configured(self, min_isr: int, lag_time_max_ms: int) -> None:
        """Go by these configs from now on."""
        self.min_isr, self.lag_time_max_ms = min_isr, lag_time_max_ms
        self._note_alone()
        self._advance()

    def readers(self, offset: int) -> list[int]:
        """Return the followers in the ISR that have `offset`, the one with the most records first."""
        known = [(each.log_end_offset, broker) for broker, each in self.followers.items() if broker in self.isr]
        return [broker for end, broker in sorted(known, key=lambda found: (-found[0], found[1])) if end >= offset]

    def note_log_start(self, follower: int, offset: int) -> bool:
        """Note where a follower's log begins. Return whether it began elsewhere before."""
        known = self.followers[follower]
        before, known.log_start_offset = known.log_start_offset, offset
        return before != offset

    def low_watermark(self, log_start_offset: int, live: Collection[int]) -> int:
        """Return the lowest log start of this leader's log and those of the followers on `live` brokers."""
        starts = (each.log_start_offset for broker, each in self.followers.items() if broker in live)
        return min((log_start_offset, *starts))

    # -- Parts -----------------------------------------------------------------------------------------

    def _adopt_replicas(self, now_ms: int) -> None:
        others = [each for each in self.role.replicas if each != self.node_id]
        self.followers = {
            each: self.followers.get(each) or Follower(now_ms, is_in_sync=each in self.isr) for each in others
        }
        self._note_alone()

    def _note_alone(self) -> None:
        """Note whether an append needs nobody else."""
        self._is_alone = self.maximal_isr <= {self.node_id} and not self.is_under_min_isr

    def _advance(self) -> None:
        if self.is_under_min_isr:
            return
        ends = [self.log_end_offset]
        for each in self.maximal_isr:
            if each != self.node_id:
                known = self.followers.get(each)
                ends.append(known.log_end_offset if known is not None else UNKNOWN)
        self.high_watermark = max(self.high_watermark, min(ends))

    def _grown(self, follower: int, known: Follower) -> IsrChange | None:
        if self.pending is not None or follower in self.isr:
            return None
        # Below the epoch's start its log may still diverge from this one.
        if known.log_end_offset < max(self.high_watermark, self.epoch_start):
            return None
        return self._ask((*self.isr, follower))

    def _without_loser(self, follower: int, known: Follower) -> IsrChange | None:
        """Return the ISR without a member that does not have what is committed: it has lost records."""
        if self.pending is not None or follower not in self.isr or known.log_end_offset >= self.high_watermark:
            return None
        return self._ask(tuple(each for each in self.isr if each != follower))

    def _keeps_up(self, follower: int, now_ms: int) -> bool:
        known = self.followers.get(follower)
        if known is None:
            return False
        return known.log_end_offset >= self.log_end_offset or now_ms - known.caught_up_ms <= self.lag_time_max_ms

    def _ask(self, isr: tuple[int, ...]) -> IsrChange:
        self.pending = IsrChange(self.role.leader_epoch, self.partition_epoch, isr)
        self._is_repeated = False
        self._note_alone()
        return self.pending
