"""Partition states: the steps that write who leads a partition and which replicas are in sync.

Every write names the version of the state that it was decided on. Where somebody else has written meanwhile, the state
is read and decided again. The fence of the controller's epoch is the shell's: it goes with every write.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from ....protocol.errors import ErrorCode
from ....zookeeper import operations
from ....zookeeper.operations import Change, Create, Failure, Put, Steps, portions, read_all, write_all
from ..znodes import (
    NO_LEADER,
    LeaderAndIsr,
    TopicPartition,
    decode_state,
    encode_state,
    partition_path,
    partitions_path,
    sound,
    state_path,
)
from .cluster_state import ClusterState
from .election import Election
from .outbox import Outbox

# A state that changes under our hands so often is somebody's mistake: it is reported and left for the next event.
MAX_TRIES = 10

_log = logging.getLogger(__name__)

# What becomes of a state: the new one, or the error that says why it stays.
Decision = LeaderAndIsr | ErrorCode
Decide = Callable[[TopicPartition, LeaderAndIsr], Decision]


class PartitionStates:
    """Writes the states of partitions, keeps `cluster` up to date and puts into the outbox what brokers must learn."""

    def __init__(self, cluster: ClusterState, outbox: Outbox) -> None:
        self._cluster = cluster
        self._outbox = outbox

    # -- New partitions

    def begin(self, places: Iterable[TopicPartition]) -> Steps[None]:
        """Give new partitions their first leader: the first living replica. The living replicas are the ISR, as far as
        they have room.

        A partition without a living replica waits for one to come.
        """
        cluster = self._cluster
        states: dict[TopicPartition, LeaderAndIsr] = {}
        for place in places:
            isr = cluster.best(place, cluster.replicas[place].replicas)
            if isr:
                states[place] = LeaderAndIsr(isr[0], 0, isr, cluster.epoch)
            else:
                _log.warning("%s has no leader: none of its replicas is alive", place)
        yield from self._make_parents(states)
        made = yield from write_all((Create(state_path(each), encode_state(state)),) for each, state in states.items())
        for (place, state), failure in zip(states.items(), made, strict=True):
            if failure is None:
                self._note(place, state, is_new=True)
        existing = [place for place, failure in zip(states, made, strict=True) if failure is not None]
        yield from self.refresh(existing)

    def _make_parents(self, places: Iterable[TopicPartition]) -> Steps[None]:
        """Make the znodes above the states. Those that a former controller made stay."""
        topics = dict.fromkeys(partitions_path(each.topic) for each in places)
        yield from write_all((Create(path),) for path in topics)
        yield from write_all((Create(partition_path(each)),) for each in places)

    # -- Changes

    def elect(
        self, places: Iterable[TopicPartition], election_of: Callable[[TopicPartition], Election]
    ) -> Steps[dict[TopicPartition, ErrorCode]]:
        """Elect a leader for each partition. Returns why some have none: what was tried and failed."""

        def decide(place: TopicPartition, state: LeaderAndIsr) -> Decision:
            elected = election_of(place)(self._cluster, place, state)
            if elected is None:
                return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
            return self._next(state, elected.leader, elected.isr)

        return (yield from self._change(places, decide))

    def remove_from_isr(self, broker: int, places: Iterable[TopicPartition]) -> Steps[dict[TopicPartition, ErrorCode]]:
        """Take a broker that stops or is dead out of ISRs. The last member of an ISR stays in it, without leading."""

        def decide(_: TopicPartition, state: LeaderAndIsr) -> Decision:
            if broker not in state.isr:
                return ErrorCode.NONE
            leader = NO_LEADER if state.leader == broker else state.leader
            isr = tuple(each for each in state.isr if each != broker) or state.isr
            if leader == state.leader and isr == state.isr:
                return ErrorCode.NONE
            return self._next(state, leader, isr)

        return (yield from self._change(places, decide))

    def bump(self, places: Iterable[TopicPartition]) -> Steps[dict[TopicPartition, ErrorCode]]:
        """Raise the leader epoch of partitions, so that everybody takes notice of their new replicas."""
        return (yield from self._change(places, lambda _, state: self._next(state, state.leader, state.isr)))

    def set_isr(self, wanted: Mapping[TopicPartition, LeaderAndIsr]) -> Steps[dict[TopicPartition, ErrorCode]]:
        """Write states that leaders ask for (AlterPartition). Their partition epochs are what the leaders know.

        INVALID_UPDATE_VERSION where the state has changed meanwhile. Followers need not be told.
        """
        failures = yield from write_all(_put(each, state) for each, state in wanted.items())
        errors: dict[TopicPartition, ErrorCode] = {}
        for (place, state), failure in zip(wanted.items(), failures, strict=True):
            if failure is None:
                self._cluster.states[place] = replace(state, partition_epoch=state.partition_epoch + 1)
            else:
                errors[place] = _code(failure)
        yield from self.refresh(errors)
        self._outbox.tell_everybody(wanted)
        return errors

    def refresh(self, places: Iterable[TopicPartition]) -> Steps[None]:
        """Read states again that somebody else has written, and tell everybody of them."""
        wanted = list(places)
        znodes = yield from read_all(state_path(each) for each in wanted)
        for place, znode in zip(wanted, znodes, strict=True):
            state = sound(decode_state, place, znode.data, znode.version) if znode is not None else None
            if state is not None:
                self._cluster.states[place] = state
                self._outbox.tell_role(self._told(place), place)

    def _next(self, state: LeaderAndIsr, leader: int, isr: tuple[int, ...]) -> LeaderAndIsr:
        return LeaderAndIsr(leader, state.leader_epoch + 1, isr, self._cluster.epoch, state.partition_epoch)

    def _change(self, places: Iterable[TopicPartition], decide: Decide) -> Steps[dict[TopicPartition, ErrorCode]]:
        """Decide on each state as it is in ZooKeeper and write it; again where it has changed in between."""
        left = list(places)
        errors: dict[TopicPartition, ErrorCode] = {}
        for _ in range(MAX_TRIES):
            if not left:
                return errors
            again: list[TopicPartition] = []
            for some in portions(left, operations.PARTITIONS_A_TURN):
                again += yield from self._change_once(some, decide, errors)
            left = again
        _log.error("the states of %s change too often to be written", ", ".join(map(str, left)))
        return errors | dict.fromkeys(left, ErrorCode.INVALID_UPDATE_VERSION)

    def _change_once(
        self, places: list[TopicPartition], decide: Decide, errors: dict[TopicPartition, ErrorCode]
    ) -> Steps[list[TopicPartition]]:
        """Return the partitions whose state was written by somebody else meanwhile."""
        znodes = yield from read_all(state_path(each) for each in places)
        decided: dict[TopicPartition, LeaderAndIsr] = {}
        for place, znode in zip(places, znodes, strict=True):
            if znode is None:
                errors[place] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            state = sound(decode_state, place, znode.data, znode.version)
            if state is None:
                errors[place] = ErrorCode.UNKNOWN_SERVER_ERROR
                continue
            self._cluster.states[place] = state
            decision = decide(place, state)
            if isinstance(decision, LeaderAndIsr):
                decided[place] = decision
            elif decision is not ErrorCode.NONE:
                errors[place] = decision
        failures = yield from write_all(_put(each, state) for each, state in decided.items())
        again: list[TopicPartition] = []
        for (place, state), failure in zip(decided.items(), failures, strict=True):
            if failure is None:
                self._note(place, replace(state, partition_epoch=state.partition_epoch + 1))
            elif failure.bad_version:
                again.append(place)
            else:
                errors[place] = _code(failure)
        return again

    def _note(self, place: TopicPartition, state: LeaderAndIsr, *, is_new: bool = False) -> None:
        self._cluster.states[place] = state
        self._outbox.tell_role(self._told(place), place, is_new=is_new)
        what = "%s is led by %d, in sync are %s (leader epoch %d)"
        _log.info(what, place, state.leader, state.isr, state.leader_epoch)

    def _told(self, place: TopicPartition) -> tuple[int, ...]:
        """Return the brokers that are told of a partition, those that shut down too."""
        return tuple(each for each in self._cluster.replicas[place].replicas if each in self._cluster.live)


def _put(place: TopicPartition, state: LeaderAndIsr) -> tuple[Change, ...]:
    return (Put(state_path(place), encode_state(state), state.partition_epoch),)


def _code(failure: Failure) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if failure.missing else ErrorCode.INVALID_UPDATE_VERSION
