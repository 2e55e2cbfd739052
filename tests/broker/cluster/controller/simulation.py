"""A cluster of controllers in one thread: brokers that crash, sessions that expire, controllers that sleep, by seed.

Each broker has a session with a model of ZooKeeper and a controller machine that runs when it is elected. One operation
on ZooKeeper is one turn, and the seed decides whose turn it is. Messages to brokers arrive later, in order for each
pair of brokers, or never where one of the two is dead.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from odradek.broker.cluster.controller.candidacy import Won, is_elected, stand
from odradek.broker.cluster.controller.controller import event_of, subject_of
from odradek.broker.cluster.controller.machine import ControllerMachine
from odradek.broker.cluster.controller.outbox import (
    BecomeLeaderOrFollower,
    Message,
    PartitionUpdate,
    StopReplicas,
    TellMetadata,
    pieces_of,
)
from odradek.broker.cluster.controller.topic_changes import add_partitions, place
from odradek.broker.cluster.znodes import (
    CONTROLLER,
    CONTROLLER_EPOCH,
    ISR_CHANGES,
    LOG_DIR_EVENT_PREFIX,
    LOG_DIR_EVENTS,
    PREFERRED_REPLICA_ELECTION,
    REASSIGN_PARTITIONS,
    TOPICS,
    Assignment,
    LeaderAndIsr,
    Registration,
    Replicas,
    TopicPartition,
    broker_path,
    decode_assignment,
    decode_state,
    delete_topic_path,
    encode_assignment,
    encode_log_dir_event,
    encode_reassignment,
    encode_registration,
    state_path,
    topic_path,
)
from odradek.protocol.errors import KafkaError
from odradek.testing.zookeeper import FakeZookeeper
from odradek.tests.broker.cluster.controller.node import Node
from odradek.tests.broker.cluster.controller.nonsense import NONSENSE
from odradek.zookeeper.operations import Check, Create, Fenced, SessionExpired, Steps, WriteAll

# What people and tools write to ask the controller for something.
ASKED_BY_HAND = (REASSIGN_PARTITIONS, PREFERRED_REPLICA_ELECTION)
# A topic whose assignment nobody can read.
SCRAWL = "scrawl"

# How many of the things that brokers are told go wrong there.
FAILURES = 0.02
# Partitions in a request, of which a broker takes no more, and the values that one has at least.
MAX_PARTITIONS, VALUES_OF_A_PARTITION = 5, 4

MachineFactory = Callable[[int, int], ControllerMachine]


class Simulation:
    """The cluster. `turn` does one thing that the seed chooses; `settle` lets everything come to rest."""

    def __init__(
        self,
        seed: int,
        brokers: int = 4,
        new_machine: MachineFactory = ControllerMachine,
        *,
        is_fenced: bool = True,
        keeps_watches: bool = True,
        pieces_of: Callable[[Message, int], Iterable[Message]] = pieces_of,
    ) -> None:
        self.random = random.Random(seed)
        self.zookeeper = FakeZookeeper()
        self.nodes = {each: Node(each) for each in range(1, brokers + 1)}
        # (controller, broker) -> controller epoch, broker epoch and message of each request on its way.
        self.wires: dict[tuple[int, int], deque[tuple[int, int, Message]]] = {}
        self._new_machine = new_machine
        self._is_fenced = is_fenced
        self._keeps_watches = keeps_watches
        self._pieces_of = pieces_of
        self._failures = FAILURES
        self._topics = 0
        self._scribbles = 0
        self._looked_at = 0
        self._known: dict[TopicPartition, LeaderAndIsr] = {}
        for node in self.nodes.values():
            self._register(node)

    # -- What happens from outside

    def create_topic(self) -> None:
        """Make a topic, as the broker that serves CreateTopics does."""
        self._topics += 1
        factor = self.random.randint(1, 3)
        racks = dict.fromkeys(self.nodes)
        spread = place(racks, self.random.randint(1, 3), factor, self.random.randrange(9), self.random.randrange(9))
        assignment = Assignment(self._topics.to_bytes(16), {index: Replicas(to) for index, to in spread.items()})
        self.zookeeper.make(topic_path(f"t{self._topics}"), encode_assignment(assignment))

    def delete_topic(self) -> None:
        """Ask for the deletion of a topic."""
        topics = self.zookeeper.children_of("/brokers/topics")
        if topics:
            self.zookeeper.make(delete_topic_path(self.random.choice(topics)))

    def reassign(self) -> None:
        """Ask for other replicas of a partition, by the znode or by the request, or that none of them changes."""
        places = list(self._known)
        if not places:
            return
        where = self.random.choice(places)
        target = tuple(self.random.sample(sorted(self.nodes), self.random.randint(1, 3)))
        if self.random.random() < 0.5:
            if self.zookeeper.get(REASSIGN_PARTITIONS) is None:
                self.zookeeper.make(REASSIGN_PARTITIONS, encode_reassignment({where: target}))
            return
        wanted = target if len(target) > 1 else None
        self._ask(lambda machine: machine.reassign({where: wanted}))

    def grow(self) -> None:
        """Give a topic another partition, by the request or, as tools before Kafka 2.2 do, in its znode."""
        topics = sorted({each.topic for each in self._known})
        if not topics:
            return
        topic = self.random.choice(topics)
        if self.random.random() < 0.5:

            def event(machine: ControllerMachine) -> Steps[None]:
                count = len(machine.cluster.partitions_of(topic)) + 1
                return add_partitions(machine, topic, count, None, validate_only=False)

            self._ask(event)
            return
        data = self.zookeeper.get(topic_path(topic))
        if data is not None:
            known = decode_assignment(topic, data)
            more = {len(known.partitions): Replicas(tuple(self.random.sample(sorted(self.nodes), 2)))}
            grown = Assignment(known.topic_id, known.partitions | more)
            self.zookeeper.put_by_hand(topic_path(topic), encode_assignment(grown))

    def scribble(self) -> None:
        """Write something into ZooKeeper that makes no sense, where people and tools write."""
        self._scribbles += 1
        notices = f"{ISR_CHANGES}/isr_change_{self._scribbles}", f"{LOG_DIR_EVENTS}/log_dir_event_{self._scribbles}"
        path = self.random.choice((*ASKED_BY_HAND, *notices, topic_path(SCRAWL)))
        if self.zookeeper.get(path) is None:
            self.zookeeper.make(path, self.random.choice(NONSENSE))

    def kill(self) -> None:
        """Kill a broker; its session expires now."""
        node = self._some(is_alive=True)
        if node is not None:
            self._kill(node)

    def _kill(self, node: Node) -> None:
        if node.is_alive:
            self._forget(node)
            node.is_alive = False
            self.zookeeper.expire(node.session)

    def start(self) -> None:
        """Start a dead broker again."""
        node = self._some(is_alive=False)
        if node is not None:
            node.is_alive, node.is_paused = True, False
            node.offline.clear()
            self._register(node)

    def fail_disk(self) -> None:
        """Let the disk of a replica fail. Its broker says so, if it has a session."""
        node = self._some(is_alive=True)
        if node is not None and node.roles:
            node.offline.add(self.random.choice(sorted(node.roles)))
            self._notify(node)

    def fill_disk(self) -> None:
        """Let the disk of a broker be full, or have room again. It says so of either, if it has a session."""
        node = self._some(is_alive=True)
        if node is not None:
            node.is_full = not node.is_full
            self._notify(node)

    def _notify(self, node: Node) -> None:
        if self.zookeeper.is_live(node.session):
            notice = Create(LOG_DIR_EVENT_PREFIX, encode_log_dir_event(node.broker_id), is_sequential=True)
            self.zookeeper.run(node.session, _write(notice))

    def mend_disks(self) -> None:
        """Start every broker again that has a replica without a disk, and make room on every disk."""
        self._failures = 0
        for node in self.nodes.values():
            if node.is_full:
                node.is_full = False
                self._notify(node)
        for node in [each for each in self.nodes.values() if each.offline]:
            self._kill(node)

    def expire(self) -> None:
        """Expire the session of a living broker, which learns of it with its next request and registers again."""
        node = self._some(is_alive=True)
        if node is not None:
            self.zookeeper.expire(node.session)

    def lose_connection(self) -> None:
        """Cut a broker off from ZooKeeper for less than a session."""
        node = self._some(is_alive=True)
        if node is not None and self.zookeeper.is_live(node.session):
            self.zookeeper.lose_connection(node.session, is_told=self._keeps_watches)

    def start_over(self) -> None:
        """Let a controller give up its term, because too much waits for it; its session lives on."""
        node = self._some(is_alive=True)
        if node is not None and node.machine is not None:
            self._resign(node)

    def depose(self) -> None:
        """Remove `/controller` by hand: the session of the controller lives on, and it learns of it later."""
        if self.zookeeper.get(CONTROLLER) is not None:
            self.zookeeper.delete_by_hand(CONTROLLER)

    def pause(self) -> None:
        """Stop a broker's process, or let it go on."""
        node = self._some(is_alive=True)
        if node is not None:
            node.is_paused = not node.is_paused

    def shut_down(self) -> None:
        """Ask for a controlled shutdown, and stop the broker whatever comes of it."""
        node = self._some(is_alive=True)
        if node is not None:
            epoch = node.broker_epoch
            self._ask(lambda machine: machine.shut_down(node.broker_id, epoch))
            for _ in range(self.random.randrange(30)):
                self.turn()
            self._kill(node)

    def balance(self) -> None:
        """Let the controller make preferred replicas leaders again."""
        self._ask(lambda machine: machine.balance(10))

    def shrink_isr(self) -> None:
        """Let a leader take a follower out of the ISR."""
        self._alter_isr(grow=False)

    def grow_isr(self) -> None:
        """Let a leader take a follower that is alive into the ISR."""
        self._alter_isr(grow=True)

    def _alter_isr(self, *, grow: bool) -> None:
        for node in self.nodes.values():
            for where, update in node.roles.items():
                state = self._state(where)
                if not node.is_alive or where in node.offline:
                    continue
                if state is None or state.leader != node.broker_id != update.state.leader:
                    continue
                self._alter_one(node, where, state, grow=grow)

    def _alter_one(self, node: Node, where: TopicPartition, state: LeaderAndIsr, *, grow: bool) -> None:
        replicas = node.roles[where].replicas.replicas
        others = [each for each in replicas if each != node.broker_id and (each in state.isr) != grow]
        others = [each for each in others if self.nodes[each].is_alive or not grow]
        if others:
            one = self.random.choice(others)
            isr = (*state.isr, one) if grow else tuple(each for each in state.isr if each != one)
            wanted = {where: LeaderAndIsr(state.leader, state.leader_epoch, isr, -1, state.partition_epoch)}
            self._ask(lambda machine: machine.alter_partitions(node.broker_id, node.broker_epoch, wanted))

    # -- Turns

    def turn(self) -> None:
        """Let one broker do one operation, or deliver one message."""
        ready = [node for node in self.nodes.values() if node.is_alive and not node.is_paused and self._has_work(node)]
        wires = [each for each, messages in self.wires.items() if messages]
        choice = self.random.randrange(len(ready) + len(wires)) if ready or wires else -1
        if 0 <= choice < len(ready):
            self._work(ready[choice])
        elif choice >= 0:
            self._deliver(*wires[choice - len(ready)])
        self.check_history()

    @property
    def is_busy(self) -> bool:
        """Whether there is anything left to do."""
        nodes = any(node.is_alive and not node.is_paused and self._has_work(node) for node in self.nodes.values())
        return nodes or any(self.wires.values())

    def settle(self, limit: int = 20_000) -> None:
        """Run until nothing is left to do."""
        for _ in range(limit):
            if not self.is_busy:
                return
            self.turn()
        raise AssertionError("the cluster does not come to rest")

    def _has_work(self, node: Node) -> bool:
        if not self.zookeeper.is_live(node.session):
            # The client library notices by its heartbeats.
            return True
        if node.steps is not None or node.must_stand or self.zookeeper.events.get(node.session):
            return True
        return node.machine is not None and bool(node.asked)

    def _work(self, node: Node) -> None:
        try:
            if not self.zookeeper.is_live(node.session):
                raise SessionExpired
            if node.steps is None:
                self._begin(node)
            else:
                self._continue(node)
        except SessionExpired:
            # The process goes on, and knows what it was told before.
            self._resign(node)
            self._register(node)
        except Fenced:
            self._resign(node)

    def _begin(self, node: Node) -> None:
        """Take up the next event."""
        if node.must_stand:
            node.must_stand = False
            node.steps = stand(node.broker_id, 0)
            node.result = None
            return
        events = self.zookeeper.events.get(node.session)
        if events:
            _, path = events.popleft()
            if subject_of(path) == CONTROLLER:
                self._look_at_controller(node)
            elif node.machine is not None:
                node.steps, node.result = event_of(node.machine, path), None
        elif node.machine is not None and node.asked:
            node.steps, node.result = node.asked.popleft()(node.machine), None

    def _look_at_controller(self, node: Node) -> None:
        """Somebody made or removed `/controller`."""
        if node.machine is None:
            node.must_stand = True
        else:
            node.steps, node.result = is_elected(node.broker_id, node.machine.cluster.epoch), None

    def _continue(self, node: Node) -> None:
        assert node.steps is not None
        try:
            operation = node.steps.send(node.result)
            is_fenced = self._is_fenced and node.fence is not None
            fence = Check(CONTROLLER_EPOCH, node.fence) if is_fenced else None
            node.result = self.zookeeper.run(node.session, operation, fence)
        except StopIteration as end:
            node.steps = None
            self._finish(node, end.value)
        except KafkaError:
            node.steps = None

    def _finish(self, node: Node, outcome: object) -> None:
        if isinstance(outcome, Won):
            node.machine, node.fence = self._new_machine(node.broker_id, outcome.epoch), outcome.fence
            node.steps, node.result = node.machine.take_over(), None
        elif outcome is False:
            self._resign(node)
        elif node.machine is not None:
            for message in filter(None, node.machine.take_messages()):
                wire = self.wires.setdefault((node.broker_id, message.broker_id), deque())
                known = node.machine.cluster.live[message.broker_id].epoch
                pieces = self._pieces_of(message, VALUES_OF_A_PARTITION * MAX_PARTITIONS)
                wire.extend((node.machine.cluster.epoch, known, each) for each in pieces)

    def _deliver(self, sender: int, receiver: int) -> None:
        wire = self.wires[sender, receiver]
        # Where an answer is lost, the request is sent again.
        epoch, broker_epoch, message = wire[0] if self._fails() else wire.popleft()
        node, controller = self.nodes[receiver], self.nodes[sender]
        # STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH
        if not node.is_alive or epoch < node.controller_epoch or broker_epoch < node.broker_epoch:
            return
        if not isinstance(message, StopReplicas) and len(message.updates) > MAX_PARTITIONS:
            # The broker closes the connection.
            return
        node.controller_epoch = epoch
        is_written = not self._fails()
        if not is_written:
            # Its disk is full.
            self._repeat(controller, epoch, lambda machine: machine.tell_everything(receiver, broker_epoch))
        if not is_written and not isinstance(message, StopReplicas):
            node.has_missed |= isinstance(message, TellMetadata)
            node.lose_pieces()
            return
        if isinstance(message, BecomeLeaderOrFollower):
            named = node.named_by(message)
            if named is not None:
                node.roles = {place: each for place, each in node.roles.items() if place in named}
                self._give_up(node, named)
            strangers = {each.broker_id for each in message.leaders} - node.brokers
            # Kafka's broker follows no leader that it does not know, and does not try again.
            assert node.has_missed or not strangers, (
                f"broker {receiver} is to follow {strangers}, and was not told that they are alive"
            )
            refused = {each.place: each.is_new for each in message.updates if self._fails()}
            for update in message.updates:
                if update.place not in node.offline and update.place not in refused:
                    self._take_role(node, update)
            self._answer_roles(node, controller, epoch, {each.place for each in message.updates} - refused.keys())
            if refused:
                self._repeat(controller, epoch, lambda machine: machine.tell_again(receiver, broker_epoch, refused, {}))
        elif isinstance(message, TellMetadata):
            node.take_metadata(message)
        else:
            kept = {where: each for where, each in message.partitions.items() if self._fails()}
            # Files that could not be renamed stay as if their disk had failed.
            node.offline |= {where for where, (_, delete) in kept.items() if delete} & node.held
            stopped = {where: each for where, each in message.partitions.items() if where not in kept}
            for where in stopped:
                node.roles.pop(where, None)
            deleted = [each for each, (_, delete) in stopped.items() if delete and each not in node.offline]
            node.held -= set(deleted)
            if is_written:
                self._repeat(controller, epoch, lambda machine: machine.deletion.note_stopped(receiver, deleted))
            if kept and is_written:
                self._repeat(controller, epoch, lambda machine: machine.tell_again(receiver, broker_epoch, {}, kept))

    def _fails(self) -> bool:
        """Whether a broker cannot do what it is told."""
        return self.random.random() < self._failures

    @staticmethod
    def _repeat(controller: Node, epoch: int, event: Callable[[ControllerMachine], Steps[Any]]) -> None:
        """Have the controller that sent a request take up what its answer asks for."""
        if controller.machine is not None and controller.machine.cluster.epoch == epoch:
            controller.asked.append(event)

    def _answer_roles(self, node: Node, controller: Node, epoch: int, told: set[TopicPartition]) -> None:
        """Tell the controller which replicas have no disk (KAFKA_STORAGE_ERROR) or no room, and which have again."""
        if controller.machine is None or controller.machine.cluster.epoch != epoch:
            return
        failed, broker, broker_epoch = told & node.offline, node.broker_id, node.broker_epoch
        full = told - failed if node.is_full else set[TopicPartition]()
        known = controller.machine.cluster.failed | controller.machine.cluster.full
        back = {each for each in told - failed - full if (broker, each) in known}
        if failed or back or full:
            answer = broker, broker_epoch, sorted(failed), sorted(back), sorted(full)
            controller.asked.append(lambda machine: machine.replicas_answered(*answer))

    def _take_role(self, node: Node, update: PartitionUpdate) -> None:
        known = node.roles.get(update.place)
        if known is None or known.state.leader_epoch <= update.state.leader_epoch:
            node.roles[update.place] = update
            node.held.add(update.place)
            # The files that it gave up are in their place until the next start.
            node.left_over.discard(update.place)

    def _give_up(self, node: Node, named: set[TopicPartition]) -> None:
        """Hold nothing but what a full message names. No later request finds the files.

        What is on a failed disk is held on: it is deleted after the next start. A replica that was moved to other
        brokers is set aside.
        """
        given_up = node.held - named - node.offline
        node.left_over |= {each for each in given_up if self._must_delete(node, each)}
        node.held -= given_up

    def _must_delete(self, node: Node, where: TopicPartition) -> bool:
        assignment = self.zookeeper.get(topic_path(where.topic))
        if assignment is None or where.topic not in self.zookeeper.children_of("/admin/delete_topics"):
            return False
        return node.broker_id in decode_assignment(where.topic, assignment).partitions[where.partition].replicas

    # -- Parts

    def _register(self, node: Node) -> None:
        node.session = self.zookeeper.connect()
        data = encode_registration(Registration(node.broker_id, ("PLAINTEXT://h:1",), {"PLAINTEXT": "PLAINTEXT"}))
        self.zookeeper.run(node.session, _write(Create(broker_path(node.broker_id), data, ephemeral=True)))
        node.broker_epoch = self.zookeeper.nodes[broker_path(node.broker_id)].czxid
        node.must_stand = True

    def _forget(self, node: Node) -> None:
        self._resign(node)
        node.end_process()
        for pair in [pair for pair in self.wires if node.broker_id in pair]:
            del self.wires[pair]

    def _resign(self, node: Node) -> None:
        node.machine = node.fence = node.steps = node.result = None
        node.asked.clear()
        node.must_stand = True

    def _some(self, *, is_alive: bool) -> Node | None:
        found = [each for each in self.nodes.values() if each.is_alive is is_alive]
        return self.random.choice(found) if found else None

    def _ask(self, event: Callable[[ControllerMachine], Steps[Any]]) -> None:
        for node in self.nodes.values():
            if node.machine is not None and node.is_alive:
                node.asked.append(event)

    def _state(self, where: TopicPartition) -> LeaderAndIsr | None:
        node = self.zookeeper.nodes.get(f"/brokers/topics/{where.topic}/partitions/{where.partition}/state")
        return None if node is None else decode_state(where, node.data, node.version)

    # -- Invariants

    def check_history(self) -> None:
        """Check every state that was written since the last look."""
        for path, data in self.zookeeper.history[self._looked_at :]:
            parts = path.split("/")
            if parts[-1] != "state":
                continue
            where = TopicPartition(parts[3], int(parts[5]))
            if data is None:
                self._known.pop(where, None)
                continue
            state = decode_state(where, data, 0)
            _check_state(where, self._known.get(where), state)
            self._known[where] = state
        self._looked_at = len(self.zookeeper.history)

    def check_dead(self) -> None:
        """Check the cluster at rest: in an ISR nobody is dead beside the living, nobody full beside one with room."""
        deletions = self.zookeeper.children_of("/admin/delete_topics")
        live = {int(each) for each in self.zookeeper.children_of("/brokers/ids")}
        for where in self._known:
            state = self._state(where)
            # A topic that is being deleted waits for the dead as it is.
            if live and state is not None and where.topic not in deletions:
                offline = {each.broker_id for each in self.nodes.values() if where in each.offline}
                dead = (set(state.isr) - live) | (set(state.isr) & offline)
                assert not dead or len(state.isr) == 1, f"the brokers {dead} are dead, and in the ISR of {where}"
                assert state.leader not in dead, f"{where} is led by {state.leader}, which has no disk"
                full = {each for each in state.isr if self.nodes[each].is_full} - dead
                others = set(state.isr) - full - dead
                assert not full or not others, f"{full} are full, and in the ISR of {where} beside {others}"

    def check_rest(self) -> None:
        """Check the cluster at rest with every broker alive: all is led, and brokers know what ZooKeeper knows."""
        for where in self._known:
            state = self._state(where)
            assert state is not None
            assert state.leader != -1, f"{where} has no leader: {state}"
            written = self.zookeeper.nodes[state_path(where)].mzxid
            unseen = [each for each in state.isr if self.nodes[each].broker_epoch > written]
            assert not unseen, f"{unseen} have restarted, and are in the ISR of {where} all the same"
            for node in self.nodes.values():
                _check_node(where, state, node)
            assert where in self.nodes[state.leader].roles, f"{state.leader} does not know that it leads {where}"
        assert self.zookeeper.children_of("/admin/delete_topics") == []
        kept = {each.broker_id: each.left_over for each in self.nodes.values() if each.left_over}
        assert not kept, f"brokers keep files of deleted topics: {kept}"
        if all(path != topic_path(SCRAWL) for path, _ in self.zookeeper.history):
            # Otherwise no message is full, because a topic that cannot be read may be there all the same.
            for node in self.nodes.values():
                gone = node.metadata.keys() - self._known.keys()
                assert not gone, f"broker {node.broker_id} knows partitions that were deleted: {sorted(gone)}"
        assert [each for each in ASKED_BY_HAND if self.zookeeper.get(each) is not None] == []
        assert self.zookeeper.children_of(LOG_DIR_EVENTS) == self.zookeeper.children_of(ISR_CHANGES) == []
        for topic in self.zookeeper.children_of(TOPICS):
            assignment = self.zookeeper.get(topic_path(topic)) if topic != SCRAWL else None
            indexes = decode_assignment(topic, assignment).partitions if assignment is not None else ()
            unknown = [each for each in indexes if TopicPartition(topic, each) not in self._known]
            assert not unknown, f"the partitions {unknown} of {topic} never had a leader"


