"""A replica: one partition that this broker holds, in the role that the controller has given it.

This is the shell around the machine of a leader (leadership.py): it brings the clock, moves the partition's high
watermark, and hands on the changes of the ISR that the controller must confirm.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.errors import StorageError
from ..clock import Clock
from ..topics.partition import Partition
from .leadership import NO_LEADER, UNKNOWN, IsrChange, Leadership, Role
from .throttle import Throttle

_log = logging.getLogger(__name__)


class Replica:
    """One partition and its role. It is what the partition knows as its `replication` while this broker leads it."""

    def __init__(
        self,
        partition: Partition,
        topic_id: bytes,
        node_id: int,
        clock: Clock,
        lag_time_max_ms: Callable[[], int],
        ask: Callable[[Replica, IsrChange], None],
        rack_of: Callable[[int], str | None],
        throttle: Throttle,
    ) -> None:
        """`ask` takes a change of the ISR to the controller, `rack_of` returns the rack of a broker.

        `throttle` is that of what this broker sends to followers.
        """
        self.partition = partition
        self.topic_id = topic_id
        self.role = Role(NO_LEADER, UNKNOWN, (), UNKNOWN, ())
        # None: this broker does not lead.
        self.leadership: Leadership | None = None
        self._node_id = node_id
        self._clock = clock
        self._lag_time_max_ms = lag_time_max_ms
        self._ask = ask
        self._rack_of = rack_of
        self._throttle = throttle

    @property
    def key(self) -> tuple[str, bytes, int]:
        """What names it in a fetch session."""
        return self.partition.topic, self.topic_id, self.partition.index

    @property
    def is_leader(self) -> bool:
        return self.leadership is not None

    # -- Roles -----------------------------------------------------------------------------------------

    def lead(self, role: Role) -> bool:
        """Lead the partition, or take over another state of the present epoch. Return whether an epoch has begun."""
        now_ms = self._clock.monotonic_ms()
        current = self.leadership
        self.role = role
        if current is not None and current.role.leader_epoch == role.leader_epoch:
            current.updated(role, now_ms)
            self.partition.advance(current.high_watermark)
            return False
        partition = self.partition
        min_isr, lag_ms = partition.min_insync_replicas, self._lag_time_max_ms()
        # What it holds is what the partition is from now on. A later role must not cut what others copy from here.
        try:
            partition.log.keep()
        except StorageError as error:
            _log.warning("%s: the next start will take it for a replica that has lost records: %s", self, error)
        end, mark = partition.log.log_end_offset, partition.high_watermark
        self.leadership = Leadership(self._node_id, role, end, mark, min_isr, lag_ms, now_ms)
        partition.begin_leading(role.leader_epoch, self)
        partition.advance(self.leadership.high_watermark)
        _log.info("%s leads from offset %d in epoch %d, ISR %s", self, end, role.leader_epoch, list(role.isr))
        return True

    def follow(self, role: Role) -> bool:
        """Follow the leader of `role`. Return whether this broker has led until now."""
        was_leader, self.leadership = self.is_leader, None
        is_new = self.role.leader_epoch != role.leader_epoch
        self.role = role
        self.partition.stop_leading(role.leader_epoch)
        if is_new:
            _log.info("%s follows broker %d in epoch %d", self, role.leader, role.leader_epoch)
        return was_leader

    def stop(self) -> bool:
        """Neither lead nor follow. Return whether this broker has led until now."""
        was_leader, self.leadership = self.is_leader, None
        self.role = Role(NO_LEADER, self.role.leader_epoch, (), self.role.partition_epoch, self.role.replicas)
        self.partition.stop_leading(self.role.leader_epoch)
        return was_leader

    def __str__(self) -> str:
        return str(self.partition)

    # -- What the partition asks of its leader ---------------------------------------------------------

    def appended(self, log_end_offset: int) -> int:
        """Note an append; return the high watermark."""
        assert self.leadership is not None
        return self.leadership.appended(log_end_offset)

    def check_min_isr(self) -> None:
        """Raise NOT_ENOUGH_REPLICAS where the ISR is smaller than min.insync.replicas."""
        if self.leadership is not None and self.leadership.is_under_min_isr:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, self._too_few(self.leadership))

    def check_after_append(self, offset: int) -> bool:
        """Return whether the ISR has everything below `offset`. Raises NOT_ENOUGH_REPLICAS_AFTER_APPEND.

        NOT_LEADER_OR_FOLLOWER where this broker leads no longer: nobody knows what becomes of the batch.
        """
        leadership = self.leadership
        if leadership is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self} has another leader by now")
        if leadership.high_watermark < offset:
            return False
        if leadership.is_under_min_isr:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, self._too_few(leadership))
        return True

    def check_end_known(self) -> None:
        """Raise OFFSET_NOT_AVAILABLE where an earlier leader may have had a higher high watermark."""
        if self.leadership is not None and self.partition.high_watermark < self.leadership.epoch_start:
            why = f"{self} has a new leader, which waits for the ISR up to offset {self.leadership.epoch_start}"
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, why)

    def configured(self, min_isr: int) -> None:
        """Go by min.insync.replicas of the topic's configs as they are now."""
        if self.leadership is not None:
            self.leadership.configured(min_isr, self._lag_time_max_ms())
            self.partition.advance(self.leadership.high_watermark)

    def _too_few(self, leadership: Leadership) -> str:
        return f"{self}: the ISR is {list(leadership.isr)}, min.insync.replicas is {leadership.effective_min_isr}"

    # -- Followers and the ISR -------------------------------------------------------------------------

    def is_followed_by(self, broker: int) -> bool:
        """Return whether a broker has a replica as far as this leader knows."""
        return self.leadership is not None and broker in self.leadership.followers

    def is_throttled(self, follower: int) -> bool:
        """Return whether a follower gets no records now, because it is not in sync and throttled."""
        leadership = self.leadership
        if leadership is None or follower in leadership.isr:
            return False
        return self._throttle.holds_back(*self.partition.place)

    def note_sent(self, size: int) -> None:
        """Note that `size` bytes are sent to a follower."""
        self._throttle.note(*self.partition.place, size)

    def note_fetch(self, follower: int, offset: int, broker_epoch: int, log_start_offset: int) -> None:
        """Note that a follower has everything from `log_start_offset` up to `offset`. It has fetched successfully."""
        leadership = self.leadership
        if leadership is None or follower not in leadership.followers:
            return
        change = leadership.fetched(follower, offset, self._clock.monotonic_ms(), broker_epoch)
        self._act(leadership, change)
        if leadership.note_log_start(follower, log_start_offset):
            self.partition.note_log_start()

    def low_watermark(self, live: Collection[int]) -> int:
        """Return the offset below which no replica on a `live` broker has records; -1 where one has not said so.

        Raises NOT_LEADER_OR_FOLLOWER.
        """
        if self.leadership is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self} has another leader by now")
        return self.leadership.low_watermark(self.partition.log.log_start_offset, live)

    def reader_in_rack(self, rack: str, offset: int) -> int | None:
        """Return the follower from which a consumer in `rack` is to read (KIP-392); None: from this leader."""
        if self.leadership is None or self._rack_of(self._node_id) == rack:
            return None
        near = (each for each in self.leadership.readers(offset) if self._rack_of(each) == rack)
        return next(near, None)

    def broker_epoch_of(self, broker: int) -> int:
        """Return the broker epoch with which a follower has fetched; -1 where it is not known."""
        follower = self.leadership.followers.get(broker) if self.leadership is not None else None
        return follower.broker_epoch if follower is not None else UNKNOWN

    def look_for_lag(self) -> None:
        """Ask for a smaller ISR where a follower has lagged for too long."""
        leadership = self.leadership
        if leadership is not None and self.partition.is_online:
            self._act(leadership, leadership.tick(self._clock.monotonic_ms()))

    def altered(self, leader_epoch: int, isr: tuple[int, ...], partition_epoch: int) -> tuple[int, ...]:
        """Take over an ISR that the controller has written. Return the previous one, the same if nothing changed."""
        leadership = self.leadership
        if leadership is None or leadership.role.leader_epoch != leader_epoch:
            return isr
        before = leadership.isr
        if not leadership.confirmed(isr, partition_epoch):
            return isr
        if set(before) != set(isr):
            text = "%s: the ISR is %s (it was %s), partition epoch %d"
            _log.info(text, self, list(isr), list(before), partition_epoch)
        self.partition.advance(leadership.high_watermark)
        return before

    def repeated(self, change: IsrChange) -> None:
        """Note that the controller is asked for a change again."""
        if self.leadership is not None:
            self.leadership.repeated(change)

    def rejected(self, change: IsrChange) -> None:
        """Drop a change that the controller has not made."""
        if self.leadership is not None:
            self.leadership.rejected(change, self._clock.monotonic_ms())
            self.partition.advance(self.leadership.high_watermark)

    def _act(self, leadership: Leadership, change: IsrChange | None) -> None:
        self.partition.advance(leadership.high_watermark)
        if change is not None:
            self._ask(self, change)
