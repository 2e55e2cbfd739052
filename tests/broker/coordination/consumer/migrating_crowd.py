"""A crowd whose group changes its kind again and again, under policies that change, and whose members commit offsets.

Beside the promise of `Crowd` it holds two more: an offset whose commit was answered without an error stays, and who is
no member any more commits nothing. While the group is a classic one, nobody holds what another member holds, either.
"""

from __future__ import annotations

from typing import Any

from odradek.broker.coordination.groups.group import Group
from odradek.broker.coordination.modern.state import Place
from odradek.protocol.errors import ErrorCode
from odradek.tests.broker.coordination.classic.world import FakeContext, World, code_of
from odradek.tests.broker.coordination.consumer.classic_client import ClassicClient
from odradek.tests.broker.coordination.consumer.crowd import GROUP, Client, Crowd

POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")


class MigratingCrowd(Crowd):
    """Clients of both protocols, which come, go, and come back by the other one."""

    def __init__(self, seed: int, world: World) -> None:
        super().__init__(seed, world, is_mixed=True)
        self.offset = 0
        # The last offset of each partition whose commit was accepted.
        self.committed: dict[Place, int] = {}
        # Members that are gone: their commits must be rejected.
        self.gone: list[Client | ClassicClient] = []
        # How often the group has become a group of the other kind.
        self.changes = 0
        self._was_consumer = False

    @property
    def group(self) -> Group | None:
        actor = self.world.groups.groups.get(GROUP)
        return None if actor is None else actor.state

    # -- What may happen besides

    def change_policy(self, policy: str | None = None) -> None:
        self.world.config.group_consumer_migration_policy = policy or self.random.choice(POLICIES)

    def join_classic(self) -> None:
        super().join_classic()
        self.made += 1
        self.classic[-1].instance_id = self.random.choice([None, None, f"i{self.made}"])

    def change_protocol(self) -> None:
        """Start a static member again, by the other protocol."""
        for one in self.random.sample(self.clients, len(self.clients)):
            if one.instance_id is not None:
                self.clients.remove(one)
                self.classic.append(ClassicClient(one.topics, self.random.random() < 0.5, one.instance_id))
                return

    def change_protocol_of_classic(self) -> None:
        for one in self.random.sample(self.classic, len(self.classic)):
            if one.instance_id is not None:
                self.classic.remove(one)
                self.made += 1
                self.clients.append(Client(f"m{self.made}", one.topics, one.instance_id))
                return

    def all_leave(self) -> None:
        """Have all members of the consumer protocol leave, so that a classic group may be left."""
        while self.clients:
            self.leave_for_good(self.clients[0])

    def leave_for_good(self, client: Client) -> None:
        self.clients.remove(client)
        self.gone.append(client)
        self.world.groups.consumer_heartbeat(FakeContext(1), leaving(client))
        self.check()

    def commit(self) -> None:
        """Have a member commit an offset of a partition that it has."""
        owners = [each for each in (*self.clients, *self.classic) if each.has]
        if owners:
            one = self.random.choice(owners)
            self._commit(one, self.random.choice(sorted(one.has)))

    def commit_of_gone(self) -> None:
        if self.gone:
            one = self.random.choice(self.gone)
            if one.has:
                self._commit(one, self.random.choice(sorted(one.has)))

    def _commit(self, one: Client | ClassicClient, place: Place) -> None:
        topic = self.world.topics.by_id(place[0])
        if topic is None:
            return
        self.offset += 1
        epoch = one.epoch if isinstance(one, Client) else one.generation
        named = {"topic": topic.name, "topic_id": topic.id, "partition": place[1]}
        before = self._is_member(one)
        committed = self.world.commit(self.offset, one.member_id, epoch, group_instance_id=one.instance_id, **named)
        if code_of(committed) == ErrorCode.NONE:
            assert before, f"{one} is no member, and has committed {place}"
            self.committed[place] = self.offset
        self.check()

    def _is_member(self, one: Client | ClassicClient) -> bool:
        group = self.group
        if group is None:
            return False
        members = group.roster.members if group.consumer is None else group.consumer.members
        return one.member_id in members

    def die_classic(self) -> None:
        before = list(self.classic)
        super().die_classic()
        self.gone += [each for each in before if each not in self.classic]

    def step(self) -> None:
        """Let one thing happen."""
        more = [self.commit] * 8 + [self.commit_of_gone] * 2 + [self.all_leave] * 4
        more += [self.change_policy, self.change_protocol, self.change_protocol_of_classic]
        if self.random.random() < 0.25:
            self.random.choice(more)()
            self.check()
        else:
            super().step()

    # -- The promise

    def check(self) -> None:
        """Check that nobody has what another one has, and that no offset is lost."""
        super().check()
        group = self.group
        if group is not None and (group.consumer is not None) is not self._was_consumer:
            self._was_consumer = not self._was_consumer
            self.changes += 1
        if group is not None and group.consumer is None:
            held: dict[Place, str] = {}
            for one in self.classic:
                if one.member_id in group.roster.members:
                    for place in one.has:
                        assert held.setdefault(place, one.member_id) == one.member_id, (place, held[place], one)
        # Offsets go with their topics.
        self.committed = {place: at for place, at in self.committed.items() if self.world.topics.by_id(place[0])}
        for place, offset in self.committed.items():
            assert self._fetched(place) == offset, (place, offset)

    def _fetched(self, place: Place) -> int:
        topic = self.world.topics.by_id(place[0])
        assert topic is not None
        return self.world.committed(partition=place[1], topic=topic.name)


def leaving(client: Client) -> Any:
    """Return the heartbeat with which a member leaves for good."""
    request = client.request()
    request.member_epoch = -1
    return request
