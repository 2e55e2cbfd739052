"""Watches: which event of the controller follows when a znode changes."""

from __future__ import annotations

from ....zookeeper.operations import Steps
from ..znodes import (
    BROKER_IDS,
    CONTROLLER,
    CONTROLLER_EPOCH,
    DELETE_TOPICS,
    ISR_CHANGES,
    LOG_DIR_EVENTS,
    PREFERRED_REPLICA_ELECTION,
    REASSIGN_PARTITIONS,
    TOPICS,
)
from .machine import ControllerMachine


def subject_of(path: str) -> str:
    """Return the path whose event follows a change of `path`: those of one broker and of all brokers are one."""
    if path == CONTROLLER_EPOCH:
        return CONTROLLER
    return BROKER_IDS if path.startswith(f"{BROKER_IDS}/") else path


def event_of(machine: ControllerMachine, path: str) -> Steps[None] | None:
    """Return the steps that follow a change of `path`, or None where it concerns no controller."""
    events = {
        BROKER_IDS: machine.brokers_changed,
        TOPICS: machine.topics_changed,
        DELETE_TOPICS: machine.deletion.take_up,
        REASSIGN_PARTITIONS: machine.reassignment.take_up,
        PREFERRED_REPLICA_ELECTION: machine.elect_as_asked,
        ISR_CHANGES: machine.isr_changed,
        LOG_DIR_EVENTS: machine.log_dirs_failed,
    }
    subject = subject_of(path)
    if subject in events:
        return events[subject]()
    if path.startswith(f"{TOPICS}/") and path.count("/") == TOPICS.count("/") + 1:
        return machine.partitions_changed(path.rpartition("/")[2])
    return None
