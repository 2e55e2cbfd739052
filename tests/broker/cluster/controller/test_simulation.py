"""The controller in a simulated cluster: brokers crash, sessions expire, controllers sleep and wake, by seed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from typing import Any

import pytest
from odradek.broker.cluster.controller.machine import ControllerMachine
from odradek.broker.cluster.controller.outbox import Message, StopReplicas, TellMetadata, pieces_of
from odradek.broker.cluster.znodes import TopicPartition
from odradek.tests.support.seeds import seeds

from .simulation import Simulation

SEEDS = 80
EVENTS = 40


def run(simulation: Simulation, *, disks_fill: bool = False) -> None:
    """Let things happen, then start every broker and check the cluster at rest."""
    happenings = [
        simulation.create_topic,
        simulation.create_topic,
        simulation.delete_topic,
        simulation.reassign,
        simulation.grow,
        simulation.scribble,
        simulation.fail_disk,
        simulation.kill,
        simulation.start,
        simulation.start,
        simulation.expire,
        simulation.lose_connection,
        simulation.start_over,
        simulation.depose,
        simulation.pause,
        simulation.shut_down,
        simulation.balance,
        simulation.shrink_isr,
        simulation.grow_isr,
    ]
    if disks_fill:
        happenings.append(simulation.fill_disk)
    for _ in range(EVENTS):
        simulation.random.choice(happenings)()
        for _ in range(simulation.random.randrange(40)):
            simulation.turn()
    for node in simulation.nodes.values():
        node.is_paused = False
    simulation.settle()
    simulation.check_dead()
    simulation.mend_disks()
    while not all(node.is_alive for node in simulation.nodes.values()):
        simulation.start()
    # Followers catch up, so that reassignments end.
    for _ in range(20):
        simulation.settle()
        simulation.grow_isr()
    simulation.settle()
    simulation.check_rest()


@pytest.mark.parametrize("seed", seeds(range(24), range(1_000, 4_000)))
def test_a_cluster_comes_to_rest_with_every_partition_led(seed: int) -> None:
    run(Simulation(seed), disks_fill=True)


# -- Planted bugs


class ForgetsTheDead(ControllerMachine):
    """Elects nobody where brokers went."""

    def _brokers_went(self, gone: set[int]) -> Generator[Any, Any, None]:
        self._outbox.tell_everybody()
        yield from ()


class AsksNobodyForDisks(ControllerMachine):
    """Does not ask what a broker still has that lost a disk."""

    def log_dirs_failed(self) -> Generator[Any, Any, None]:
        yield from ()


class WelcomesNobody(ControllerMachine):
    """Does not tell a broker that comes what it has to do."""

    def _brokers_came(self, came: set[int]) -> Generator[Any, Any, None]:
        yield from self.lead_everything()


class LeavesLeadersWithoutRoom(ControllerMachine):
    """Takes note of full disks, and moves nobody."""

    def _lead_with_room(self, places: Iterable[TopicPartition]) -> Generator[Any, Any, None]:
        yield from ()


class MissesRestarts(ControllerMachine):
    """Does not ask at the start of its term who has registered again since an ISR was written."""

    def _registered_since(self, zxid: int, brokers: Iterable[int]) -> set[int]:
        return set()


class RepeatsNothing(ControllerMachine):
    """Takes an error of a broker for its last word."""

    def tell_everything(self, broker: int, broker_epoch: int) -> Generator[Any, Any, None]:
        yield from ()

    def tell_again(self, *given: Any) -> Generator[Any, Any, None]:
        yield from ()


# With the seed to begin at: it, or one soon after it, finds the bug.
@pytest.mark.parametrize(
    ("machine", "first"),
    [
        (ForgetsTheDead, 90),
        (AsksNobodyForDisks, 0),
        (WelcomesNobody, 0),
        (MissesRestarts, 0),
        (RepeatsNothing, 0),
    ],
)
def test_a_planted_bug_is_found(machine: type[ControllerMachine], first: int) -> None:
    with pytest.raises((AssertionError, KeyError)):
        for seed in range(first, first + SEEDS):
            run(Simulation(seed, new_machine=machine))


def test_a_leader_that_stays_without_room_is_found() -> None:
    with pytest.raises(AssertionError, match="are full, and in the ISR"):
        for seed in range(SEEDS):
            run(Simulation(seed, new_machine=LeavesLeadersWithoutRoom), disks_fill=True)


def in_one_piece(message: Message, max_values: int) -> list[Message]:
    """Send what a broker does not take."""
    return [message]


def every_piece_full(message: Message, max_values: int) -> list[Message]:
    """Let a broker take each piece for all there is."""
    pieces = list(pieces_of(message, max_values))
    return [each if isinstance(each, StopReplicas) else replace(each, piece=None) for each in pieces]


def no_piece_full(message: Message, max_values: int) -> list[Message]:
    """Let a broker take no piece for a part of all there is."""
    pieces = list(pieces_of(message, max_values))
    return [replace(each, is_full=False) if isinstance(each, TellMetadata) else each for each in pieces]


@pytest.mark.parametrize(("wrong", "first"), [(in_one_piece, 0), (every_piece_full, 0), (no_piece_full, 40)])
def test_wrong_pieces_are_found(wrong: Callable[[Message, int], list[Message]], first: int) -> None:
    with pytest.raises((AssertionError, KeyError)):
        for seed in range(first, first + SEEDS):
            run(Simulation(seed, pieces_of=wrong))


def test_a_missing_fence_is_found() -> None:
    with pytest.raises((AssertionError, KeyError)):
        for seed in range(180, 180 + SEEDS):
            run(Simulation(seed, is_fenced=False))


def test_watches_that_end_with_a_connection_are_missed() -> None:
    with pytest.raises((AssertionError, KeyError)):
        for seed in range(10, 10 + SEEDS):
            run(Simulation(seed, keeps_watches=False))
