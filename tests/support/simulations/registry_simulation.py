"""A group that rebalances through ZooKeeper, in virtual time: members run their own steps against a model of ZooKeeper.

Each request to ZooKeeper takes a while, each watch arrives after a delay, and a seed chooses how long. Members are
started, stopped, killed and lose their sessions at any moment. After every turn `check` compares what the members
read with the registry's own content.
"""

from __future__ import annotations

import heapq
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from odradek.client import TopicPartition
from odradek.client.zookeeper import registry
from odradek.client.zookeeper.membership import (
    Member,
    MemberSteps,
    Report,
    StartReading,
    StopReading,
    Wait,
    leave,
    live,
)
from odradek.client.zookeeper.offsets import load_offsets, store_offsets
from odradek.client.zookeeper.registry import BLACK_LIST, WHITE_LIST, Subscription, View, share
from odradek.testing.zookeeper import FakeZookeeper
from odradek.zookeeper.operations import Put, ReadAll, ReadChildren, SessionExpired, WriteAll

GROUP = "g"
LEARN_MS = 400  # until a member learns that its session has expired, at most
COMMIT_MS = 300
READ_MS = 50
# How often a member tries to get its part, and after how many milliseconds again.
_RETRIES = 4, 200
OWNERS = registry.owners_path(GROUP)


@dataclass
class Timing:
    """How slow ZooKeeper is, in milliseconds, at most."""

    request_ms: float = 4
    watch_ms: float = 20


class Ensemble(FakeZookeeper):
    """The model of ZooKeeper for members: reports watches as they fire."""

    def __init__(self, on_watch: Callable[[int], None]) -> None:
        self._on_watch = on_watch
        # Every owner that a partition has had: (path, session), session 0 where it was released.
        self.owners: list[tuple[str, int]] = []
        super().__init__()

    def _insert(self, path: str, data: bytes, owner: int) -> None:
        super()._insert(path, data, owner)
        if path.startswith(OWNERS) and owner:
            self.owners.append((path, owner))

    def _remove(self, path: str) -> None:
        super()._remove(path)
        if path.startswith(OWNERS):
            self.owners.append((path, 0))

    def _fire(self, kind: str, path: str) -> None:
        for session in self._watches.pop((kind, path), set()):
            if session in self._live:
                self._on_watch(session)


@dataclass
class SimulatedMember:
    """One consumer process."""

    name: str
    subscription: Subscription
    session: int = 0
    member: Member | None = None
    # Grows with each session and at the end: what an earlier life had under way is dropped.
    life: int = 0
    steps: list[MemberSteps[Any]] = field(default_factory=list)
    is_waiting: bool = False
    wait: int = 0
    is_changed: bool = False
    is_up: bool = True
    is_leaving: bool = False
    # A write that was sent as the session ended, and that the client library sends in the next one.
    late: WriteAll | None = None
    # Partition -> position, while it believes that it owns the partition.
    reading: dict[TopicPartition, int] = field(default_factory=dict)
    starting: dict[TopicPartition, int] = field(default_factory=dict)
    consumed: dict[TopicPartition, int] = field(default_factory=dict)


