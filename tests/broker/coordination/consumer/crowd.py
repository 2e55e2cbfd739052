"""A crowd of clients of one consumer group at a coordinator among fakes: they join, lose answers, die and come back.

A client does what real ones do: it says what it has after it has given partitions up, repeats everything after an
answer that was lost, and drops all and joins again when it is fenced. `check` holds the group's promise: no two members
have a partition at once.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from odradek.broker.coordination.consumer.state import ConsumerGroup
from odradek.broker.coordination.modern.state import Place
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from odradek.tests.broker.coordination.classic.world import FakeContext, World
from odradek.tests.broker.coordination.consumer.classic_client import ClassicClient

GROUP = "g"
# GROUP_ID_NOT_FOUND: the member had expired with all others, and the sweep deleted the empty group.
FENCED = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)


@dataclass
class Client:
    """One consumer: what it knows and what it has."""

    member_id: str
    topics: list[str]
    instance_id: str | None = None
    assignor: str | None = None
    epoch: int = 0
    has: set[Place] = field(default_factory=set[Place])
    # What the coordinator said that it should have; None until it said so.
    wanted: set[Place] | None = None
    # Whether all fields are sent, as after an answer that was lost.
    says_all: bool = True
    is_alive: bool = True

    def request(self) -> ConsumerGroupHeartbeatRequest:
        topics: dict[bytes, list[int]] = {}
        for topic_id, index in sorted(self.has):
            topics.setdefault(topic_id, []).append(index)
        owned = [TopicPartitions(topic_id, indexes) for topic_id, indexes in topics.items()]
        request = ConsumerGroupHeartbeatRequest(GROUP, self.member_id, self.epoch, self.instance_id)
        request.topic_partitions = owned
        if self.says_all or self.epoch == 0:
            request.rebalance_timeout_ms = 60_000
            request.subscribed_topic_names = self.topics
            request.server_assignor = self.assignor
        return request

    def hear(self, response: ConsumerGroupHeartbeatResponse) -> None:
        """Take an answer in."""
        if response.error_code in FENCED:
            self.epoch, self.has, self.wanted, self.says_all = 0, set(), None, True
            return
        if response.error_code == ErrorCode.UNRELEASED_INSTANCE_ID:
            # As Kafka, the coordinator knows no retried join of a static member: it has to wait for its own session.
            assert self.instance_id is not None and self.epoch == 0
            return
        assert response.error_code == 0, response
        self.epoch, self.says_all = response.member_epoch, False
        if response.assignment is not None:
            places = ((t.topic_id, index) for t in response.assignment.topic_partitions for index in t.partitions)
            self.wanted = set(places)
            # Giving up takes a while (`settle`), taking does not.
            self.has |= self.wanted

    def settle(self) -> None:
        """Give up what the coordinator wants back."""
        if self.wanted is not None:
            self.has &= self.wanted


class Crowd:
    """Clients and what may happen to them, by a seed."""

    def __init__(self, seed: int, world: World, *, is_mixed: bool = False) -> None:
        self.random = random.Random(seed)
        self.is_mixed = is_mixed
        self.world = world
        world.groups.start()
        self.clients: list[Client] = []
        self.classic: list[ClassicClient] = []
        self.made = 0

    @property
    def body(self) -> ConsumerGroup | None:
        actor = self.world.groups.groups.get(GROUP)
        return None if actor is None else actor.state.consumer

    # -- What may happen

    def join(self) -> None:
        self.made += 1
        topics = self._some_topics()
        instance_id = self.random.choice([None, None, f"i{self.made}"])
        assignor = self.random.choice([None, "uniform", "range"])
        self.clients.append(Client(f"m{self.made}", topics, instance_id, assignor))

    def beat(self, client: Client | None = None, *, is_lost: bool = False) -> None:
        client = client or self._one()
        if client is None:
            return
        response = self.world.groups.consumer_heartbeat(FakeContext(1), client.request())
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        if response.error_code == ErrorCode.FENCED_INSTANCE_ID:
            # Another one has its place: clients end then.
            self.clients.remove(client)
        elif is_lost:
            client.says_all = True
        else:
            client.hear(response)
        self.check()

    def settle(self) -> None:
        client = self._one()
        if client is not None:
            client.settle()

    # -- Clients of the classic protocol

    def join_classic(self) -> None:
        self.classic.append(ClassicClient(self._some_topics(), is_eager=self.random.random() < 0.5))

    def act_classic(self, *, is_lost: bool = False) -> None:
        if self.classic:
            client = self.random.choice(self.classic)
            client.act(self.world, is_lost=is_lost)
            self.check()

    def settle_classic(self) -> None:
        if self.classic:
            self.random.choice(self.classic).settle()

    def die_classic(self) -> None:
        if self.classic:
            self.classic.remove(self.random.choice(self.classic))

    def leave_classic(self) -> None:
        if self.classic:
            client = self.random.choice(self.classic)
            self.classic.remove(client)
            self.world.leave(client.member_id)

    def resubscribe(self) -> None:
        client = self._one()
        if client is not None:
            client.topics = self._some_topics(0)
            client.says_all = True

    def leave(self) -> None:
        client = self._one()
        if client is None:
            return
        self.clients.remove(client)
        epoch = -1 if client.instance_id is None else self.random.choice([-1, -2])
        request = ConsumerGroupHeartbeatRequest(GROUP, client.member_id, epoch, client.instance_id)
        self.world.groups.consumer_heartbeat(FakeContext(1), request)
        if epoch == -2 and self.random.random() < 0.7:
            self.made += 1
            self.clients.append(Client(f"m{self.made}", client.topics, client.instance_id, client.assignor))

    def begin_again(self) -> None:
        """Start a client again under its id, as a static member: with a new instance id, or one that nobody uses."""
        client = self._one()
        if client is not None:
            self.made += 1
            known = set() if self.body is None else set(self.body.static)
            unused = sorted(known - {each.instance_id for each in (*self.clients, *self.classic)})
            client.instance_id = self.random.choice([*unused, f"i{self.made}"])
            client.epoch, client.has, client.wanted, client.says_all = 0, set(), None, True

    def die(self) -> None:
        client = self._one()
        if client is not None:
            self.clients.remove(client)

    def grow(self) -> None:
        topic = self.random.choice(self.world.topics.topics)
        self.world.topics.add(topic.name, topic.partitions + 1)

    def create(self) -> None:
        if len(self.world.topics.topics) < 5:
            # A name of its own: a topic that is made again has another id, and the fake ones have that of their name.
            self.made += 1
            self.world.topics.add(f"t{self.made}", self.random.randint(1, 6))

    def delete(self) -> None:
        if len(self.world.topics.topics) > 1:
            self.world.topics.topics.pop()
            self.world.topics.change_count += 1

    def wait(self) -> None:
        self.world.wait(self.random.choice([10, 1000, 5000, 50_000]))

    def jump(self) -> None:
        """Set the wall clock forward or back. That takes no member's time away."""
        self.world.clock.ahead_ms = self.random.choice([-1_000_000, 0, 1_000_000])
        if self.body is None:
            return
        before = set(self.body.members)
        for classic in self.classic:
            self.world.heartbeat(classic.member_id, classic.generation)
        self.world.wait(0)
        assert self.body is not None and before == self.body.members.keys()

    def restart(self) -> None:
        """Begin again with what is in the log."""
        before = self.body
        topics = self.world.topics
        ids = self.world.ids
        self.world = self.world.restarted()
        # No two members ever get the same id.
        self.world.ids = ids
        self.world.topics.topics, self.world.topics.change_count = topics.topics, topics.change_count
        for client in self.classic:
            client.forget_request()
        after = self.body
        assert (before is None) == (after is None)
        if before is not None and after is not None:
            assert (after.epoch, after.assignment_epoch) == (before.epoch, before.assignment_epoch)
            assert after.members == before.members and after.owners == before.owners
            assert after.static == before.static and after.topic_subscribers == before.topic_subscribers

    def step(self) -> None:
        """Let one thing happen."""
        likely = [self.beat] * 12 + [self.settle] * 8 + [self.join] * 2
        rare = [
            self.leave,
            self.die,
            self.begin_again,
            self.jump,
            self.resubscribe,
            self.grow,
            self.create,
            self.delete,
            self.wait,
            self.restart,
        ]
        steps = [*likely, *rare, lambda: self.beat(is_lost=True)]
        if self.is_mixed:
            steps += [self.act_classic] * 24 + [self.settle_classic] * 8 + [self.join_classic] * 2
            steps += [self.die_classic, self.leave_classic, lambda: self.act_classic(is_lost=True)]
        self.random.choice(steps)()
        self.check()

    def converge(self) -> None:
        """Let all beat and settle until nothing changes; each partition that is subscribed has an owner then."""
        # Longer than a session lasts, so that nothing of the dead is left.
        for _ in range(40):
            self.world.wait(3000)
            for client in list(self.clients):
                self.beat(client)
                client.settle()
                if client in self.clients:
                    self.beat(client)
            for classic in self.classic:
                for _ in range(4):
                    classic.act(self.world)
                    self.check()
                classic.settle()

    # -- The promise

    def check(self) -> None:
        """Check that no two members have a partition, and that the coordinator knows each owner."""
        body = self.body
        if body is None:
            return
        seen: dict[Place, str] = {}
        for member in body.members.values():
            for place in (*member.current.assigned, *member.current.revoking):
                assert seen.setdefault(place, member.member_id) == member.member_id, (place, seen[place], member)
                assert body.owners[place] == member.member_id
        assert body.owners.keys() == seen.keys()
        held: dict[Place, str] = {}
        for client in self.clients:
            member = body.members.get(client.member_id)
            if member is None or client.epoch == 0:
                continue
            for place in client.has:
                assert held.setdefault(place, client.member_id) == client.member_id, (place, held[place], client)
        for classic in self.classic:
            if classic.member_id in body.members:
                for place in classic.has:
                    assert held.setdefault(place, classic.member_id) == classic.member_id, (place, held, classic)

    def _some_topics(self, least: int = 1) -> list[str]:
        names = self.world.topics.names()
        return self.random.sample(names, self.random.randint(least, len(names)))

    def _one(self) -> Client | None:
        return self.random.choice(self.clients) if self.clients else None
