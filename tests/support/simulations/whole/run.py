"""One run by seed: a cluster, its load, its faults, and what the judge says. A failure is cut down and told."""

from __future__ import annotations

import asyncio
import gc
import logging
import traceback
from asyncio import events
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from odradek.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from odradek.protocol.errors import KafkaError
from odradek.testing.simulation.cluster import Cluster
from odradek.testing.simulation.process import Process
from odradek.testing.simulation.world import NothingLeft, TooLate, World

from .administration import TRIMMED, Administrator, check_administration
from .compacted import BROKERS, COMPACTED, KeyWriter, check_compaction, configs_of_topic
from .faults import ASKED_BY_HAND, Fault, Faults, full_journals, is_whole, plan, replicas_of, stop
from .history import History, Place
from .inquiries import Operator
from .judge import Log, check_committed, check_replicas, judge
from .load import (
    IDLE_MS,
    PARTITIONS,
    PLAIN,
    WHOLE,
    EndWatcher,
    Load,
    PlainWriter,
    Reader,
    TransactionWriter,
    check_offsets,
)
from .members import GROUP, Member, check_group
from .old_transactions import OldTransactionWriter
from .queries import QUERY, Query, check_query
from .sharing import LOCK_MS, FormerLeader, Namesakes, ShareMember, begin, check_sharing
from .story import awaited, told

# The virtual seconds of the load, one or the other: half of the runs are over soon. And those that a healed cluster may
# take until it serves everything again.
LOADS_S = (4.0, 11.0)
HEALED_S = 120.0
_STOPPED_S = 60.0
# Shorter than Kafka's defaults, so that a run sees members expire.
_PATIENCE = {
    f"group.{kind}.{least}{name}": value
    for kind in ("share", "consumer")
    for least in ("min.", "")
    for name, value in (("session.timeout.ms", "8000"), ("heartbeat.interval.ms", "1500"))
} | {f"group.share.{least}record.lock.duration.ms": LOCK_MS for least in ("min.", "")}
# ACLs come and go; everybody in the world may do everything.
_ACCESS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "log.retention.check.interval.ms": "1000",
}


@dataclass
class Result:
    """What a run was and what was wrong with it."""

    seed: int
    nodes: int
    violations: list[str]
    faults: list[Fault]
    story: list[tuple[float, str, str]]
    fingerprint: str
    covered: Counter[str] = field(default_factory=Counter)
    virtual_s: float = 0.0
    # What held all the time, as people read it.
    world: str = ""

    def report(self) -> str:
        """Return the failure as a text that a person can read."""
        lines = [
            f"seed {self.seed}, {self.nodes} nodes, {len(self.faults)} faults:",
            *self.violations[:10],
            self.world,
            "time line:",
            *told(self.story, self.violations[:10]),
        ]
        return "\n".join(lines)