def _check_state(where: TopicPartition, before: LeaderAndIsr | None, state: LeaderAndIsr) -> None:
    """Check a state that was written against the one before it."""
    assert state.leader == -1 or state.leader in state.isr, f"{where} is led from outside its ISR: {state}"
    if before is None:
        return
    assert state.leader_epoch >= before.leader_epoch, f"the leader epoch of {where} goes back"
    assert state.controller_epoch >= before.controller_epoch, f"an old controller wrote the state of {where}"
    if state.leader != before.leader:
        assert state.leader_epoch > before.leader_epoch, f"{where} has a new leader in the same epoch"
        assert state.leader in (-1, *before.isr), f"{where} is led by {state.leader}, not in {before.isr}"


def _check_node(where: TopicPartition, state: LeaderAndIsr, node: Node) -> None:
    """Check what a broker knows of a partition."""
    told = node.metadata[where]
    known = told.state.leader, told.state.leader_epoch, told.state.isr
    assert known == (state.leader, state.leader_epoch, state.isr), f"{node.broker_id} knows old metadata of {where}"
    role = node.roles.get(where)
    if role is not None and node.broker_id in told.replicas.replicas:
        assert role.state.leader_epoch == state.leader_epoch, f"{node.broker_id} has an old epoch of {where}"


def _write(*changes: Create) -> WriteAll:
    return WriteAll((changes,))
