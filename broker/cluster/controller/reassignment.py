"""Reassignment: partitions get other replicas (KIP-455), in two phases that both survive a change of the controller.

Phase A writes the new replicas beside the old ones, with what is added and what is removed. The new ones follow the
leader until they are in sync. Phase B then makes one of the new replicas the leader if the old leader goes, takes the
old ones out of the ISR, writes the new replicas alone, and has the old replicas deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from ....protocol.errors import ErrorCode, KafkaError
from ....zookeeper.operations import Delete, Put, Steps, read, select, write
from ..znodes import (
    REASSIGN_PARTITIONS,
    Assignment,
    Replicas,
    TopicPartition,
    decode_assignment,
    decode_reassignment,
    encode_assignment,
    encode_reassignment,
    sound,
    topic_path,
)
from .cluster_state import ClusterState
from .election import elect_in_sync, elect_reassigned
from .outbox import Outbox
from .partition_states import MAX_TRIES, PartitionStates

# What is wanted of a partition: its replicas, or None to cancel the reassignment that is under way.
Target = tuple[int, ...] | None

_log = logging.getLogger(__name__)


class Reassignment:
    """Begins, completes and cancels reassignments."""

    def __init__(self, cluster: ClusterState, outbox: Outbox, states: PartitionStates) -> None:
        self._cluster = cluster
        self._outbox = outbox
        self._states = states
        # What the znode of old asks for: it is removed when all of it is done.
        self._asked_by_znode: set[TopicPartition] = set()

    def moving(self) -> Steps[list[TopicPartition]]:
        """Return the partitions that are being reassigned."""
        return sorted((yield from select(self._cluster.replicas, lambda each: self._cluster.replicas[each].is_moving)))

    def take_up(self) -> Steps[None]:
        """Begin what `/admin/reassign_partitions` asks for, and complete what can be completed."""
        znode = yield from read(REASSIGN_PARTITIONS, watch=True)
        if znode is not None:
            wanted = sound(decode_reassignment, znode.data) or {}
            self._asked_by_znode |= set(wanted)
            errors = yield from self.begin(wanted)
            for place, error in errors.items():
                _log.error("%s cannot be reassigned: %s", place, error.message)
                self._asked_by_znode.discard(place)
        yield from self.complete((yield from self.moving()))
        yield from self._tidy_znode()

    def begin(
        self, wanted: Mapping[TopicPartition, Target], *, may_change_factor: bool = True
    ) -> Steps[dict[TopicPartition, KafkaError]]:
        """Begin or cancel reassignments. Returns the errors of those that cannot be."""
        errors: dict[TopicPartition, KafkaError] = {}
        begun: list[TopicPartition] = []
        for place, target in wanted.items():
            try:
                changed = self._phase_a(place, target, may_change_factor=may_change_factor)
                if changed is None:
                    continue
                yield from self._begin_one(place, changed)
            except KafkaError as error:
                errors[place] = error
            else:
                begun.append(place)
        yield from self.complete(begun)
        return errors

    def _phase_a(self, place: TopicPartition, target: Target, *, may_change_factor: bool) -> Replicas | None:
        """Return the replicas of phase A, None where nothing is to be done. Raises KafkaError."""
        now = self._cluster.replicas.get(place)
        if now is None or place.topic in self._cluster.deletions:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
        if target is None:
            if not now.is_moving:
                raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
            target = now.origin
        self._check(target, now.origin)
        if not may_change_factor and len(target) != len(now.origin):
            why = f"The replication factor is {len(now.origin)}, and the request does not allow to change it."
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, why)
        if target == now.target:
            return None
        adding = tuple(each for each in target if each not in now.origin)
        removing = tuple(each for each in now.origin if each not in target)
        # Replicas that were to come and are not wanted any more go at once, unless nobody else is in sync.
        removing += self._alone_in_sync(place, tuple(each for each in now.adding if each not in target))
        return Replicas((*target, *removing), adding, removing)

    def _alone_in_sync(self, place: TopicPartition, unwanted: tuple[int, ...]) -> tuple[int, ...]:
        """Return replicas that are not wanted any more, of which one alone is in sync and alive; none otherwise."""
        state = self._cluster.states.get(place)
        alive = self._cluster.alive(place, () if state is None else state.isr)
        return unwanted if alive and set(unwanted) >= set(alive) else ()

    def _check(self, target: tuple[int, ...], origin: tuple[int, ...]) -> None:
        code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
        if not target:
            raise KafkaError(code, "Empty replica list specified in partition reassignment.")
        if len(set(target)) != len(target) or min(target) < 0:
            raise KafkaError(code, f"The replicas {list(target)} are not different brokers.")
        # As in Kafka, replicas that are there already may be dead: otherwise nobody could cancel, or move the others.
        dead = [each for each in target if each not in self._cluster.live and each not in origin]
        if dead:
            raise KafkaError(code, f"Replica assignment has brokers that are not alive: {dead}.")

    def _begin_one(self, place: TopicPartition, changed: Replicas) -> Steps[None]:
        """Write the replicas of phase A. Raises UNKNOWN_SERVER_ERROR, TooLarge."""
        before = self._cluster.replicas[place]
        # Replicas of an earlier reassignment that nobody wants any more. First none of them is in sync.
        unwanted = set(before.replicas) - set(changed.replicas)
        for broker in unwanted:
            yield from self._states.remove_from_isr(broker, [place])
        if unwanted and not self._cluster.is_led(place):
            yield from self._states.elect([place], lambda _: elect_in_sync)
        if not (yield from self._write(place, changed)):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The replicas could not be written.")
        _log.info("%s moves from the brokers %s to %s", place, before.replicas, changed.target)
        for broker in unwanted:
            self._outbox.stop(broker, place, -1, delete=True)
        yield from self._states.bump([place])
        for broker in changed.adding:
            if self._cluster.is_alive(broker, place):
                self._outbox.tell_role([broker], place, is_new=True)

    def complete(self, places: Iterable[TopicPartition]) -> Steps[None]:
        """Do phase B for the partitions whose new replicas are all in sync."""
        for place in places:
            replicas, state = self._cluster.replicas.get(place), self._cluster.states.get(place)
            if replicas is None or state is None or not replicas.is_moving:
                continue
            if set(replicas.target) <= set(state.isr):
                yield from self._phase_b(place, replicas)
        yield from self._tidy_znode()

    def _phase_b(self, place: TopicPartition, replicas: Replicas) -> Steps[None]:
        state = self._cluster.states[place]
        if state.leader not in replicas.target or not self._cluster.is_led(place):
            errors = yield from self._states.elect([place], lambda _: elect_reassigned)
            if errors:
                return
        for broker in replicas.removing:
            yield from self._states.remove_from_isr(broker, [place])
        if not (yield from self._write(place, Replicas(replicas.target))):
            return
        yield from self._states.bump([place])
        epoch = self._cluster.states[place].leader_epoch
        for broker in replicas.removing:
            self._outbox.stop(broker, place, epoch, delete=True)
        self._asked_by_znode.discard(place)
        _log.info("%s has moved to the brokers %s", place, replicas.target)

    def _write(self, place: TopicPartition, replicas: Replicas) -> Steps[bool]:
        """Write the replicas of one partition into the assignment of its topic. Return whether they are there.

        Somebody else may write partitions into the assignment meanwhile.
        """
        path = topic_path(place.topic)
        for _ in range(MAX_TRIES):
            znode = yield from read(path, watch=True)
            assignment = sound(decode_assignment, place.topic, znode.data) if znode is not None else None
            if znode is None or assignment is None:
                return False
            partitions = assignment.partitions | {place.partition: replicas}
            content = encode_assignment(Assignment(assignment.topic_id, partitions))
            if (yield from write(Put(path, content, znode.version))) is None:
                self._cluster.replicas[place] = replicas
                return True
        _log.error("the replicas of %s change too often to be written", place)
        return False

    def _tidy_znode(self) -> Steps[None]:
        """Remove from `/admin/reassign_partitions` what is done, and the znode with the last one."""
        znode = yield from read(REASSIGN_PARTITIONS)
        if znode is None:
            self._asked_by_znode.clear()
            return
        written = sound(decode_reassignment, znode.data) or {}
        left = {each: to for each, to in written.items() if each in self._asked_by_znode and self._is_moving(each)}
        if not left:
            yield from write(Delete(REASSIGN_PARTITIONS, znode.version))
            self._asked_by_znode.clear()
        elif len(left) < len(written):
            yield from write(Put(REASSIGN_PARTITIONS, encode_reassignment(left), znode.version))

    def _is_moving(self, place: TopicPartition) -> bool:
        replicas = self._cluster.replicas.get(place)
        return replicas is not None and replicas.is_moving
