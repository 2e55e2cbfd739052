"""Replicas of one partition in a simulated network, by seed: what a leader and its followers decide.

The machine of the leader (leadership.py), the epochs of a log (leader_epochs.py), the rule of truncation and the
election for a full disk (election.py) are the real ones. The clock is virtual, logs are lists, and every message may be
late, lost or doubled. Brokers crash and come back, and disks are full for some time; the controller moves the leader
and answers changes of the ISR, as Kafka's does. `step` checks the promises after every event:

- every member of the ISR has every acknowledged record, where it was acknowledged;
- two replicas are equal up to the lower of their high watermarks;
- the high watermark of a leader never goes back.

In the end a disk is full once more, the leader's: a replica in sync that has room leads instead, and has a record
acknowledged.

`bug` plants a mistake, so that a test can show that the checks find it. Others are planted in the whole simulation.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from odradek.broker.cluster.controller.cluster_state import ClusterState
from odradek.broker.cluster.controller.election import elect_with_room
from odradek.broker.cluster.znodes import LeaderAndIsr, Registration, Replicas, TopicPartition
from odradek.broker.replication.follower_log import truncation_offset
from odradek.broker.replication.leadership import IsrChange, Leadership, Role
from odradek.storage.leader_epochs import LeaderEpochs

BUGS = (
    "forget the epoch",
    "forget a change under way",
    "leave the leader with a full disk",
)
PLACE = TopicPartition("simulated", 0)
LAG_MS = 60
STEPS = 400


class Broken(AssertionError):
    """A promise does not hold."""


@dataclass
class Node:
    """One replica. What a crash takes is `role`, `leadership` and the requests under way."""

    id: int
    log: list[tuple[int, int]] = field(default_factory=list)
    epochs: LeaderEpochs = field(default_factory=lambda: LeaderEpochs(Path("epochs")))
    high_watermark: int = 0
    alive: bool = True
    # Whether the disk takes records.
    has_room: bool = True
    role: Role | None = None
    leadership: Leadership | None = None
    # Records of clients that wait: offset -> value.
    waiting: dict[int, int] = field(default_factory=dict)
    # The number of the fetch under way: a response to an earlier one reaches nobody, as on a connection.
    request: int = 0

    @property
    def end(self) -> int:
        return len(self.log)

    def append(self, epoch: int, value: int) -> None:
        if epoch > self.epochs.latest:
            self.epochs.assign(epoch, self.end)
        self.log.append((epoch, value))

    def truncate(self, offset: int) -> None:
        del self.log[offset:]
        self.epochs.truncate_from_end(self.end)
        self.high_watermark = min(self.high_watermark, self.end)

    def crash(self, chance: random.Random) -> None:
        """Die. The checkpoint of the high watermark is a little older."""
        self.alive, self.role, self.leadership = False, None, None
        self.waiting.clear()
        self.high_watermark = max(self.high_watermark - chance.randint(0, 2), 0)


class Fetch(NamedTuple):
    """A request of a follower."""

    number: int
    epoch: int
    offset: int
    last_epoch: int


class Simulation:
    """Three replicas, a controller and clients."""

    def __init__(self, seed: int, bug: str = "", nodes: int = 3, min_isr: int = 1) -> None:
        self.chance = random.Random(seed)
        self.bug = bug
        self.min_isr = min_isr
        self.now_ms = 0
        self.nodes = {number: Node(number) for number in range(1, nodes + 1)}
        everyone = tuple(self.nodes)
        self.state = Role(1, 0, everyone, 0, everyone)
        # The brokers of which the controller knows that their disks are full.
        self.known_full: set[int] = set()
        # How many records were acknowledged, and what a log begins with that has all of them.
        self.acknowledged = 0
        self.committed: list[tuple[int, int]] = []
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._values = 0
        self._is_calm = False
        self._tell_all()
        for node in self.nodes.values():
            self._later(self.chance.randint(1, 20), lambda node=node: self._fetch(node))
            self._later(self.chance.randint(1, LAG_MS), lambda node=node: self._tick(node))

    def run(self) -> None:
        """Let faults and messages come by chance, then let the network be calm, and see that all agree."""
        for _ in range(STEPS):
            self.step()
        self._calm_down()
        self._be_whole()
        full = self.nodes[self.state.leader]
        self._set_room(full, False)
        self._let_pass(200)
        before = self.acknowledged
        self._produce()
        self._let_pass(200)
        self._require(self.acknowledged > before, f"{full.id}, whose disk is full, keeps all others from writing")
        self._set_room(full, True)
        self._be_whole()

    def _calm_down(self) -> None:
        """Have all brokers live, all disks have room, and all messages arrive."""
        self._is_calm = True
        for node in self.nodes.values():
            self._set_room(node, True)
            if not node.alive:
                self._restart(node)

    def _be_whole(self) -> None:
        self._let_pass(400)
        self._require(len(self.state.isr) == len(self.nodes), f"not all are in the ISR {self.state.isr} in the end")
        logs = [node.log for node in self.nodes.values()]
        self._require(all(log == logs[0] for log in logs), "the logs differ in the end")

    def _let_pass(self, duration_ms: int) -> None:
        deadline_ms = self.now_ms + duration_ms
        while self.now_ms < deadline_ms:
            self.step()

    def step(self) -> None:
        """One message, timer, fault or client."""
        if not self._is_calm:
            chance = self.chance.random()
            if chance < 0.15:
                self._produce()
            elif chance < 0.18:
                self._crash_or_restart()
            elif chance < 0.20:
                self._move_leader()
            elif chance < 0.21:
                node = self.chance.choice(list(self.nodes.values()))
                self._set_room(node, not node.has_room)
        self.now_ms, _, event = heapq.heappop(self._events)
        event()
        self._check()

    # -- The network

    def _later(self, delay_ms: int, event: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now_ms + delay_ms, self._count, event))

    def _send(self, deliver: Callable[[], None], to: Node | None = None, most: int = 2) -> None:
        """Deliver later, perhaps never or `most` times; to a broker only if it lives then."""

        def arrive() -> None:
            if to is None or to.alive:
                deliver()

        for _ in range(1 if self._is_calm else self.chance.choices((0, 1, most), (1, 8, 1))[0]):
            self._later(1 if self._is_calm else self.chance.choice((1, 2, 5, 30)), arrive)

    # -- Clients

    def _produce(self) -> None:
        leaders = [node for node in self.nodes.values() if node.alive and node.leadership is not None]
        if not leaders:
            return
        node = self.chance.choice(leaders)
        leadership = node.leadership
        assert leadership is not None
        if leadership.is_under_min_isr or not node.has_room:
            return
        self._values += 1
        node.append(leadership.role.leader_epoch, self._values)
        node.high_watermark = leadership.appended(node.end)
        node.waiting[node.end - 1] = self._values
        self._acknowledge(node)

    def _acknowledge(self, node: Node) -> None:
        for offset in [each for each in node.waiting if each < node.high_watermark]:
            del node.waiting[offset]
            self._commit(node, offset + 1)

    def _commit(self, node: Node, end: int) -> None:
        """Note that the client was told that the last record below `end` is there."""
        self.acknowledged += 1
        if end > len(self.committed):
            self._require(node.log[: len(self.committed)] == self.committed, f"{node.id} acknowledged another history")
            self.committed = node.log[:end]

    # -- Followers

    def _fetch(self, node: Node) -> None:
        self._later(self.chance.randint(3, 15), lambda: self._fetch(node))
        role = node.role
        if not node.alive or role is None or role.leader in (node.id, -1):
            return
        node.request += 1
        leader, fetch = self.nodes[role.leader], Fetch(node.request, role.leader_epoch, node.end, node.epochs.latest)
        self._send(lambda: self._answer_fetch(leader, node, fetch), leader)

    def _answer_fetch(self, leader: Node, node: Node, fetch: Fetch) -> None:
        _, epoch, offset, last = fetch
        leadership = leader.leadership
        if leadership is None:
            return
        if leadership.role.leader_epoch != epoch and self.bug != "forget the epoch":
            return
        diverging = leader.epochs.divergence(offset, last, leader.end) if last >= 0 else None
        if diverging is not None and diverging[0] < 0:
            return
        if diverging is not None:
            self._send(lambda: self._go_back(node, fetch, *diverging), node)
            return
        self._progress(leader, leadership.fetched(node.id, offset, self.now_ms))
        records, mark = leader.log[offset : offset + self.chance.randint(1, 3)], leader.high_watermark
        self._send(lambda: self._append(node, fetch, records, mark), node)

    def _is_current(self, node: Node, fetch: Fetch) -> bool:
        """Whether a response is that to the request under way, of the present epoch. It is used once."""
        same = node.role is not None and node.role.leader_epoch == fetch.epoch and node.leadership is None
        if fetch.number != node.request or not (same or self.bug == "forget the epoch"):
            return False
        node.request += 1
        return True

    def _go_back(self, node: Node, fetch: Fetch, leader_epoch: int, leader_end: int) -> None:
        if self._is_current(node, fetch):
            before = node.high_watermark
            node.truncate(truncation_offset(node.epochs, node.end, leader_epoch, leader_end))
            self._require(self.bug != "" or node.high_watermark >= before, f"{node.id} went below its high watermark")

    def _append(self, node: Node, fetch: Fetch, records: list[tuple[int, int]], mark: int) -> None:
        if self._is_current(node, fetch) and node.has_room:
            for record in records:
                node.append(*record)
            node.high_watermark = max(node.high_watermark, min(mark, node.end))

    # -- Leaders

    def _tick(self, node: Node) -> None:
        self._later(LAG_MS // 2, lambda: self._tick(node))
        leadership = node.leadership
        if node.alive and leadership is not None:
            self._progress(node, leadership.tick(self.now_ms))
            if leadership.pending is not None:
                # The answer may be lost: ask again.
                leadership.repeated(leadership.pending)
                self._ask(node, leadership.pending)

    def _progress(self, node: Node, change: IsrChange | None) -> None:
        leadership = node.leadership
        assert leadership is not None
        self._require(leadership.high_watermark >= node.high_watermark, f"the high watermark of {node.id} went back")
        node.high_watermark = leadership.high_watermark
        self._acknowledge(node)
        if change is not None:
            self._ask(node, change)
            if self.bug == "forget a change under way":
                leadership.pending = None
                leadership._note_alone()

    def _ask(self, node: Node, change: IsrChange) -> None:
        self._send(lambda: self._alter(node, change), most=1)

    # -- The controller

    def _alter(self, node: Node, change: IsrChange) -> None:
        """Answer AlterPartition as Kafka's controller does: with the state, if the change was made already."""
        state = self.state
        if change.leader_epoch != state.leader_epoch:
            return
        if set(change.isr) != set(state.isr):
            if change.partition_epoch != state.partition_epoch:
                return
            dead = [each for each in change.isr if not self.nodes[each].alive]
            if dead:
                self._send(lambda: self._reject(node, change), node)
                return
            self._write(isr=change.isr)
        isr, epoch, partition_epoch = self.state.isr, state.leader_epoch, self.state.partition_epoch
        self._send(lambda: self._confirm(node, epoch, isr, partition_epoch), node)

    def _confirm(self, node: Node, epoch: int, isr: tuple[int, ...], partition_epoch: int) -> None:
        leadership = node.leadership
        if leadership is not None and leadership.role.leader_epoch == epoch:
            leadership.confirmed(isr, partition_epoch)
            self._progress(node, None)

    def _reject(self, node: Node, change: IsrChange) -> None:
        if node.leadership is not None and node.leadership.role.leader_epoch == change.leader_epoch:
            node.leadership.rejected(change, self.now_ms)
            self._progress(node, None)

    def _write(self, leader: int | None = None, isr: tuple[int, ...] | None = None) -> None:
        state = self.state
        self.state = Role(
            state.leader if leader is None else leader,
            state.leader_epoch + (leader is not None),
            state.isr if isr is None else isr,
            state.partition_epoch + 1,
            state.replicas,
        )

    def _tell_all(self) -> None:
        for node in self.nodes.values():
            self._tell(node, self.state)

    def _tell(self, node: Node, role: Role) -> None:
        """Send LeaderAndIsr until the broker has it, as the controller does."""

        def arrive() -> None:
            if self.state.leader_epoch == role.leader_epoch and node.alive:
                self._assume(node, role)

        self._send(arrive)
        self._later(40, lambda: self._tell_again(node, role))

    def _tell_again(self, node: Node, role: Role) -> None:
        is_missing = node.role is None or node.role.leader_epoch < role.leader_epoch
        if node.alive and is_missing and self.state.leader_epoch == role.leader_epoch:
            self._tell(node, role)

    def _assume(self, node: Node, role: Role) -> None:
        if node.role is not None and node.role.leader_epoch >= role.leader_epoch:
            return
        node.role = role
        if role.leader != node.id:
            node.leadership = None
            node.waiting.clear()
            return
        node.leadership = Leadership(node.id, role, node.end, node.high_watermark, self.min_isr, LAG_MS, self.now_ms)
        node.epochs.assign(role.leader_epoch, node.end)
        self._progress(node, None)

    def _move_leader(self) -> None:
        """Elect another member of the ISR that lives, because the leader is gone or another is preferred."""
        state = self.state
        alive = [each for each in state.isr if self.nodes[each].alive]
        if not alive:
            return
        leader = self.chance.choice([each for each in alive if each not in self.known_full] or alive)
        dead = tuple(each for each in state.isr if not self.nodes[each].alive and self.chance.random() < 0.5)
        isr = tuple(each for each in state.isr if each not in dead and each != leader)
        self._write(leader, (leader, *isr))
        self._tell_all()

    def _learn_room(self, node: Node) -> None:
        """Take the answer of a broker that was asked whether its disk is full, and elect who has room."""
        if not node.alive:
            return
        (self.known_full.discard if node.has_room else self.known_full.add)(node.id)
        if self.bug == "leave the leader with a full disk":
            return
        state = self.state
        cluster = ClusterState(
            0, 0, {each: Registration(each, (), {}) for each in self.nodes if self.nodes[each].alive}
        )
        cluster.replicas[PLACE] = Replicas(state.replicas)
        cluster.full = {(each, PLACE) for each in self.known_full}
        elected = elect_with_room(cluster, PLACE, LeaderAndIsr(state.leader, state.leader_epoch, state.isr, 0))
        if elected is not None and elected != (state.leader, state.isr):
            self._write(*elected)
            self._tell_all()

    # -- Faults

    def _set_room(self, node: Node, has_room: bool) -> None:
        """Fill a disk, or make room, of which the controller hears."""
        node.has_room = has_room
        self._later(self.chance.randint(1, 30), lambda: self._learn_room(node))

    def _crash_or_restart(self) -> None:
        node = self.chance.choice(list(self.nodes.values()))
        if not node.alive:
            self._restart(node)
            return
        node.crash(self.chance)
        if self.state.leader == node.id:
            self._later(self.chance.randint(10, 60), self._replace_dead_leader)

    def _replace_dead_leader(self) -> None:
        if not self.nodes[self.state.leader].alive:
            if any(self.nodes[each].alive for each in self.state.isr):
                self._move_leader()
            else:
                self._later(20, self._replace_dead_leader)

    def _restart(self, node: Node) -> None:
        node.alive = True
        if self.state.leader == node.id:
            # A new epoch: what it knew of its followers is gone.
            self._write(node.id, self.state.isr)
            self._tell_all()
        else:
            self._tell(node, self.state)

    # -- The promises

    def _check(self) -> None:
        for member in self.state.isr:
            has = self.nodes[member].log[: len(self.committed)] == self.committed
            self._require(has, f"{member} of the ISR lacks acknowledged records")
        nodes = list(self.nodes.values())
        for number, one in enumerate(nodes):
            for other in nodes[number + 1 :]:
                common = min(one.high_watermark, other.high_watermark)
                same = one.log[:common] == other.log[:common]
                self._require(same, f"{one.id} and {other.id} differ below the high watermark {common}")

    def _require(self, holds: bool, what: str) -> None:
        if not holds:
            raise Broken(f"at {self.now_ms} ms: {what}")
