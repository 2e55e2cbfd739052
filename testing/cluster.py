"""A cluster of three brokers in this process, without ZooKeeper: one event loop in a thread, and a model of ZooKeeper.

    def test_a_failover(kafka_cluster):
        kafka_cluster.create_topic("orders", replication_factor=3)
        kafka_cluster.kill(kafka_cluster.leader("orders"))

The brokers are those of a real cluster: one of them is the controller, it elects leaders, and followers fetch.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ..broker.broker_thread import BrokerThread
from ..broker.configs.broker_config import BrokerConfig
from ..broker.coordination.partition_hash import partition_for
from ..broker.log_dirs.ephemeral import UnsyncedDisk
from ..broker.replication.metadata_cache import MetadataCache, PartitionView
from ..broker.server import Broker
from ..broker.topics.topic_names import INTERNAL_TOPICS, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ..client import TopicPartition
from ..storage.checkpoints import CLEAN_SHUTDOWN
from .controlled_kafka import ControlledKafka
from .errors import Unavailable
from .links import Links
from .security import keep_ports
from .zookeeper_session import Ensemble

R = TypeVar("R")
NODES = (1, 2, 3)
# The topics of the coordinators of groups and transactions.
_COORDINATORS = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
# How long a change of the cluster may take, on a machine that does much else.
_SETTLED_WITHIN_S = 60.0
_LOOK_AGAIN_S = 0.002
# As in production, a record that is acknowledged by acks=all survives the loss of one broker.
_CONFIGS = {
    "zookeeper.connect": "modelled:2181",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "replica.fetch.backoff.ms": "20",
    # A broker that stops is to be missed like one that has died.
    "controlled.shutdown.enable": "false",
    # A leader stays where the test has put it.
    "auto.leader.rebalance.enable": "false",
}


class KafkaCluster(ControlledKafka):
    """Three brokers, 1 to 3. `close` it at the end, or use it with `with`.

    `address` has all three. A topic has three replicas, and acks=all needs two of them, unless its configs say
    otherwise.
    """

    _usual = _CONFIGS

    def _prepare(self) -> None:
        super()._prepare()
        self._brokers: dict[int, Broker] = {}
        self._make_parts()

    def _make_parts(self) -> None:
        self._links = Links()
        # Made on the loop.
        self._ensemble: Ensemble | None = None
        # The listeners of each broker, which keeps its port.
        self._listeners: dict[int, str] = {}
        self._thread = BrokerThread(self._start_all, self._stop_all)

    def _start(self) -> None:
        self._make_parts()
        self._door.forget_loop()
        self._thread.start()
        brokers = [broker.addresses for _, broker in sorted(self._brokers.items())]
        self.address = ",".join(each[0] for each in brokers)
        self._kit_address = ",".join(each[-1] for each in brokers)

    def _stop(self) -> None:
        self._thread.stop()

    def _set_passwords(self) -> None:
        super()._set_passwords()
        self._settle(self._knows_users, "a cluster that knows its users")

    def broker(self, node: int) -> Broker:
        """Return a broker that runs. Only its thread may use more than its address and ids."""
        if node not in self._brokers:
            why = "does not run: call restart" if node in NODES else f"is none of {NODES}"
            raise Unavailable(f"broker {node} {why}")
        return self._brokers[node]

    # -- What there is

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int | None = None,
        config: Mapping[str, object] | None = None,
    ) -> str:
        """Create a topic, and return its name when each broker that the controller reaches knows its leaders."""
        super().create_topic(name, partitions, replication_factor=replication_factor, config=config)
        self._settle(lambda: self._all_know(name), f"a topic {name!r} that all brokers know")
        return name

    @property
    def _node_ids(self) -> Sequence[int]:
        return NODES

    @property
    def nodes(self) -> list[int]:
        """The numbers of the brokers that run."""
        return sorted(self._brokers)

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the number of the broker that leads a partition; -1 while there is none."""
        return self._partition(topic, partition).leader

    def isr(self, topic: str, partition: int = 0) -> set[int]:
        """Return the in-sync replicas of a partition."""
        return set(self._partition(topic, partition).isr)

    def replicas(self, topic: str, partition: int = 0) -> list[int]:
        """Return the replicas of a partition, the preferred leader first."""
        return list(self._partition(topic, partition).replicas)

    def coordinator(self, group: str | None = None, *, transactional_id: str | None = None) -> int:
        """Return the number of the broker that coordinates a group or a transactional id."""
        return self.leader(*self._coordinated(group, transactional_id))

    def wait_for_isr(self, topic: str, partition: int = 0, *, isr: Sequence[int], within: float = 30) -> None:
        """Wait until the in-sync replicas are these. `within` is in seconds; the failure says which they are."""
        what = f"the ISR {sorted(isr)} of {topic}-{partition}"
        self._settle(lambda: self._all_say(topic, partition, lambda found: set(found.isr) == set(isr)), what, within)

    # -- Leaders and coordinators

    def move_leader(self, topic: str, partition: int = 0, *, to: int) -> None:
        """Make another in-sync replica the leader: it becomes the preferred one, and is elected."""
        found = self._partition(topic, partition)
        if to not in found.isr:
            raise Unavailable(f"broker {to} is not in sync for {topic}-{partition}: the ISR is {sorted(found.isr)}")
        place = TopicPartition(topic, partition)
        replicas = [to, *(each for each in found.replicas if each != to)]
        self._admin.alter_partition_reassignments({place: replicas})
        what = f"a leader {to} of {topic}-{partition}"
        self._settle(lambda: self._all_say(topic, partition, lambda each: each.replicas[0] == to), what)
        if self.leader(topic, partition) != to:
            self._admin.elect_leaders([place])
        self._settle(lambda: self._all_say(topic, partition, lambda each: each.leader == to), what)

    def move_coordinator(self, group: str | None = None, *, transactional_id: str | None = None, to: int) -> None:
        """Make another broker the coordinator of a group or a transactional id."""
        topic, partition = self._coordinated(group, transactional_id)
        self.move_leader(topic, partition, to=to)

    # -- Failures

    def kill(self, node: int) -> None:
        """End a broker: its connections are cut, and the others elect leaders without it. Its files stay."""
        self._take_away(node, self._kill)

    def isolate(self, node: int) -> None:
        """Cut a broker off from the others and from ZooKeeper. Clients still reach it.

        It does not know that it leads nothing any more; the others elect leaders without it.
        """
        self._take_away(node, self._isolate)

    def _take_away(self, node: int, work: Callable[[int], Coroutine[Any, Any, None]]) -> None:
        self.broker(node)
        self._make_coordinators()
        self._call(partial(work, node))
        self._settle(lambda: self._misses(node), f"a cluster without broker {node}")

    def hold_back(self, node: int) -> None:
        """Let the replicas of a broker get no records.

        They leave the ISR when they have been behind for replica.lag.time.max.ms: `advance(seconds=31)`.
        """
        self.broker(node)
        self._call(partial(self._hold_back, node))

    def heal(self, node: int | None = None) -> None:
        """End `isolate` and `hold_back` of a broker, or of all, and wait until its replicas are in sync."""
        self._call(partial(self._heal, node))
        self._settle(self._is_whole, "a cluster whose replicas are in sync")

    def restart(self, node: int) -> None:
        """Start a broker again on its port and its files; one that runs stops first. Wait until it is in sync."""
        if node not in NODES:
            self.broker(node)
        self._call(partial(self._restart, node))
        self._settle(self._is_whole, "a cluster whose replicas are in sync")

    def _make_coordinators(self) -> None:
        """Create the topics of the coordinators, if all brokers run.

        A cluster that has served for a while has them. Without one of three brokers they can no more be created, and
        the first group of a client would wait for its coordinator for ever.
        """
        if self.nodes == list(NODES) and not self._links.isolated:
            self._call(self._create_coordinators)
            self._settle(self._has_coordinators, "a cluster with coordinators")

    # -- On the loop

    async def _create_coordinators(self) -> None:
        cluster = self._brokers[NODES[0]].services.cluster
        assert cluster is not None
        for topic in _COORDINATORS:
            if topic not in self._views()[0].topics:
                cluster.auto_creation.begin(topic)

    def _has_coordinators(self) -> bool:
        return all(topic in view.topics for view in self._views() for topic in _COORDINATORS) and self._is_whole()

    async def _start_all(self) -> None:
        self._ensemble = Ensemble()
        try:
            async with asyncio.TaskGroup() as starts:
                for node in NODES:
                    starts.create_task(self._start_one(node))
        except BaseException:
            await self._stop_all()
            raise

    async def _stop_all(self) -> None:
        await asyncio.gather(*(each.stop() for each in self._brokers.values()))
        self._brokers.clear()

    async def _start_one(self, node: int) -> None:
        assert self._ensemble is not None
        own = {"broker.id": str(node), "node.id": str(node), "log.dirs": str(self._data_dir(node))}
        listeners = self._listeners.get(node, self._configs["listeners"])
        config, _ = BrokerConfig.parse({**self._configs, **own, "listeners": listeners}, strict=True)
        broker = Broker(
            config,
            clock=self._clock,
            disk=UnsyncedDisk(),
            door=partial(self._links.between, node, partial(self._door.between, node=node)),
            open_session=self._ensemble.opener(node),
        )
        await broker.start()
        self._listeners[node] = keep_ports(listeners, broker.addresses)
        self._brokers[node] = broker

    async def _kill(self, node: int) -> None:
        broker = self._brokers.pop(node)
        self._links.isolated.add(node)
        self._links.cut(node)
        for processor in broker.acceptor.processors:
            for each in list(processor.connections):
                each.abort()
        await broker.stop()
        self._links.isolated.discard(node)
        # A broker that has died leaves no such marker.
        (self._data_dir(node) / CLEAN_SHUTDOWN).unlink(missing_ok=True)

    async def _isolate(self, node: int) -> None:
        assert self._ensemble is not None
        if node not in self._links.isolated:
            self._links.isolated.add(node)
            self._links.cut(node)
            self._ensemble.isolate(node)

    async def _hold_back(self, node: int) -> None:
        self._links.held_back.add(node)
        self._links.cut(node)

    async def _heal(self, node: int | None) -> None:
        assert self._ensemble is not None
        healed = set(NODES) if node is None else {node}
        for each in self._links.isolated & healed:
            self._links.isolated.discard(each)
            self._ensemble.heal(each)
        self._links.held_back -= healed

    async def _restart(self, node: int) -> None:
        if node in self._brokers:
            await self._brokers.pop(node).stop()
        self._links.isolated.discard(node)
        self._links.held_back.discard(node)
        await self._start_one(node)

    def _data_dir(self, node: int) -> Path:
        return Path(self._configs["log.dirs"]) / str(node)

    def _call(self, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
        return self._thread.call(work)

    def _on_loop(self, work: Callable[[Sequence[Broker]], Coroutine[Any, Any, R]]) -> R:
        return self._call(lambda: work(list(self._brokers.values())))

    # -- What the controller has told the brokers. On the loop, but for `_partition` and `_settle`.

    def _partition(self, topic: str, partition: int) -> PartitionView:
        """Return what the controller says of a partition."""

        async def find() -> PartitionView | None:
            return next((found for each in self._views() if (found := each.partition(topic, partition))), None)

        found = self._call(find)
        if found is None:
            if topic not in INTERNAL_TOPICS:
                self._check_topic(topic)
            raise Unavailable(f"topic {topic!r} has no partition {partition}")
        return found

    def _coordinated(self, group: str | None, transactional_id: str | None) -> tuple[str, int]:
        """Return the partition whose leader is the coordinator."""
        if (group is None) == (transactional_id is None):
            raise Unavailable("name a group or a transactional_id")
        topic = OFFSETS_TOPIC if group is not None else TRANSACTIONS_TOPIC

        async def count() -> int:
            return next((len(each.topics[topic].partitions) for each in self._views() if topic in each.topics), 0)

        partitions = self._call(count)
        if not partitions:
            raise Unavailable(f"there is no coordinator before a client has asked for one: {topic} does not exist yet")
        return topic, partition_for(str(group if group is not None else transactional_id), partitions)

    def _views(self) -> list[MetadataCache]:
        """Return what each broker was told that the controller reaches."""
        told = [each for node, each in self._brokers.items() if node not in self._links.isolated]
        return [each.services.replicas.view for each in told if each.services.replicas is not None]

    def _all_know(self, topic: str) -> bool:
        """Tell whether every broker was told of a topic, and of a leader for each of its partitions."""
        found = [view.topics.get(topic) for view in self._views()]
        return all(each is not None and all(one.leader >= 0 for one in each.partitions.values()) for each in found)

    def _all_say(self, topic: str, partition: int, holds: Callable[[PartitionView], bool]) -> bool:
        """Tell whether every broker was told so of a partition."""
        found = [each.partition(topic, partition) for each in self._views()]
        return all(each is not None and holds(each) for each in found)

    def _partitions(self) -> list[PartitionView]:
        topics = [topic for view in self._views() for topic in view.topics.values()]
        return [each for topic in topics for each in topic.partitions.values()]

    def _knows_users(self) -> bool:
        """Tell whether every broker knows the passwords."""
        known = [each.services.security.passwords.keys() for each in self._brokers.values()]
        return all(self._security.users.keys() <= each for each in known)

    def _is_whole(self) -> bool:
        """Tell whether every replica that gets records is in sync, and every partition has a leader."""
        absent = set(NODES) - self._brokers.keys() | self._links.isolated | self._links.held_back
        return all(each.leader > 0 and set(each.replicas) - absent <= set(each.isr) for each in self._partitions())

    def _misses(self, node: int) -> bool:
        """Tell whether the other brokers know that a node is gone, and leads nothing."""
        is_gone = all(node not in view.brokers for view in self._views())
        return is_gone and all(each.leader != node for each in self._partitions())

    def _settle(self, holds: Callable[[], bool], what: str, within: float = _SETTLED_WITHIN_S) -> None:
        """Wait until something holds. The failure says what is there instead."""

        async def wait() -> str | None:
            deadline_s = time.monotonic() + within
            while not holds():
                if time.monotonic() > deadline_s:
                    return self._described()
                await asyncio.sleep(_LOOK_AGAIN_S)
            return None

        found = self._call(wait)
        if found is not None:
            raise AssertionError(f"after {within:g} s there is not {what}: {found}")

    def _described(self) -> str:
        """Return who leads what, as one broker was told."""
        lines = [
            f"{topic.name}-{number} leader {each.leader} isr {list(each.isr)}"
            for view in self._views()[:1]
            for topic in view.topics.values()
            for number, each in topic.partitions.items()
        ]
        return f"brokers {sorted(self._brokers)} run; {', '.join(lines) or 'no topic'}"

    def _topic_of(self, topic_id: bytes) -> str | None:
        topics = [topic for view in self._views() for topic in view.topics.values()]
        return next((each.name for each in topics if each.id == topic_id), None)


# For unittest, notebooks and scripts. It ends with its `with` block, at `close`, or with the program.
kafka_cluster = KafkaCluster