class Simulation:
    """A group in virtual time."""

    def __init__(self, seed: int, timing: Timing | None = None) -> None:
        self.random = random.Random(seed)
        self.timing = timing or Timing()
        self.now_ms = 0.0
        self.zookeeper = Ensemble(self._watch_fired)
        self.members: dict[str, SimulatedMember] = {}
        self.by_session: dict[int, SimulatedMember] = {}
        # How often a member had to say that it has no part.
        self.reports = 0
        # Every record of a partition below is consumed by somebody.
        self.consumed: dict[TopicPartition, int] = defaultdict(int)
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._away_until_ms = 0.0
        # So many times the committed offsets cannot be read.
        self.failing_loads = 0
        # (member, how many more requests until its session ends, whether the last one is sent in the next session)
        self.expiry: tuple[str, int, bool] | None = None

    # -- Time

    def after(self, delay_ms: float, work: Callable[[], None]) -> None:
        """Do something later."""
        self._count += 1
        heapq.heappush(self._heap, (self.now_ms + delay_ms, self._count, work))

    def run(self, duration_ms: float) -> None:
        """Let time pass, and check after each turn."""
        end = self.now_ms + duration_ms
        while self._heap and self._heap[0][0] <= end:
            self.now_ms, _, work = heapq.heappop(self._heap)
            work()
            self.check()
        self.now_ms = end

    def settle(self, limit_ms: float = 120_000) -> None:
        """Run until every member waits for a watch."""
        began = self.now_ms
        while not self.is_settled():
            assert self.now_ms - began < limit_ms, "the group does not come to rest"
            self.run(50)

    def is_settled(self) -> bool:
        """Whether every member has its part, or cannot have one."""
        for each in self.members.values():
            rests = each.is_waiting and each.wait == 0 and not each.is_changed
            # A session that has ended is not known to its member yet, or that of a dead one not to ZooKeeper.
            if self.zookeeper.is_live(each.session) != each.is_up or (each.is_up and not rests):
                return False
        return not any(work.__name__ in ("arrive", "apply", "deliver", "start") for _, _, work in self._heap)

    # -- The cluster

    def make_topic(self, name: str, partitions: int, brokers: int = 3) -> None:
        """Make a topic, or give it more partitions."""
        replicas = {str(index): [index % brokers + 1, (index + 1) % brokers + 1] for index in range(partitions)}
        data = json.dumps({"version": 1, "partitions": replicas}).encode()
        path = registry.topic_path(name)
        if path in self.zookeeper.nodes:
            self.zookeeper.run(self._operator(), WriteAll(((Put(path, data),),)))
        else:
            self.zookeeper.make(path, data)

    def start_broker(self, number: int) -> None:
        """Register a broker."""
        if f"{registry.BROKER_IDS}/{number}" not in self.zookeeper.nodes:
            self.zookeeper.make(f"{registry.BROKER_IDS}/{number}", b"{}")

    def stop_broker(self, number: int) -> None:
        """Remove a broker's registration."""
        if f"{registry.BROKER_IDS}/{number}" in self.zookeeper.nodes:
            self.zookeeper.delete_by_hand(f"{registry.BROKER_IDS}/{number}")

    def stop_zookeeper(self, duration_ms: float) -> None:
        """Answer nothing for a while."""
        self._away_until_ms = self.now_ms + duration_ms

    def _operator(self) -> int:
        return self.zookeeper.connect()

    # -- Members

    def start(self, name: str, subscription: Subscription) -> SimulatedMember:
        """Start a consumer."""
        each = self.members[name] = SimulatedMember(name, subscription)
        self._begin_session(each)
        self.after(self.random.uniform(0, COMMIT_MS), lambda: self._commit(each))
        self.after(self.random.uniform(0, READ_MS), lambda: self._read(each))
        return each

    def stop(self, name: str) -> None:
        """Shut a consumer down: it commits, gives its partitions back and leaves."""
        each = self.members[name]
        if not each.is_up or each.is_leaving or each.member is None:
            return
        each.life += 1
        each.is_leaving, each.is_waiting = True, False
        each.starting = {}
        each.steps = [leave(each.member)]
        self._step(each, None)

    def kill(self, name: str) -> None:
        """Kill a consumer: its session lives on for a while."""
        each = self.members[name]
        if each.is_up:
            each.is_up = False
            each.life += 1
            each.reading, each.consumed = {}, {}
            session = each.session
            self.after(self.random.uniform(0, LEARN_MS), lambda: self.zookeeper.expire(session))

    def expire(self, name: str) -> None:
        """End a consumer's session behind its back. It learns of it with its next request, or after a while."""
        each = self.members[name]
        if each.is_up and self.zookeeper.is_live(each.session):
            self.zookeeper.expire(each.session)
            life = each.life
            self.after(self.random.uniform(0, LEARN_MS), lambda: self._learn(each, life))

    def _learn(self, each: SimulatedMember, life: int) -> None:
        if each.life == life and each.is_up:
            self._lose_session(each)

    def _lose_session(self, each: SimulatedMember) -> None:
        each.reading, each.consumed, each.starting = {}, {}, {}
        for steps in reversed(each.steps):
            steps.close()
        each.life += 1
        if each.is_leaving:
            each.is_up = False
            return

        def start() -> None:
            if each.is_up:
                self._begin_session(each)

        self.after(self.random.uniform(0, 50), start)

    def _begin_session(self, each: SimulatedMember) -> None:
        each.life += 1
        each.session = self.zookeeper.connect()
        self.by_session[each.session] = each
        late, each.late = each.late, None
        if late is not None:
            self.zookeeper.run(each.session, late)
        each.member = Member(GROUP, each.name, each.session, each.subscription, 0, *_RETRIES)
        each.steps, each.is_waiting, each.is_changed = [live(each.member)], False, False
        self._step(each, None)

    # -- Steps

    def _step(self, each: SimulatedMember, result: Any) -> None:
        while each.steps:
            try:
                operation = each.steps[-1].send(result)
            except StopIteration as end:
                each.steps.pop()
                result = self._ended(each, end.value)
                continue
            if isinstance(operation, (ReadAll, ReadChildren, WriteAll)):
                self._ask(each, operation)
                return
            if isinstance(operation, Wait):
                self._wait(each, operation)
                return
            if isinstance(operation, StopReading):
                offsets, each.consumed, each.reading = each.consumed, {}, {}
                if offsets:
                    each.steps.append(self._store(each, offsets))
                result = None
            elif isinstance(operation, StartReading):
                if self.failing_loads:
                    self.failing_loads -= 1
                    result = False
                    continue
                each.starting = dict(operation.streams)
                each.steps.append(load_offsets(GROUP, operation.streams))
                result = None
            else:
                assert isinstance(operation, Report)
                self.reports += 1
                result = None
        if each.is_leaving:
            each.is_up = False
            self.zookeeper.expire(each.session)

    def _store(self, each: SimulatedMember, offsets: dict[TopicPartition, int]) -> MemberSteps[bool]:
        assert each.member is not None
        return store_offsets(GROUP, each.member.path, offsets)

    def _ended(self, each: SimulatedMember, value: Any) -> Any:
        """Take the result of inner steps: of a commit, or of reading the offsets to start from."""
        if not isinstance(value, dict):
            return None
        places, each.starting = each.starting, {}
        each.reading = {place: value.get(place, 0) for place in places}
        for place, position in each.reading.items():
            assert position <= self.consumed[place], f"records of {place} were skipped"
        return True

    def _ask(self, each: SimulatedMember, operation: ReadAll | ReadChildren | WriteAll) -> None:
        life = each.life

        def apply() -> None:
            if each.life != life:
                # The request of a life that has ended is on its way all the same.
                if isinstance(operation, WriteAll) and self.zookeeper.is_live(session):
                    self.zookeeper.run(session, operation)
                return
            if self.now_ms < self._away_until_ms:
                self.after(self._away_until_ms - self.now_ms + self.random.uniform(0, 5), apply)
                return
            is_late = self._expire_here(each)
            try:
                result = self.zookeeper.run(session, operation)
            except SessionExpired:
                if isinstance(operation, WriteAll) and (self.random.random() < 0.5 if is_late is None else is_late):
                    each.late = operation
                self._lose_session(each)
                return

            def deliver() -> None:
                if each.life == life:
                    self._step(each, result)

            self.after(self.random.uniform(0, self.timing.request_ms), deliver)

        session = each.session
        self.after(self.random.uniform(0, self.timing.request_ms), apply)

    def _expire_here(self, each: SimulatedMember) -> bool | None:
        """End the session before this request if a test wants it. Returns whether the request is sent again."""
        if self.expiry is None or self.expiry[0] != each.name:
            return None
        name, left, is_late = self.expiry
        self.expiry = None if left == 0 else (name, left - 1, is_late)
        if left:
            return None
        self.zookeeper.expire(each.session)
        return is_late

    def _wait(self, each: SimulatedMember, operation: Wait) -> None:
        if each.is_changed:
            each.is_changed = False
            self._ask_nothing(each)
            return
        each.is_waiting, each.wait = True, 0
        if operation.timeout_ms is not None:
            self._count += 1
            each.wait = number = self._count
            life = each.life

            def arrive() -> None:
                if each.life == life and each.is_waiting and each.wait == number:
                    self._resume(each)

            self.after(operation.timeout_ms, arrive)

    def _ask_nothing(self, each: SimulatedMember) -> None:
        life = each.life

        def arrive() -> None:
            if each.life == life:
                self._step(each, None)

        self.after(0, arrive)

    def _resume(self, each: SimulatedMember) -> None:
        each.is_waiting = each.is_changed = False
        self._step(each, None)

    def _watch_fired(self, session: int) -> None:
        each = self.by_session.get(session)
        if each is None:
            return

        def arrive() -> None:
            if each.session != session or not each.is_up:
                return
            each.is_changed = True
            if each.is_waiting:
                self._resume(each)

        self.after(self.random.uniform(0, self.timing.watch_ms), arrive)

    # -- Reading

    def _read(self, each: SimulatedMember) -> None:
        if not each.is_up:
            return
        for place in each.reading:
            each.reading[place] += self.random.randint(0, 3)
            each.consumed[place] = each.reading[place]
            # What is read without a session counts for nothing: it cannot be committed.
            if self.zookeeper.is_live(each.session):
                self.consumed[place] = max(self.consumed[place], each.reading[place])
        self.after(READ_MS, lambda: self._read(each))

    def _commit(self, each: SimulatedMember) -> None:
        """Commit between rebalances, as auto-commit does."""
        if not each.is_up:
            return
        if each.consumed and each.is_waiting and each.wait == 0 and not each.is_leaving:
            offsets, each.consumed = each.consumed, {}
            each.is_waiting = False
            each.steps.append(self._after_commit(each, offsets))
            self._step(each, None)
        self.after(COMMIT_MS, lambda: self._commit(each))

    def _after_commit(self, each: SimulatedMember, offsets: dict[TopicPartition, int]) -> MemberSteps[None]:
        """Commit, and go on with the Wait that the commit came into."""
        yield from self._store(each, offsets)
        yield Wait(None)

    # -- Checks

    def check(self) -> None:
        """No partition is read by two whose sessions live, and each is read by its owner in the registry alone."""
        for each in self.members.values():
            if not self.zookeeper.is_live(each.session):
                continue
            for place in each.reading:
                node = self.zookeeper.nodes.get(registry.owner_path(GROUP, place))
                assert node is not None, f"{each.name} reads {place}, which it does not own"
                assert node.owner == each.session, f"{each.name} reads {place} of {node.data!r}"

    def check_history(self) -> None:
        """No partition got an owner before the last one was gone."""
        last: dict[str, int] = defaultdict(int)
        for path, owner in self.zookeeper.owners:
            assert owner == 0 or last[path] == 0, f"{path} went from session {last[path]} to {owner}"
            last[path] = owner

    def _view(self, topics: list[str]) -> View:
        """What there is to see now."""
        get, children = self.zookeeper.get, self.zookeeper.children_of
        consumers = {
            name: registry.decode_subscription(get(registry.id_path(GROUP, name)) or b"")
            for name in children(registry.ids_path(GROUP))
        }
        return View(
            {name: each for name, each in consumers.items() if each is not None},
            frozenset(int(each) for each in children(registry.BROKER_IDS)),
            {topic: registry.decode_replicas(get(registry.topic_path(topic)) or b"") for topic in topics},
        )

    def check_complete(self, partitions: dict[str, int]) -> None:
        """Every partition is read by one member."""
        read = Counter(place for each in self.members.values() if each.is_up for place in each.reading)
        wanted = {TopicPartition(topic, index) for topic, count in partitions.items() for index in range(count)}
        assert read == Counter(wanted), f"read: {read}"
        view = self._view(list(partitions))
        for name in view.consumers:
            assert self.members[name].reading.keys() == share(view, name).keys(), f"{name} has the part of an old view"
        for place in wanted:
            path = registry.offset_path(GROUP, place)
            stored = int(self.zookeeper.get(path) or b"0")
            assert stored <= self.consumed[place]


