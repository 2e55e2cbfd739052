"""A simulated cluster: one broker, or several with the model of ZooKeeper, each on a machine of its own."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import TracebackType

from ...broker.cluster.znodes import BROKER_IDS, CONTROLLER, TOPICS
from ...broker.configs.broker_config import BrokerConfig
from ...broker.metrics.request_counts import ApiCounts
from ...broker.network.routes import ALONE_ROUTES, load, unloaded
from ...broker.server import Broker
from ...storage.compaction import worker
from ..zookeeper_session import Ensemble
from .disk import Files, SimulatedDisk
from .network import Network
from .process import Clocks, Process
from .world import World

PORT = 9092
SESSION_S = 6.0
# What the simulation has in the place of Kafka's defaults: less to wait for.
_CONFIGS = {
    "num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
}
_REPLICATED = {
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "min.insync.replicas": "2",
    "zookeeper.connect": "zookeeper:2181",
    "zookeeper.session.timeout.ms": f"{SESSION_S * 1000:.0f}",
}


class Node:
    """One machine with a broker. Its disk and its clock outlive the broker."""

    def __init__(self, cluster: Cluster, number: int, configs: Mapping[str, str]) -> None:
        self._cluster = cluster
        self.number = number
        self.host = f"10.0.0.{number}"
        self.folder = cluster.folder / f"node{number}"
        self.folder.mkdir(parents=True)
        self.clocks = Clocks(cluster.world)
        self.disk = SimulatedDisk(self.folder, self.clocks, cluster.world.random(f"disk {number}"))
        # How much slower than usual its disk forces what was written.
        self.fsync_slowness = 1.0
        self._configs = {**configs, "listeners": f"PLAINTEXT://{self.host}:{PORT}", "log.dirs": str(self.folder)}
        self._configs["broker.id" if cluster.is_replicated else "node.id"] = str(number)
        self.process: Process | None = None
        self.broker: Broker | None = None
        # The processes that have ended.
        self.past: list[Process] = []
        # How often a process has begun.
        self.starts = 0
        self._serves = self._is_stopping = False
        # Whether it has lost its directory, or what was acknowledged and not forced to disk, and has not registered
        # since: then its broker has left the ISRs.
        self.has_losses = False
        # Of each process, how often each API was asked.
        self.requests: list[ApiCounts] = []

    @property
    def is_up(self) -> bool:
        """Whether its process runs."""
        return self.process is not None

    @property
    def serves(self) -> bool:
        """Whether its broker has started."""
        return self._serves

    async def _run(self, broker: Broker) -> None:
        try:
            await broker.start()
        except Exception as error:  # noqa: BLE001 - the end of a process, which the judge reads
            process = self.process
            assert process is not None
            if not self.disk.is_failing and not self._is_stopping:
                process.errors.append(f"does not start: {error!r}")
            self._tell(f"does not start: {error}")
            # A command that fails ends its process.
            process.loop.call_soon(self._end, process)
            return
        self._serves = True
        self.requests.append(broker.services.requests)
        self._tell("serves")

    def start(self) -> None:
        """Start the broker. It serves some time later."""
        assert self.process is None, f"{self.host} runs"
        cluster = self._cluster
        process = self.process = Process(cluster.world, cluster.network, self.host, self.clocks)
        process.fsync_slowness = lambda: self.fsync_slowness
        process.commands[worker.__name__] = partial(worker.run, disk=self.disk)
        config, _ = BrokerConfig.parse(self._configs, strict=True)
        opener = cluster.ensemble.opener(self.number) if cluster.is_replicated else None
        self.broker = Broker(config, clock=self.clocks, disk=self.disk, open_session=opener, new_pool=process.new_pool)
        self.starts, self._is_stopping = self.starts + 1, False
        self.starting = process.start(self._run(self.broker), f"start of node {self.number}")

    def _end(self, process: Process) -> None:
        if self.process is process:
            self.kill()

    async def stop(self) -> None:
        """Stop the broker in order. Called in another process: wait for the task."""
        assert self.broker is not None
        # A start that is under way fails then.
        self._is_stopping = True
        await self.broker.stop()

    def stopped(self) -> None:
        """Take down that the process has ended by itself."""
        self._leave("has stopped")

    def kill(self) -> None:
        """End the broker by SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self._leave("is dead")

    def cut_power(self, seed: int) -> None:
        """Cut the power of the machine: the disk loses what it may lose."""
        assert self.process is not None
        self.process.cut_power()
        self._leave("has no power")
        before = self.disk.contents()
        self.disk.lose(seed)
        after = self.disk.contents()
        for name in sorted(before):
            if (left := after.get(name)) != before[name]:
                has = (
                    "is gone"
                    if left is None
                    else f"has {len(left)}" + (", changed" if len(left) == len(before[name]) else "")
                )
                self._tell(f"{name} had {len(before[name])} bytes before the power cut, and {has}")

    def lose_directory(self, copy: Files) -> None:
        """Lose all files of the machine, which must not run, and get those of a copy, if there are any."""
        self.disk.replace(copy)
        self.has_losses = True
        self._tell("has an earlier copy of its directory" if copy else "has lost its directory")

    def boot(self) -> None:
        """Start the machine and the broker again."""
        for each in self.past:
            each.boot()
        self.start()

    def _tell(self, what: str) -> None:
        self._cluster.world.tell(self.host, what)

    def _leave(self, how: str) -> None:
        assert self.process is not None
        self._tell(how)
        self.process.is_alive = False
        self.past.append(self.process)
        self.process = self.broker = None
        self._serves = False
        self.disk.abandon()
        self._cluster.expire_later(self.number)