class _Story(logging.Handler):
    """Brings what brokers and clients log into the time line."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.WARNING)
        self._world = world
        self.failures: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        process = getattr(events._get_running_loop(), "process", None)
        text = record.getMessage().split("\n")[0][:200]
        if " is open: " in text:
            return
        self._world.tell(process.host if process is not None else "a thread", text)
        if record.exc_info and record.exc_info[1] is not None:
            where = traceback.extract_tb(record.exc_info[2])[-1]
            self.failures.append(f"a broker logged {text}: {record.exc_info[1]!r} at {where.name}:{where.lineno}")


class Run:
    """One run of a seed. `faults`: only the first so many of its plan."""

    def __init__(self, seed: int, nodes: int, most_faults: int | None = None) -> None:
        self.world = World(seed)
        chance = self.world.random("run")
        self._forces = chance.random() < (0.7 if nodes == 1 else 0.4)
        # Whether a lone broker may lose what it has acknowledged: the rest must go on.
        self._loses = nodes == 1 and not self._forces and self.world.random("losses").random() < 0.5
        configs = {"log.flush.interval.messages": "1"} if self._forces else {}
        configs |= _PATIENCE | _ACCESS
        # What the topic that is trimmed keeps; its first records go also where nobody deletes them.
        self._retention = {"retention.ms": chance.choice(("2000", "600000")), "segment.ms": "1000"}
        if chance.random() < 0.3:
            configs |= {"log.roll.ms": "3000", "log.index.interval.bytes": "512"}
        if nodes > 1 and chance.random() < 0.7:
            # A batch at a time, as if there was much to catch up with.
            configs["replica.fetch.max.bytes"] = "1"
        if nodes > 1:
            configs["replica.fetch.wait.max.ms"] = str(IDLE_MS)
        self._compacts = self.world.random("compaction").random() < 0.3
        configs |= BROKERS if self._compacts else {"log.cleaner.enable": "false"}
        self.cluster = Cluster(self.world, nodes, configs)
        self.cluster.network.slowness = chance.choice((1.0, 1.0, 10.0))
        for node in self.cluster.nodes.values():
            node.clocks.ahead_ms = chance.choice((0, 250, -3_000, 3_000, 15_000))
            node.fsync_slowness = chance.choice((1.0, 1.0, 100.0))
        self._load_s = self.world.random("length").choice(LOADS_S)
        self.faults = plan(self.world.random("faults"), nodes, self._load_s, seed)
        if more := full_journals(self.world.random("journals"), nodes, self._load_s):
            self.faults = sorted(self.faults + more, key=lambda fault: fault.at_s)
        self.faults = self.faults[:most_faults]
        self.history = History()
        self.operator = self.cluster.client("operator")
        self._faults = Faults(self.cluster, lambda what: self.world.tell("operator", what), self._forces or self._loses)
        if self._compacts:
            self._faults.moments += (".cleaned",) * 3
        self._loads: list[tuple[Load, Process]] = []
        self.violations: list[str] = []

    def go(self) -> Result:
        """Run it."""
        story = _Story(self.world)
        logger = logging.getLogger("odradek")
        before = logger.propagate, logger.handlers[:]
        logger.propagate, logger.handlers = False, [story]
        try:
            with self.cluster:
                self._phases()
                self.violations += story.failures
                self.violations += [f"{each.host}: {error}" for each in self.cluster.processes for error in each.errors]
                fingerprint = self.cluster.fingerprint()
        finally:
            logger.propagate, logger.handlers = before
        covered = Counter(self.history.counts) + Counter({f"fault {kind}": n for kind, n in self._faults.done.items()})
        covered += Counter({f"pair {one} & {other}": n for (one, other), n in self._faults.pairs.items()})
        for node in self.cluster.nodes.values():
            for counts in node.requests:
                covered += Counter({f"asked {each.name}": each.requests for each in counts.values()})
        nodes, story_ = len(self.cluster.nodes), self.world.story
        violations = sorted(set(self.violations), key=self.violations.index)
        now_s, world = self.world.now_s, self._world_in_words()
        return Result(self.world.seed, nodes, violations, self.faults, story_, fingerprint, covered, now_s, world)

    def _world_in_words(self) -> str:
        force = "every batch" if self._forces else "what replication and transactions ask for"
        ahead = ", ".join(f"{each.clocks.ahead_ms} ms" for each in self.cluster.nodes.values())
        clients = ", ".join(each.name for each, _ in self._loads)
        return (
            f"the world: brokers force {force} to disk; their clocks are in the end ahead by {ahead}; "
            f"the network is {self.cluster.network.slowness:g} times as slow as usual; clients: {clients}"
        )

    def _phases(self) -> None:
        phase = "the cluster starts"
        try:
            self.operator.run(self._create(), HEALED_S)
            phase = "faults"
            self._start_load()
            self.operator.run(self._faults.run(self.faults), self._load_s + 60)
            self.operator.run(self._until(self._load_s), self._load_s + 60)
            phase = "a healed cluster serves everything again"
            self.operator.run(self._heal(), HEALED_S)
            self.operator.run(self._end_load(), HEALED_S)
            self.operator.run(self._prove(), HEALED_S)
            phase = "the end is read"
            self.operator.run(self._judge(), HEALED_S)
            phase = "brokers stop"
            self.operator.run(self._stop(), _STOPPED_S * len(self.cluster.nodes))
        except (NothingLeft, TooLate, KafkaError, AssertionError) as error:
            self.violations.append(f"{phase}: {type(error).__name__}: {error}; waiting: {self._waiting()}")

    @property
    def _lost_power(self) -> bool:
        if self.cluster.is_replicated:
            return self.cluster.has_lost_all
        return not self._faults.done.keys().isdisjoint(("power", "power all"))

    def _waiting(self) -> str:
        said = [f"{each.host} {'serves' if each.serves else 'does not serve'}" for each in self.cluster.nodes.values()]
        said += [f"{load.name} in {awaited(process.ends)}" for load, process in self._loads if not process.ends.done()]  # type: ignore[attr-defined]
        said += [
            f"the operator in {awaited(each)}"
            for each in self.operator.loop.tasks
            if each.get_name() == "main" and not each.done()
        ]
        return ", ".join(said)

    async def _until(self, at_s: float) -> None:
        await asyncio.sleep(max(0, at_s - self.world.now_s))

    async def _create(self) -> None:
        while not is_whole(self.cluster):
            await asyncio.sleep(0.05)
        trimmed = NewTopic(TRIMMED, 1, configs=self._retention)
        async with Admin(self.cluster.addresses) as admin:
            await admin.create_topics([NewTopic(PLAIN, PARTITIONS), NewTopic(WHOLE, PARTITIONS), trimmed])
            if self._compacts:
                await admin.create_topics([NewTopic(COMPACTED, 1, configs=configs_of_topic(len(self.cluster.nodes)))])
            await begin(admin)

    def _start_load(self) -> None:
        parts = self.world, self.history, self.cluster.addresses
        loads: list[Any] = [
            PlainWriter(*parts, "plain1"),
            PlainWriter(*parts, "plain2"),
            TransactionWriter(*parts, "txn1"),
            OldTransactionWriter(*parts, "old1"),
            OldTransactionWriter(*parts, "old2"),
            Reader(*parts, "reader-all", PLAIN, "read_uncommitted"),
            Reader(*parts, "reader-committed", WHOLE, "read_committed"),
            Member(*parts, "member1"),
            Member(*parts, "member2"),
        ]
        # What not every seed has.
        if self._compacts:
            loads += [KeyWriter(*parts, "keys")]
        chance = self.world.random("loads")
        if chance.random() < 0.4:
            sharers = [ShareMember(*parts, f"share{each}") for each in range(1, 2 * PARTITIONS + 1)]
            # On slow ways a record may be under way for nearly as long as a lock holds.
            for each in sharers if self.cluster.network.slowness == 1.0 else ():
                each.state_of = self._state_of
            loads += sharers
            loads += [FormerLeader(*parts, "former"), Namesakes(*parts, "namesake")]
        if chance.random() < 0.5:
            loads += [EndWatcher(*parts, "ends")]
        if chance.random() < 0.5:
            administrator = Administrator(*parts, "admin")
            administrator.nodes = len(self.cluster.nodes)
            loads += [administrator]
        if chance.random() < 0.3:
            loads += [Query(*parts, QUERY)]
        if chance.random() < 0.3:
            operator = Operator(*parts, "asker")
            operator.nodes = len(self.cluster.nodes)
            loads += [operator]
        for each in loads:
            process = self.cluster.client(each.name)
            process.ends = process.start(each.run(), each.name)  # type: ignore[attr-defined]
            self._loads.append((each, process))

    def _state_of(self, place: Place, host: str) -> object:
        """Return what a lock of a share group hangs on: the leader, starts of brokers, connections of a member."""
        leader = self.cluster.ensemble.model.nodes.get(f"/brokers/topics/{place[0]}/partitions/{place[1]}/state")
        starts = tuple(each.starts for each in self.cluster.nodes.values())
        return leader and leader.data, starts, self.cluster.network.ended[host]

    async def _heal(self) -> None:
        self.world.tell("operator", "HEALS")
        for load, _ in self._loads:
            load.rate = min(load.rate, 1.0)
        await self._faults.heal()
        while not is_whole(self.cluster):
            await asyncio.sleep(0.1)
        self.world.tell("operator", "the cluster is whole")

    async def _end_load(self) -> None:
        for load, _ in self._loads:
            load.is_over = True
        while not all(process.ends.done() for _, process in self._loads):  # type: ignore[attr-defined]
            await asyncio.sleep(0.1)
        for load, process in self._loads:
            if not process.ends.cancelled() and (error := process.ends.exception()):  # type: ignore[attr-defined]
                where = traceback.extract_tb(error.__traceback__)[-1]
                self.violations.append(f"{load.name} ended by {error!r} at {where.filename}:{where.lineno}")

    async def _prove(self) -> None:
        """Write to every partition, with and without a transaction; a topic can be made."""
        async with Producer(self.cluster.addresses) as producer:
            for index in range(PARTITIONS):
                await producer.send_and_wait(PLAIN, b"proof", partition=index)
        async with Producer(self.cluster.addresses, transactional_id="proof") as producer, producer.transaction():
            for index in range(PARTITIONS):
                await producer.send(WHOLE, b"proof", partition=index)
        async with Admin(self.cluster.addresses) as admin:
            await admin.create_topics([NewTopic("another", 1)])
        self.violations += await check_group(self.cluster)

    async def _judge(self) -> None:
        if self.cluster.has_lost_all:
            self._loses = True
            await self._abort_hanging()
        logs = {**await self._read(PLAIN, "read_uncommitted"), **await self._read(WHOLE, "read_uncommitted")}
        committed = await self._read(WHOLE, "read_committed")
        self.violations += judge(self.history, logs, committed, lost_power=self._lost_power, loses=self._loses)
        if not self._loses:
            self.violations += check_query(self.history.query, committed)
            self.violations += [each async for each in check_offsets(self.history, self.cluster.addresses)]
        async with Consumer(bootstrap_servers=self.cluster.addresses, group_id=GROUP) as consumer:
            places = [TopicPartition(PLAIN, index) for index in range(PARTITIONS)]
            for place, found in (await consumer.committed(*places)).items():
                offset = 0 if found is None else found.offset
                if not self._lost_power:
                    self.violations += check_committed(self.history, (place.topic, place.partition), offset)
        addresses = self.cluster.addresses
        if self._loses:
            self.history.trimmed_end = 0
        self.violations += [each async for each in check_administration(self.history, addresses)]
        if self.history.counts["accepted"] and not self._lost_power:
            self.violations += [each async for each in check_sharing(self.world, self.history, addresses, logs)]
        if self._compacts and not self._loses:
            self.violations += [each async for each in check_compaction(self.history, addresses)]
        if self.cluster.is_replicated:
            self.violations += await self._equal_replicas()

    async def _abort_hanging(self) -> None:
        """Abort what is open, as an operator does with kafka-transactions.sh: its coordinator may have lost it."""
        places = [TopicPartition(WHOLE, index) for index in range(PARTITIONS)]
        async with Admin(self.cluster.addresses) as admin:
            for place, producers in (await admin.describe_producers(places)).items():
                for each in producers:
                    if each.began_at is not None:
                        await admin.abort_transaction(place, each)

    async def _equal_replicas(self) -> list[str]:
        found: list[str] = []
        for _ in range(50):
            await asyncio.sleep(0.2)
            replicas = {name: brokers for name, brokers, _, _ in replicas_of(self.cluster)}
            folders = {number: node.folder for number, node in self.cluster.nodes.items()}
            found = list(check_replicas(folders, replicas, self._clean_up_to))
            left = [path for path in ASKED_BY_HAND if self.cluster.ensemble.model.get(path) is not None]
            found += [f"what was asked for by hand is not done: {path}" for path in left]
            if not found:
                break
        return found

    def _clean_up_to(self, name: str) -> int | None:
        if not (self._compacts and name.startswith(("__", COMPACTED))):
            return None
        topic, _, index = name.rpartition("-")
        found: list[int | None] = [0]
        for services in (each.broker.services for each in self.cluster.nodes.values() if each.broker is not None):
            partition = services.topics.partition(topic, int(index))
            if partition is not None:
                found.append(services.log_dirs.cleaner_offset((topic, int(index)), partition.log))
        return max(each or 0 for each in found)

    async def _read(self, topic: str, isolation: str) -> Mapping[Place, Log]:
        """Return all records of a topic, up to its end. Its last record is that of the proof."""
        found: dict[Place, Log] = {(topic, index): [] for index in range(PARTITIONS)}
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "isolation_level": isolation}
        async with Consumer(bootstrap_servers=self.cluster.addresses, **options) as consumer:
            consumer.assign([TopicPartition(topic, index) for index in range(PARTITIONS)])
            while not all(log and log[-1][1] == b"proof" for log in found.values()):
                for place, records in (await consumer.getmany(timeout_ms=500)).items():
                    log = found[place.topic, place.partition]
                    log.extend((each.offset, each.value or b"") for each in records)
        return found

    async def _stop(self) -> None:
        for node in self.cluster.nodes.values():
            process = node.process
            assert process is not None
            await stop(node)
            left = [repr(each.get_coro()) for each in process.loop.tasks if not each.done()]
            if left:
                self.violations.append(f"{node.host}: tasks are left after the stop: {left}")


def expect_many_runs() -> None:
    """Have Python's collector look at what the runs leave behind alone, and not at all modules after each."""
    gc.collect()
    gc.freeze()


def nodes_of(seed: int) -> int:
    """Return how many brokers a seed has where nobody says: one and three in turns."""
    return 3 if seed % 2 else 1


def run(seed: int, nodes: int = 3, most_faults: int | None = None) -> Result:
    """Run a seed."""
    return Run(seed, nodes, most_faults).go()


def shortest(seed: int, nodes: int) -> Result:
    """Return the failure of a seed with the fewest first faults that show one, found by halves."""
    worst = run(seed, nodes)
    low, high = 0, len(worst.faults)
    while worst.violations and low < high:
        middle = (low + high) // 2
        found = run(seed, nodes, middle)
        if found.violations:
            worst, high = found, middle
        else:
            low = middle + 1
    return worst
