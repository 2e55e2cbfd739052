"""Replicas that have lost records leave the ISR: steps that a broker takes before it registers.

A start may find that acknowledged records are gone: a directory, a segment or the end of a log is missing, or bytes in
it are damaged. ZooKeeper may still list that replica as in sync, if no controller has seen the broker go (all of them
lost their power). Registered like this, it could be elected, and the others would give up their records for it.

A replica may lack records though no file shows it: its whole directory is gone, or is an older copy, or a power cut has
taken what no fsync had covered (the machine has booted since a stop that was not clean). The broker does the same for
each partition that ZooKeeper assigns to it and that it does not hold, that is empty, that is in a copy of its data
directory, or that such a power cut may have struck. A new topic's partition is one of these; that costs nothing but a
place in the ISR until it has fetched.

The broker writes the state itself, and tells the controller by `/isr_change_notification`, as brokers did before
AlterPartition. The last member of an ISR stays in it: nobody is known to have more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from ...zookeeper.operations import (
    PARTITIONS_A_TURN,
    Create,
    Put,
    Steps,
    children,
    create,
    portions,
    read_all,
    write_all,
)
from ..log_dirs.data_dir import StartError
from .znodes import (
    ISR_CHANGE_PREFIX,
    NO_LEADER,
    TOPICS,
    LeaderAndIsr,
    TopicPartition,
    decode_assignment,
    decode_state,
    encode_isr_change,
    encode_state,
    sound,
    state_path,
    topic_path,
)

# A state that was changed in between is read again.
MAX_TRIES = 10

_log = logging.getLogger(__name__)


def leave_isrs(broker: int, places: Iterable[TopicPartition]) -> Steps[None]:
    """Take a broker out of the ISRs that have other members.

    Raises StartError where a state is always changed in between.
    """
    for some in portions(places, PARTITIONS_A_TURN):
        left = some
        written: list[TopicPartition] = []
        for _ in range(MAX_TRIES):
            wanted = yield from _states_without(broker, left)
            failures = yield from write_all(
                (Put(state_path(place), encode_state(state), state.partition_epoch),) for place, state in wanted.items()
            )
            written += [place for place, failure in zip(wanted, failures, strict=True) if failure is None]
            left = [place for place, failure in zip(wanted, failures, strict=True) if failure is not None]
        if written:
            _log.warning("this broker has lost records and leaves the ISRs of %s", ", ".join(map(str, written)))
            yield from create(Create(ISR_CHANGE_PREFIX, encode_isr_change(written), is_sequential=True))
        if left:
            why = f"{left[0]} is changed all the time, and this broker, which lacks records, must leave its ISR"
            raise StartError(f"the cluster cannot be joined: {why}: start it again")


def lacking(broker: int, may_lack: Callable[[str, int, bytes | None], bool]) -> Steps[list[TopicPartition]]:
    """Return the partitions with a replica on a broker that `may_lack` records, by topic, index and the topic's id."""
    found: list[TopicPartition] = []
    for names in portions((yield from children(TOPICS)), PARTITIONS_A_TURN):
        znodes = yield from read_all(topic_path(each) for each in names)
        for name, znode in zip(names, znodes, strict=True):
            assignment = None if znode is None else sound(decode_assignment, name, znode.data)
            if assignment is None:
                continue
            mine = (index for index, each in assignment.partitions.items() if broker in each.replicas)
            found += [TopicPartition(name, index) for index in mine if may_lack(name, index, assignment.topic_id)]
    return found


def _states_without(broker: int, places: list[TopicPartition]) -> Steps[dict[TopicPartition, LeaderAndIsr]]:
    """Return the states without `broker` of the partitions that have it and others in their ISRs."""
    znodes = yield from read_all(state_path(each) for each in places)
    found: dict[TopicPartition, LeaderAndIsr] = {}
    for place, znode in zip(places, znodes, strict=True):
        state = None if znode is None else sound(decode_state, place, znode.data, znode.version)
        if state is None or broker not in state.isr or len(state.isr) == 1:
            continue
        found[place] = replace(state, isr=tuple(each for each in state.isr if each != broker))
        if state.leader == broker:
            found[place] = replace(found[place], leader=NO_LEADER, leader_epoch=state.leader_epoch + 1)
    return found