# -- Scenarios


def begin(seed: int, timing: Timing | None = None) -> Simulation:
    simulation = Simulation(seed, timing)
    for number in (1, 2, 3):
        simulation.start_broker(number)
    simulation.make_topic("a", 7)
    simulation.make_topic("b", 4)
    return simulation


def subscriptions(choice: random.Random) -> Subscription:
    """A subscription to both topics."""
    return choice.choice(
        [
            Subscription({"a": 1, "b": 2}),
            Subscription({"a": 2, "b": 1}),
            Subscription({"a,b": 2}, WHITE_LIST),
            Subscription({"z.*": 1}, BLACK_LIST),
        ]
    )


def disturb(simulation: Simulation) -> None:
    """Do something to the group or the cluster."""
    choice = simulation.random
    names = [name for name, each in simulation.members.items() if each.is_up]
    action = choice.choice(["start", "stop", "kill", "expire", "expire", "broker", "zookeeper", "topic", "nothing"])
    if action == "start" and len(names) < 6:
        simulation.start(f"host:{len(simulation.members)}", subscriptions(choice))
    elif action == "stop" and names:
        simulation.stop(choice.choice(names))
    elif action == "kill" and names:
        simulation.kill(choice.choice(names))
    elif action == "expire" and names:
        simulation.expire(choice.choice(names))
    elif action == "broker":
        choice.choice([simulation.start_broker, simulation.stop_broker])(choice.randint(1, 3))
    elif action == "zookeeper":
        simulation.stop_zookeeper(choice.uniform(0, 500))
    elif action == "topic":
        simulation.make_topic("a", choice.randint(7, 9))


def live_through_faults(seed: int) -> None:
    """Start, stop, kill and cut off members by seed; then every partition is read by one, and no record was skipped."""
    timing = random.Random(seed).choice([Timing(), Timing(40, 20), Timing(4, 600)])
    simulation = begin(seed, timing)
    for number in range(3):
        simulation.start(f"host:{number}", subscriptions(simulation.random))
    for _ in range(25):
        disturb(simulation)
        simulation.run(simulation.random.choice([1, 10, 100, 700]))
    simulation.start("host:last", subscriptions(simulation.random))
    simulation.settle()
    simulation.make_topic("a", 9)
    simulation.settle()
    simulation.start_broker(1)
    simulation.stop_broker(2)
    simulation.settle()
    simulation.check_history()
    simulation.check_complete({"a": 9, "b": 4})