# Where the disks are: in memory, if the system has such a place. The path has the same length in every run, because
# journals hold it.
_MEMORY = Path("/dev/shm")


class Cluster:
    """The machines with brokers of a world. `with Cluster(world, 3) as cluster:`."""

    def __init__(self, world: World, nodes: int, configs: Mapping[str, str] | None = None) -> None:
        self.world = world
        # A broker imports these with its first requests. A run must not depend on what the process has imported before.
        for route in ALONE_ROUTES:
            load(unloaded(route))
        self.folder = Path(tempfile.mkdtemp(prefix="simulation", dir=_MEMORY if _MEMORY.is_dir() else None))
        self._folder_name = os.fsencode(self.folder)
        self.network = Network(world)
        self.is_replicated = nodes > 1
        # Whether an ISR had one member alone, and that had losses: what was acknowledged is lost, as in Kafka.
        self.has_lost_all = False
        self.ensemble = Ensemble()
        self.ensemble.model.changed = self._tell_change
        self._digest = hashlib.sha256()
        self.network.sent = self._note_bytes
        texts = {**_CONFIGS, **(_REPLICATED if self.is_replicated else {}), **(configs or {})}
        self.nodes = {number: Node(self, number, texts) for number in range(1, nodes + 1)}
        self.clients: list[Process] = []

    def _note_bytes(self, data: bytes) -> None:
        # Errors that a broker sends may name a file.
        self._digest.update(b"%d %d %b" % (self.world.now_ns, len(data), data.replace(self._folder_name, b"")))

    def _tell_change(self, path: str, data: bytes | None) -> None:
        """Bring who leads, and the ISRs, into the time line."""
        if data and path == CONTROLLER:
            self.world.tell("zookeeper", f"broker {json.loads(data)['brokerid']} is the controller")
        elif data and path.startswith(BROKER_IDS + "/"):
            self.nodes[int(path.rpartition("/")[2])].has_losses = False
        elif data and path.startswith(TOPICS) and path.endswith("/state"):
            topic, _, index, _ = path.removeprefix(TOPICS + "/").split("/")
            state = json.loads(data)
            self.has_lost_all |= [each for each in state["isr"] if not self.nodes[each].has_losses] == []
            led = f"led by {state['leader']} at epoch {state['leader_epoch']}, ISR {state['isr']}"
            self.world.tell("zookeeper", f"{topic}-{index} is {led}")

    @property
    def addresses(self) -> str:
        """What clients are given as bootstrap_servers."""
        return ",".join(f"{each.host}:{PORT}" for each in self.nodes.values())

    def client(self, name: str) -> Process:
        """Return a new process for a client."""
        process = Process(self.world, self.network, name)
        self.clients.append(process)
        return process

    def expire_later(self, number: int) -> None:
        """End the session with ZooKeeper of a node that is gone."""
        if self.is_replicated and self.clients:
            loop = self.clients[0].loop
            loop.call_later(SESSION_S, self._expire, self.ensemble.session_of(number))

    def expire_session(self, number: int) -> None:
        """End the session of a node that does not answer, but lives."""
        if self.is_replicated:
            self._expire(self.ensemble.session_of(number))

    def _expire(self, session: int) -> None:
        if self.ensemble.model.is_live(session):
            self.ensemble.model.expire(session)
            self.ensemble.deliver()

    @property
    def processes(self) -> list[Process]:
        """All processes that there were."""
        of_nodes = [
            each for node in self.nodes.values() for each in [*node.past, *([node.process] if node.process else [])]
        ]
        return [*of_nodes, *self.clients]

    def fingerprint(self) -> str:
        """Return a hash of all that was sent, when, and of all files."""
        digest = self._digest.copy()
        for path in sorted(self.folder.rglob("*")):
            digest.update(str(path.relative_to(self.folder)).encode())
            if path.is_file():
                # Journals hold the folder of this run.
                digest.update(b"%d" % path.stat().st_size if path.suffix == ".journal" else path.read_bytes())
        return digest.hexdigest()

    def __enter__(self) -> Cluster:
        self._collects = gc.isenabled()
        # Objects of earlier worlds would run their finalizers in this one, and fill the memory: Python rarely collects
        # between two worlds.
        gc.collect()
        gc.disable()
        try:
            for node in self.nodes.values():
                node.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for node in self.nodes.values():
            node.disk.is_gone = True
        for process in self.processes:
            process.discard()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._collects:
            gc.enable()
