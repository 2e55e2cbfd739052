"""Faults: what the seed does to machines, wires, clocks and processes, and when."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations_with_replacement
from random import Random

from odradek.broker.cluster.znodes import PREFERRED_REPLICA_ELECTION, REASSIGN_PARTITIONS
from odradek.testing.simulation.cluster import SESSION_S, Cluster, Node
from odradek.testing.simulation.disk import Files
from odradek.tests.broker.cluster.controller.nonsense import NONSENSE

ONE = (
    "kill",
    "power",
    "stop",
    "pause",
    "clock",
    "slow",
    "breaks",
    "full disk",
    "full disk",
    "broken disk",
    "power all",
    "slow fsync",
    "slow fsync",
)
# What people and tools write to ask the controller for something.
ASKED_BY_HAND = (REASSIGN_PARTITIONS, PREFERRED_REPLICA_ELECTION)
MANY = (*ONE, "cut", "one way", "zookeeper", "power", "kill", "clock", "lost directory", "lost alone", "rolling")
MANY += ("shutdown", "shutdown", "lost directory", "lost directory")
_LOSING = ("power", "lost directory", "lost alone")
_OF_MACHINES = (*_LOSING, "slow fsync", "kill", "stop", "pause", "broken disk", "power all")
# How much longer an fsync takes where the disk is slow: longer than a broker that was killed takes to start, or not.
_SLOW_FSYNC = (4_000.0, 16_000.0)
# Time enough for clients to send again what waits.
_LEAST_SLOW_S = 2.5
# Half of the kills and power cuts come with the next write to such a file, if it comes soon.
_MOMENTS: tuple[str, ...] = (
    "",
    ".log",
    "__transaction_state",
    "__transaction_state",
    "__consumer_offsets",
    "checkpoint",
    ".journal",
)
_SOON_S = 2.0
# A directory that is put back is so old at most.
_OLD_S = 4.0
# For so long a fault waits that would take too much of a cluster that is not whole.
_WHOLE_S = 1.5
# So many pairs of faults a seed has at most, and how far it is in the list from one to the next: neighbours are alike.
_PAIRS, _STEP = 4, 49
# The files that a disk has no room for, or cannot write. "": all.
_FILES = ("", "", ".log", ".index", ".timeindex", ".journal", ".snapshot", "checkpoint", ".tmp")


@dataclass(frozen=True)
class Fault:
    """One fault: when it begins, how long it lasts, and what it concerns."""

    at_s: float
    kind: str
    node: int
    other: int
    lasts_s: float
    number: int

    def __str__(self) -> str:
        other = f" and node {self.other}" if self.kind in ("cut", "one way") else ""
        return f"{self.kind}: node {self.node}{other}, for {self.lasts_s:.2f} s"


def plan(chance: Random, nodes: int, lasts_s: float, seed: int = 0) -> list[Fault]:
    """Draw the faults of a run: most are of few kinds, so that these come together, also if they are many.

    Some come two at a time: by seed all pairs have their turn.
    """
    found, at_s = list[Fault](), 1.0
    kinds = ONE if nodes == 1 else MANY
    pairs = list(combinations_with_replacement(sorted(set(kinds)), 2))
    often, pace_s, turn = chance.sample(kinds, 3), chance.choice((2.5, 6.0)), seed // 2 * _PAIRS
    while (at_s := at_s + chance.uniform(0.3, pace_s)) < lasts_s:
        if chance.random() < 0.4:
            # What needs a whole cluster comes first.
            first, second = sorted(
                chance.sample(pairs[turn * _STEP % len(pairs)], 2), key=lambda kind: kind not in _LOSING
            )
            turn += 1
            found.append(_fault(chance, first, nodes, at_s, chance.uniform(0.5, 4.0)))
            found.append(_fault(chance, second, nodes, at_s + chance.uniform(0.0, 0.4), chance.uniform(0.5, 4.0)))
        else:
            kind = chance.choice(often if chance.random() < 0.6 else kinds)
            duration_s = chance.choice((chance.uniform(0.05, 1.0), chance.uniform(1.0, 9.0)))
            found.append(_fault(chance, kind, nodes, at_s, duration_s))
    return found


def full_journals(chance: Random, nodes: int, lasts_s: float) -> list[Fault]:
    """Draw, in a seed of ten, when the journals of one machine find no room, twice: few of its writes go there."""
    if chance.random() >= 0.1:
        return []
    node, number = chance.randint(1, nodes), _FILES.index(".journal")
    return [Fault(chance.uniform(1.0, lasts_s), "full disk", node, node, 3.0, number) for _ in range(2)]


def _fault(chance: Random, kind: str, nodes: int, at_s: float, lasts_s: float) -> Fault:
    node = chance.randint(1, nodes)
    return Fault(at_s, kind, node, node % nodes + 1, lasts_s, chance.getrandbits(30))


class Faults:
    """Carries faults out, in the process of an operator."""

    def __init__(self, cluster: Cluster, tells: Callable[[str], None], cuts_power: bool) -> None:
        """`cuts_power`: power may fail everywhere, also where only page caches have what was acknowledged."""
        self._cluster, self._tell, self._cuts_power = cluster, tells, cuts_power
        self.moments = _MOMENTS
        self._usual_slowness = {number: node.fsync_slowness for number, node in cluster.nodes.items()}
        self._under_way: dict[asyncio.Task[None], str] = {}
        # How often each kind was, and two kinds at the same time.
        self.done: Counter[str] = Counter()
        self.pairs: Counter[tuple[str, str]] = Counter()

    async def run(self, faults: list[Fault]) -> None:
        """Begin each fault at its time."""
        for fault in faults:
            await asyncio.sleep(max(0, fault.at_s - self._cluster.world.now_s))
            if fault.kind in _LOSING and self._cluster.is_replicated:
                await self._seen(lambda: is_whole(self._cluster), _WHOLE_S)
            kind = self._possible(fault)
            if kind is None:
                continue
            self._tell(f"FAULT {fault}" + ("" if kind == fault.kind else f" (as {kind})"))
            self.done[kind] += 1
            others = {name for task, name in self._under_way.items() if not task.done()}
            self.pairs.update((min(kind, each), max(kind, each)) for each in others)
            task = asyncio.ensure_future(self._do(kind, fault))
            self._under_way[task] = kind

    async def heal(self) -> None:
        """Let every fault that is under way end, and all machines run."""
        if self._under_way:
            await asyncio.wait(self._under_way)
            for each in self._under_way:
                each.result()
        # A follower that fetches a batch at a time gets in sync with a busy leader only where its disk is as fast.
        for node in self._cluster.nodes.values():
            node.fsync_slowness = 1.0
        self._cluster.network.cuts.clear()
        self._cluster.network.heal()

    def _possible(self, fault: Fault) -> str | None:
        """Return what is done for a fault now; None: nothing."""
        node = self._cluster.nodes[fault.node]
        if fault.kind in _OF_MACHINES and not node.is_up:
            return None
        if node.process is not None and node.process.is_paused:
            return None
        if fault.kind in ("power", "power all") and self._cuts_power:
            return fault.kind
        if fault.kind in _LOSING and not (self._cluster.is_replicated and is_whole(self._cluster)):
            # What was acknowledged may be in the page caches of the others alone.
            return "kill"
        return "kill" if fault.kind == "power all" else fault.kind

    async def _do(self, kind: str, fault: Fault) -> None:
        node = self._cluster.nodes[fault.node]
        await getattr(self, "_" + kind.replace(" ", "_"))(node, fault)

    async def _moment(self, node: Node, fault: Fault) -> None:
        """Wait for the node's next write of some kind, so that what follows comes between two steps of a change."""
        if fault.number % 2:
            wrote = asyncio.Event()
            kind = self.moments[fault.number // 2 % len(self.moments)]
            loop = asyncio.get_running_loop()
            node.disk.wrote = lambda path: kind in str(path) and loop.call_soon_threadsafe(wrote.set)
            with suppress(TimeoutError):
                await asyncio.wait_for(wrote.wait(), _SOON_S)
            node.disk.wrote = None

    async def _kill(self, node: Node, fault: Fault) -> None:
        await self._moment(node, fault)
        if not node.is_up:
            return
        node.kill()
        await asyncio.sleep(fault.lasts_s)
        _run(node)

    async def _power(self, node: Node, fault: Fault) -> None:
        await self._moment(node, fault)
        if not node.is_up or self._possible(fault) != "power":
            return
        node.cut_power(fault.number)
        node.has_losses |= not self._cuts_power  # only page caches may have had what was acknowledged
        await asyncio.sleep(fault.lasts_s)
        _run(node)

    async def _power_all(self, node: Node, fault: Fault) -> None:
        await self._moment(node, fault)
        gone = [each for each in self._cluster.nodes.values() if each.is_up]
        for each in gone:
            each.cut_power(fault.number)
        await asyncio.sleep(fault.lasts_s)
        for each in gone:
            _run(each)

    async def _slow_fsync(self, node: Node, fault: Fault) -> None:
        """Have fsyncs take seconds. Where power may fail it does so in the end, before what is under way is there."""
        node.fsync_slowness = _SLOW_FSYNC[fault.number // 3 % 2]
        await asyncio.sleep(max(fault.lasts_s, _LEAST_SLOW_S))
        if fault.number % 3 and self._cuts_power and node.is_up:
            self.done["power"] += 1
            node.cut_power(fault.number)
            node.fsync_slowness = self._usual_slowness[node.number]
            await asyncio.sleep(0.5)
            _run(node)
        node.fsync_slowness = self._usual_slowness[node.number]

    async def _copied(self, node: Node, fault: Fault) -> Files:
        """Return a copy of a directory, once it is old. Half of the time there is none."""
        if fault.number // 2 % 2:
            return {}
        copy = node.disk.copy()
        await asyncio.sleep(min(fault.lasts_s, _OLD_S))
        return copy

    async def _lost_directory(self, node: Node, fault: Fault) -> None:
        """Lose a directory, or get one of some time ago in its place."""
        copy = await self._copied(node, fault)
        if node.is_up and self._possible(fault) == fault.kind:
            node.kill()
            node.lose_directory(copy)
            await asyncio.sleep(fault.lasts_s)
            _run(node)

    async def _lost_alone(self, node: Node, fault: Fault) -> None:
        """Lose a directory, and have all others die, before the empty broker starts or as soon as it serves."""
        copy = await self._copied(node, fault)
        if not node.is_up or self._possible(fault) != fault.kind:
            return
        others = [each for each in self._cluster.nodes.values() if each is not node and each.is_up]
        if fault.number % 2:
            for each in [*others, node]:
                each.kill()
            node.lose_directory(copy)
            # Nobody has taken it out of the ISR.
            await asyncio.sleep(SESSION_S + 1)
            _run(node)
        else:
            node.kill()
            node.lose_directory(copy)
            await asyncio.sleep(0.3)
            _run(node)
            while node.is_up and not node.serves:
                await asyncio.sleep(0.02)
            others = [each for each in others if each.is_up]
            for each in others:
                each.kill()
        await asyncio.sleep(fault.lasts_s)
        for each in others:
            _run(each)

    async def _rolling(self, _: Node, fault: Fault) -> None:
        """Stop and start one broker after the other."""
        for node in self._cluster.nodes.values():
            if node.serves:
                await stop(node)
                _run(node)
                await asyncio.sleep(fault.lasts_s / 4)

    async def _shutdown(self, first: Node, fault: Fault) -> None:
        """Stop the cluster, and start it in the reverse order. The last broker that runs finds nobody to lead for it.

        It is killed, and once more as soon as somebody is in sync with it: what follows must have everything.
        """
        nodes = [self._cluster.nodes[(first.number + step - 1) % 3 + 1] for step in range(3)]
        if not all(each.serves for each in nodes):
            return
        for each in nodes[:-1]:
            await stop(each)
            await asyncio.sleep(min(fault.lasts_s, 1.0))
        last = nodes[-1]
        if last.is_up:
            last.kill()
        _run(last)
        await self._seen(lambda: last.serves)
        _run(first)
        await self._seen(lambda: all({first.number, last.number} <= isr for isr in self._isrs_of(last)))
        if last.is_up:
            last.kill()
        _run(nodes[1])
        await asyncio.sleep(SESSION_S + 1)
        _run(last)

    def _isrs_of(self, node: Node) -> list[set[int]]:
        return [isr for _, _, isr, _ in replicas_of(self._cluster) if node.number in isr]

    async def _seen(self, what: Callable[[], bool], within_s: float = 20.0) -> None:
        """Wait for something, but not too long."""
        for _ in range(int(within_s / 0.02)):
            if what():
                return
            await asyncio.sleep(0.02)

    async def _full_disk(self, node: Node, fault: Fault) -> None:
        node.disk.full_files = _FILES[fault.number % len(_FILES)]
        node.disk.room_bytes = fault.number % 3_000
        await asyncio.sleep(fault.lasts_s)
        node.disk.room_bytes = None
        self._tell(f"the disk of node {node.number} has room again")
        _run(node)

    async def _broken_disk(self, node: Node, fault: Fault) -> None:
        """Have writes fail. Then the disk is well, and the broker starts again, as it does not by itself."""
        node.disk.broken_files = _FILES[fault.number % len(_FILES)]
        await asyncio.sleep(fault.lasts_s)
        node.disk.broken_files = None
        if node.is_up:
            node.kill()
            await asyncio.sleep(0.1)
        _run(node)

    async def _stop(self, node: Node, fault: Fault) -> None:
        await stop(node)
        await asyncio.sleep(fault.lasts_s)
        _run(node)

    async def _pause(self, node: Node, fault: Fault) -> None:
        process = node.process
        assert process is not None
        ensemble = self._cluster.ensemble
        process.pause()
        is_long = fault.lasts_s > SESSION_S and self._cluster.is_replicated and node.serves
        if is_long:
            self._cluster.expire_session(node.number)
        await asyncio.sleep(fault.lasts_s)
        process.go_on()
        if is_long:
            # Its client finds the session gone.
            process.loop.call_soon(ensemble.isolate, node.number)
            process.loop.call_soon(ensemble.heal, node.number)

    async def _clock(self, node: Node, fault: Fault) -> None:
        """Have the clock jump. It stays wrong."""
        node.clocks.ahead_ms = fault.number % 20_000 - 10_000
        await asyncio.sleep(fault.lasts_s)

    async def _slow(self, node: Node, fault: Fault) -> None:
        process = node.process
        if process is not None:
            process.slowness = 50.0
            await asyncio.sleep(fault.lasts_s)
            process.slowness = 1.0

    async def _breaks(self, _: Node, fault: Fault) -> None:
        self._cluster.network.break_chance = 0.02
        await asyncio.sleep(fault.lasts_s)
        self._cluster.network.break_chance = 0.0

    async def _cut(self, node: Node, fault: Fault) -> None:
        await self._without([(node.number, fault.other), (fault.other, node.number)], fault.lasts_s)

    async def _one_way(self, node: Node, fault: Fault) -> None:
        await self._without([(node.number, fault.other)], fault.lasts_s)

    async def _without(self, ways: list[tuple[int, int]], lasts_s: float) -> None:
        network, nodes = self._cluster.network, self._cluster.nodes
        cuts = {(nodes[one].host, nodes[other].host) for one, other in ways}
        network.cuts |= cuts
        await asyncio.sleep(lasts_s)
        network.cuts -= cuts
        network.heal()

    async def _zookeeper(self, node: Node, fault: Fault) -> None:
        process, ensemble = node.process, self._cluster.ensemble
        if fault.number % 2:
            self._scribble(fault.number // 2)
        if process is not None and node.serves:
            process.loop.call_soon(ensemble.isolate, node.number)
            await asyncio.sleep(fault.lasts_s)
            # The session of a process that has ended is gone with it.
            process.loop.call_soon(ensemble.heal, node.number)

    def _scribble(self, number: int) -> None:
        """Write by hand what makes no sense, where the controller is asked for something: it takes it away."""
        ensemble = self._cluster.ensemble
        path, data = ASKED_BY_HAND[number % 2], NONSENSE[number // 2 % len(NONSENSE)]
        if ensemble.model.get(path) is None:
            self._tell(f"{data!r} is written to {path}")
            ensemble.model.make(path, data)
            ensemble.deliver()


def _run(node: Node) -> None:
    """Have a machine run, with its broker, unless another fault has begun it again."""
    if not node.is_up:
        node.boot()


async def stop(node: Node) -> None:
    """Stop a node in order, from the process of an operator, unless another fault has ended it."""
    process = node.process
    if process is None:
        return
    task = process.start(node.stop(), f"stop of node {node.number}")
    for _ in range(600):
        if task.done() or node.process is not process:
            break
        await asyncio.sleep(0.05)
    if node.process is process:
        assert task.done(), f"node {node.number} does not stop within 30 s"
        task.result()
        node.stopped()


def replicas_of(cluster: Cluster) -> Iterator[tuple[str, set[int], set[int], bool]]:
    """Yield NAME-INDEX of each partition, its replicas, its ISR, and whether it gets other replicas now."""
    nodes = cluster.ensemble.model.nodes
    for path, node in nodes.items():
        if not (path.startswith("/brokers/topics/") and path.endswith("/state")):
            continue
        topic, index = path.removesuffix("/state").split("/partitions/")
        if topic in nodes:
            assignment = json.loads(nodes[topic].data)
            moving = {*assignment.get("adding_replicas", {}), *assignment.get("removing_replicas", {})}
            replicas, isr = assignment["partitions"].get(index, []), json.loads(node.data)["isr"]
            yield f"{topic.rsplit('/', 1)[1]}-{index}", set(replicas), set(isr), index in moving


def is_whole(cluster: Cluster) -> bool:
    """Return whether every node serves, and every replica is in sync."""
    if not all(each.serves for each in cluster.nodes.values()):
        return False
    if not cluster.is_replicated:
        return True
    return all(isr == replicas and not moves for _, replicas, isr, moves in replicas_of(cluster))
