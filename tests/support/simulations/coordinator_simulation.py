"""Coordinators on simulated replicas, by seed: the leader of the one partition coordinates groups and a producer.

The group coordinator, the transaction coordinator, their shards and the moves between brokers are the real ones; their
log is the replicated log of replica_simulation.py, with its crashes, moves of the leader and lost messages. Clients are
two members of a group that commit offsets, the leader of a partition of a share group, and a producer that commits
offsets and records in transactions. `check` holds after every event:

- the coordinator in charge has every committed offset that a client was told of, in a transaction or not;
- it has in the share state every record of which the leader was told that its acceptance is written;
- a member that was told its assignment keeps it: no move of the coordinator costs it its membership.

At the end the group is stable, and every transaction is whole: its two data partitions agree with what the producer
was told. Each broker has a clock of its own, ahead of the others or behind. `bug` plants a mistake.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from odradek.broker.coordination.groups.coordinator import GroupCoordinator
from odradek.broker.coordination.replay import Ended, Written
from odradek.broker.coordination.share_states.coordinator import ShareCoordinator, key_text
from odradek.broker.coordination.transactions.coordinator import TransactionCoordinator
from odradek.broker.coordination.transactions.markers import TransactionEnd
from odradek.broker.replication.coordinator_moves import CoordinatorMoves
from odradek.broker.replication.leadership import Role
from odradek.broker.topics.topic_names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.tests.support.fakes.memory_persister import MemoryPersister
from odradek.tests.support.simulations import simulated_clients as clients
from odradek.tests.support.simulations.replica_simulation import STEPS, Node, Simulation
from odradek.tests.support.simulations.simulated_partition import DataPartitions

BUGS = (
    "answer before the ISR has it",
    "do not load",
    "load up to the high watermark",
    "keep what was loaded before",
    "tell transactions apart by clocks",
)
START_MS = 1_700_000_000_000
# How far the clocks of brokers are ahead.
SKEWS_MS = (0, 300, 3_600_000, -300, -3_600_000)
CALM_MS = 4_000

_quiet = logging.getLogger("odradek.tests.simulation")
_quiet.disabled = True
for _name in ("broker.replication.coordinator_moves", "broker.coordination.groups.coordinator"):
    logging.getLogger(f"odradek.{_name}").setLevel(logging.ERROR)


class Place(NamedTuple):
    """What the moves of a coordinator need of a partition."""

    topic: str
    index: int = 0


class Timer:
    """A timer in virtual time. It rings only in the life of the broker that has set it."""

    def __init__(self) -> None:
        self.is_live = True

    def cancel(self) -> None:
        self.is_live = False


class SimulatedLog:
    """One internal topic on one broker: the replicated log, of which only entries of `topic` are its own."""

    def __init__(self, simulation: CoordinatorSimulation, node: Node, topic: str) -> None:
        self._simulation = simulation
        self._node = node
        self._topic = topic

    def partition_count(self) -> int:
        return 1

    def ensure_topic(self) -> None:
        """It is there."""

    def coordinator_epoch(self, _: int) -> int:
        assert self._node.role is not None
        return self._node.role.leader_epoch

    def append(
        self,
        partition: int,
        records: list[tuple[bytes, bytes | None]],
        on_committed: Callable[[KafkaError | None], None],
        producer: tuple[int, int] | None = None,
        durable_after: Sequence[object] | None = None,
    ) -> None:
        producer_id = -1 if producer is None else producer[0]
        entries = [Written(key, value, producer_id) for key, value in records]
        self._simulation.append(self._node, self._topic, entries, on_committed)

    def end_offset(self, _: int) -> int:
        return self._node.end

    def delete_before(self, partition: int, offset: int) -> None:
        """Keep everything."""

    def entries(self, _: int) -> Iterator[Written | Ended]:
        bug = self._simulation.bug
        if bug == "do not load":
            return
        end = self._node.high_watermark if bug == "load up to the high watermark" else self._node.end
        for _, (topic, entries) in self._node.log[:end]:  # type: ignore[misc]
            if topic == self._topic:
                yield from entries


class Configs:
    """The configs of both coordinators."""

    group_min_session_timeout_ms = 1
    group_max_session_timeout_ms = 1_000_000
    group_initial_rebalance_delay_ms = 0
    group_max_size = 100
    group_consumer_session_timeout_ms = 45_000
    group_consumer_heartbeat_interval_ms = 5000
    group_consumer_assignment_interval_ms = 1000
    group_consumer_min_session_timeout_ms = 1
    group_consumer_max_session_timeout_ms = 60_000
    group_consumer_min_heartbeat_interval_ms = 1
    group_consumer_max_heartbeat_interval_ms = 15_000
    group_consumer_min_assignment_interval_ms = 0
    group_consumer_max_assignment_interval_ms = 15_000
    group_consumer_max_size = 100
    group_consumer_assignors = ("uniform", "range")
    group_consumer_migration_policy = "bidirectional"
    group_coordinator_rebalance_protocols = ("classic", "consumer")
    share_coordinator_snapshot_update_records_per_snapshot = 5
    share_coordinator_state_topic_prune_interval_ms = 300_000
    share_coordinator_cold_partition_snapshot_interval_ms = 300_000
    group_share_session_timeout_ms = 45_000
    group_share_min_session_timeout_ms = 1
    group_share_max_session_timeout_ms = 60_000
    group_share_heartbeat_interval_ms = 5000
    group_share_min_heartbeat_interval_ms = 1
    group_share_max_heartbeat_interval_ms = 15_000
    group_share_assignment_interval_ms = 1000
    group_share_min_assignment_interval_ms = 0
    group_share_max_assignment_interval_ms = 15_000
    group_share_assignors = ("simple",)
    group_share_max_size = 200
    offset_metadata_max_bytes = 100
    offsets_retention_minutes = 10_000
    offsets_retention_check_interval_ms = 10_000_000
    transaction_max_timeout_ms = 1_000_000
    add_partitions_to_txn_retry_backoff_max_ms = 20
    transactional_id_expiration_ms = 100_000_000
    transaction_abort_timed_out_transaction_cleanup_interval_ms = 10_000_000
    transaction_remove_expired_transaction_cleanup_interval_ms = 10_000_000


class Topics:
    """Every topic exists, without an id."""

    def get(self, name: str) -> Any:
        return FoundTopic(name)

    def by_id(self, _: bytes) -> None:
        return None


class SharedTopics(Topics):
    """The topic that the share group reads is there."""

    def by_id(self, _: bytes) -> Any:
        return FoundTopic("shared")


class FoundTopic(NamedTuple):
    """A topic of ten partitions."""

    name: str
    id: bytes = bytes(16)
    partition_count: int = 10

    def partition(self, index: int) -> object:
        return Place(self.name, index)


class Coordinators:
    """Both coordinators of one life of a broker."""

    def __init__(self, simulation: CoordinatorSimulation, node: Node) -> None:
        self._simulation = simulation
        self._node = node
        self.is_alive = True
        config, topics = Configs(), Topics()
        self.groups = GroupCoordinator(
            config,
            SimulatedLog(simulation, node, OFFSETS_TOPIC),
            self,
            self,
            topics,
            MemoryPersister(),
            _quiet,
            simulation.new_member_id,
        )
        self.transactions = TransactionCoordinator(
            config,
            SimulatedLog(simulation, node, TRANSACTIONS_TOPIC),
            self,
            self,
            topics,
            lambda _: 0,
            simulation.new_producer_id,
            self._write_marker,
            lambda _: False,
            _quiet,
        )
        states_log = SimulatedLog(simulation, node, SHARE_STATE_TOPIC)
        self.share_states = ShareCoordinator(config, states_log, self, self, SharedTopics(), _quiet)
        self.moves = CoordinatorMoves(self.groups, self.transactions, self.share_states)

    # -- The clock and the timers

    def now_ms(self) -> int:
        return self._simulation.clock_of(self._node.id)

    def monotonic_ms(self) -> int:
        return self._simulation.now_ms

    def at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        timer = Timer()

        def ring() -> None:
            if timer.is_live and self.is_alive:
                callback()

        self._simulation.later(max(deadline_ms - self._simulation.now_ms, 0), ring)
        return timer

    # -- Roles

    def begun(self) -> None:
        for topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC):
            self.moves.begun(Place(topic))  # type: ignore[arg-type]

    def ended(self) -> None:
        if self._simulation.bug != "keep what was loaded before":
            for topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC):
                self.moves.ended(Place(topic))  # type: ignore[arg-type]

    # -- Markers

    def _write_marker(self, topic: str, index: int, end: TransactionEnd, /) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: KafkaError | None) -> None:
            if not future.done() and self.is_alive:
                future.set_exception(error) if error is not None else future.set_result(None)

        self._simulation.mark(self._node, topic, index, end, done)
        return future


class CoordinatorSimulation(Simulation):
    """Replicas, their coordinators, and clients. `play` runs it in an event loop, whose turns are part of the game."""

    def __init__(self, seed: int, bug: str = "", nodes: int = 3, min_isr: int = 1) -> None:
        self._ids = 0
        self.coordinators: dict[int, Coordinators] = {}
        super().__init__(seed, bug, nodes, min_isr)
        self._skews_ms = dict(zip(self.nodes, random.Random(seed).choices(SKEWS_MS, k=nodes), strict=True))
        self.data = DataPartitions(self.clock_of, by_clocks=bug == "tell transactions apart by clocks")
        self.members = [clients.Member(self, number) for number in range(2)]
        self.producer = clients.TransactionalProducer(self, "x", 0, commits_offsets=True)
        # They have short transactions, so that many end while a coordinator moves.
        self.quick_producers = [
            clients.TransactionalProducer(self, name, 1_000 * number, commits_offsets=False)
            for number, name in enumerate("yz", 1)
        ]
        self.share_leader = clients.ShareLeader(self)
        # Topic partition -> the highest offset of which a client was told that it is committed.
        self.told: dict[tuple[str, int], int] = {}
        self.moves = 0

    async def play(self) -> None:
        """Let faults and messages come by chance, then let the network be calm, and see that all is whole."""
        for _ in range(4 * STEPS):
            await self._turn()
        self._calm_down()
        for each in (self.producer, *self.quick_producers):
            each.is_over = True
        deadline_ms = self.now_ms + CALM_MS
        while self.now_ms < deadline_ms:
            await self._turn()
        self._check_end()

    async def _turn(self) -> None:
        self.step()
        for _ in range(self.chance.randint(1, 4)):
            await asyncio.sleep(0)
        self._check_coordinator()

    # -- Parts that the clients use

    def later(self, delay_ms: int, event: Callable[[], None]) -> None:
        """Do something later."""
        self._later(delay_ms, event)

    def new_member_id(self, prefix: str) -> str:
        """Return a member id that no other member has."""
        self._ids += 1
        return f"{prefix}-{self._ids}"

    def new_producer_id(self) -> int:
        """Return the next producer id."""
        self._ids += 1
        return self._ids

    def find_coordinator(self) -> Node | None:
        """Return the leader as a broker that lives knows it, None while it knows none."""
        alive = [node for node in self.nodes.values() if node.alive and node.role is not None]
        role = self.chance.choice(alive).role if alive else None
        return self.nodes.get(role.leader) if role is not None else None

    def request(self, node: Node, handle: Callable[[Coordinators], Any], answer: Callable[[Any], None]) -> None:
        """Have a broker handle a request, and its client the response, unless either is lost."""

        coordinators = self.coordinators.get(node.id)

        def arrive() -> None:
            # A connection does not outlive the broker's process.
            if coordinators is None or not coordinators.is_alive:
                return
            found = handle(coordinators)
            if isinstance(found, asyncio.Future):
                found.add_done_callback(lambda done: self._respond(coordinators, done.result(), answer))
            else:
                self._respond(coordinators, found, answer)

        self._send(arrive, node, most=1)

    def _respond(self, coordinators: Coordinators, response: Any, answer: Callable[[Any], None]) -> None:
        if coordinators.is_alive:
            self._send(lambda: answer(response), most=1)

    def clock_of(self, node: int) -> int:
        """Return what a broker takes for the time."""
        return START_MS + self.now_ms + self._skews_ms[node]

    def mark(
        self, sender: Node, topic: str, index: int, end: TransactionEnd, done: Callable[[KafkaError | None], None]
    ) -> None:
        """Write a marker: into a data partition, or into the replicated log if it is that of the group's offsets."""

        def written(writing: asyncio.Task[None]) -> None:
            error: Any = writing.exception()
            self._send(lambda: done(error), most=1)

        def arrive(end: TransactionEnd) -> None:
            asyncio.ensure_future(self.data.mark(index, end)).add_done_callback(written)

        if topic != OFFSETS_TOPIC:
            partition = self.data.all[index]
            # Often the coordinator itself leads: then alone it knows that a start has found the decision.
            partition.leader = self.chance.choice((partition.leader, sender.id, sender.id, *self.nodes))
            if partition.leader == sender.id:
                arrive(end)
            else:
                # What crosses the wire. Many markers are lost: until the next attempt the coordinator moves.
                told = TransactionEnd(*end[:5])
                if self._is_calm or self.chance.random() < 0.6:
                    self._send(lambda: arrive(told), most=1)
            self.later(100, lambda: done(KafkaError(ErrorCode.NETWORK_EXCEPTION, "no response")))
            return
        node = self.nodes.get(self.state.leader)
        coordinators = self.coordinators.get(self.state.leader)
        if node is None or coordinators is None or 0 in coordinators.groups.shards.loading:
            self.later(1, lambda: done(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no coordinator")))
            return

        def committed(error: KafkaError | None) -> None:
            if error is None:
                coordinators.groups.end_transaction(0, end.producer_id, end.commit)
            done(error)

        self.append(node, OFFSETS_TOPIC, [Ended(end.producer_id, end.commit)], committed)

    def note_committed(self, place: tuple[str, int], offset: int) -> None:
        """Note that a client was told that an offset is committed."""
        self.told[place] = max(self.told.get(place, -1), offset)

    # -- The log

    def append(
        self, node: Node, topic: str, entries: list[Any], on_committed: Callable[[KafkaError | None], None]
    ) -> None:
        """Append as a leader; `on_committed` is called once the ISR has it, or when the leader is another."""
        leadership = node.leadership
        if leadership is None:
            on_committed(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads"))
            return
        if leadership.is_under_min_isr:
            on_committed(KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "the ISR is too small"))
            return
        if not node.has_room:
            on_committed(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full"))
            return
        node.append(leadership.role.leader_epoch, (topic, entries))  # type: ignore[arg-type]
        node.high_watermark = leadership.appended(node.end)
        if self.bug == "answer before the ISR has it":
            on_committed(None)
            return
        node.waiting[node.end - 1] = on_committed  # type: ignore[assignment]
        self.later(0, lambda: self._acknowledge(node))

    def _acknowledge(self, node: Node) -> None:
        for offset in sorted(each for each in node.waiting if each < node.high_watermark):
            done: Any = node.waiting.pop(offset, None)
            if done is not None:
                self._commit(node, offset + 1)
                done(None)

    def _produce(self) -> None:
        """The clients have their own time."""

    # -- Roles

    def _assume(self, node: Node, role: Role) -> None:
        before, waiting = node.leadership, dict(node.waiting)
        super()._assume(node, role)
        coordinators = self.coordinators.get(node.id)
        if coordinators is None:
            coordinators = self.coordinators[node.id] = Coordinators(self, node)
        if node.leadership is not None and node.leadership is not before:
            self.moves += before is None
            coordinators.begun()
        elif before is not None and node.leadership is None:
            coordinators.ended()
            self._fail(coordinators, waiting)

    def _fail(self, coordinators: Coordinators, waiting: dict[int, Any]) -> None:
        def fail(done: Callable[[KafkaError | None], None]) -> None:
            if coordinators.is_alive:
                done(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads by now"))

        for done in waiting.values():
            self.later(0, lambda done=done: fail(done))

    def _crash_or_restart(self) -> None:
        super()._crash_or_restart()
        for number, node in self.nodes.items():
            if not node.alive and number in self.coordinators:
                self.coordinators.pop(number).is_alive = False

    # -- The promises

    def in_charge(self) -> Coordinators | None:
        """Return the coordinators of the broker that leads, once they have loaded everything."""
        node = self.nodes.get(self.state.leader)
        if node is None or not node.alive or node.leadership is None or node.role is None:
            return None
        found = self.coordinators[node.id]
        is_current = node.role.leader_epoch == self.state.leader_epoch
        return found if is_current and 0 in found.groups.shards.owned else None

    def _check_coordinator(self) -> None:
        found = self.in_charge()
        if found is None:
            return
        group = found.groups.groups.get("g")
        offsets = None if group is None else group.state.offsets
        for place, told in self.told.items():
            kept = None if offsets is None else offsets.get(*place)
            has = -1 if kept is None else kept.offset
            self._require(has >= told, f"{place} has the committed offset {has}, and a client was told {told}")
        if 0 in found.share_states.shards.owned:
            actor = found.share_states.shards.actors.get(key_text(self.share_leader.KEY))
            lacking = self.share_leader.lacks(None if actor is None else actor.state.current)
            self._require(not lacking, f"{sorted(lacking)} were accepted, and the share state does not have them")
        for member in self.members:
            self._require(not member.lost, f"{member} has lost its membership: {member.lost}")

    def _check_end(self) -> None:
        found = self.in_charge()
        self._require(found is not None, "nobody coordinates in the end")
        given = sorted(index for member in self.members for index in member.assignment or ())
        generations = {member.generation for member in self.members}
        self._require(given == [0, 1] and len(generations) == 1, f"the members have {given} in {generations}")
        for partition in self.data.all:
            self._require(not partition.is_open, f"partition {partition.index} has an open transaction in the end")
        one, other = (partition.ended for partition in self.data.all)
        for number in one.keys() | other.keys():
            same = one.get(number) == other.get(number)
            self._require(same, f"transaction {number} is {one.get(number)} and {other.get(number)}")
        for producer in (self.producer, *self.quick_producers):
            for number, committed in producer.told.items():
                outcome = one.get(number, False)
                self._require(outcome == committed, f"a producer was told {committed} of transaction {number}")
                if committed and producer is self.producer:
                    self.note_committed(("input", 0), number)
        self._check_coordinator()
