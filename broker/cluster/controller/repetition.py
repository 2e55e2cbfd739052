"""What brokers are told again because they could not do what they were told: a full disk, an error of the program.

A broker is asked again after a pause that grows, until it has what it should have, or is gone. It is then told what
holds at that time. Nothing is repeated where the broker knows something newer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ....protocol.errors import ErrorCode
from ....zookeeper.operations import Steps
from ..znodes import Registration, TopicPartition
from .machine import ControllerMachine
from .outbox import BecomeLeaderOrFollower, Message, StopReplicas

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
# The broker knows a newer controller, or this controller not yet its new registration, which it will hear of.
_OUTDATED = frozenset({ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.STALE_BROKER_EPOCH, ErrorCode.FENCED_LEADER_EPOCH})

Event = Callable[[ControllerMachine], Steps[None]]


@dataclass(slots=True)
class _Owed:
    """What one broker has to be told again."""

    registration: Registration
    # Whether a whole request failed: then it is told everything.
    everything: bool = False
    # Whether each replica is new.
    roles: dict[TopicPartition, bool] = field(default_factory=dict[TopicPartition, bool])
    stops: dict[TopicPartition, tuple[int, bool]] = field(default_factory=dict[TopicPartition, tuple[int, bool]])
    timer: asyncio.TimerHandle | None = None


class Repetition:
    """The failures of one controller's term. End it with `close`."""

    def __init__(self, put: Callable[[Event], None]) -> None:
        """`put` has the machine take up an event."""
        self._put = put
        # By broker and kind of message, because one kind may succeed while another fails. Bounded by the live brokers.
        self._owed: dict[tuple[int, type[Message]], _Owed] = {}
        self._failures: dict[tuple[int, type[Message]], int] = {}

    def is_first(self, broker: int, message: Message) -> bool:
        """Return whether this kind of message has not failed before at this broker: worth a line in the log."""
        return (broker, type(message)) not in self._failures

    def note(
        self, registration: Registration, message: Message, code: ErrorCode, errors: Mapping[TopicPartition, int]
    ) -> None:
        """Take note of a response: the error of the whole, and those of partitions."""
        key = registration.broker_id, type(message)
        failed = {place for place, each in errors.items() if ErrorCode.of(each) not in _OUTDATED}
        if code in _OUTDATED or not (code or failed):
            if key not in self._owed:
                self._failures.pop(key, None)
            return
        owed = self._owed.get(key)
        if owed is None or owed.registration.epoch != registration.epoch:
            owed = self._plan(key, registration)
        owed.everything |= bool(code)
        if isinstance(message, BecomeLeaderOrFollower):
            owed.roles |= {each.place: each.is_new for each in message.updates if each.place in failed}
        elif isinstance(message, StopReplicas):
            owed.stops |= {place: each for place, each in message.partitions.items() if place in failed}

    def _plan(self, key: tuple[int, type[Message]], registration: Registration) -> _Owed:
        self._drop(key)
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        owed = self._owed[key] = _Owed(registration)
        pause_s = min(FIRST_PAUSE_S * 2 ** min(failures, 10), LONGEST_PAUSE_S)
        owed.timer = asyncio.get_running_loop().call_later(pause_s, self._repeat, key)
        return owed

    def _repeat(self, key: tuple[int, type[Message]]) -> None:
        owed = self._owed.pop(key)
        broker, epoch = key[0], owed.registration.epoch
        if owed.everything:
            self._put(lambda machine: machine.tell_everything(broker, epoch))
        else:
            self._put(lambda machine: machine.tell_again(broker, epoch, owed.roles, owed.stops))

    def _drop(self, key: tuple[int, type[Message]]) -> None:
        owed = self._owed.pop(key, None)
        if owed is not None and owed.timer is not None:
            owed.timer.cancel()

    def forget(self, live: Mapping[int, Registration]) -> None:
        """Forget brokers that are gone."""
        for key in [key for key in self._failures if key[0] not in live]:
            self._drop(key)
            del self._failures[key]

    def close(self) -> None:
        """Repeat nothing more."""
        for key in list(self._owed):
            self._drop(key)
