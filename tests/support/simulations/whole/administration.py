"""An administrator of a simulated cluster: topics come and go, replicas move, records and configs are changed.

What it was told is done must still be so at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from odradek.client import Acl, AclFilter, Admin, ConfigResource, NewTopic, Producer, QuotaEntity, TopicPartition
from odradek.protocol.errors import KafkaError

from .history import History
from .load import PARTITIONS, PLAIN, WHOLE, Load

TRIMMED = "trimmed"
_CONFIG = "max.message.bytes"
_OPTIONS = {"request_timeout_ms": 5_000, "default_api_timeout_ms": 15_000}


class Administrator(Load):
    """One admin client. A call that fails may have been carried out: what it concerns is unknown from then on."""

    nodes = 1

    async def run(self) -> None:
        await self.until_over(self._live)

    async def _live(self) -> None:
        steps: list[Callable[[Admin], Awaitable[None]]]
        steps = [
            self._create,
            self._create,
            self._delete,
            self._configure,
            self._trim,
            self._limit,
            self._allow,
            self._deny,
        ]
        if self.nodes > 1:
            steps += [self._move, self._move, self._elect]
        async with Admin(self.addresses, **_OPTIONS) as admin:
            while not self.is_over:
                step = self.chance.choice(steps)
                await step(admin)
                self.history.counts[f"admin {step.__name__.strip('_')}"] += 1
                await asyncio.sleep(self.chance.expovariate(self.rate / 2))

    async def _create(self, admin: Admin) -> None:
        name = f"made{len(self.history.topics)}"
        self.history.topics[name] = None
        await admin.create_topics([NewTopic(name, self.chance.randint(1, 2))])
        self.history.topics[name] = True

    async def _delete(self, admin: Admin) -> None:
        there = [name for name, is_there in self.history.topics.items() if is_there]
        if there:
            name = self.chance.choice(there)
            self.history.topics[name] = None
            await admin.delete_topics(name)
            self.history.topics[name] = False

    async def _configure(self, admin: Admin) -> None:
        value = str(self.chance.randint(500_000, 900_000))
        self.history.config = None
        await admin.alter_configs({ConfigResource.topic(PLAIN): {_CONFIG: value}})
        self.history.config = value

    async def _trim(self, admin: Admin) -> None:
        """Write, and delete what is before."""
        async with Producer(self.addresses, request_timeout_ms=5_000, delivery_timeout_ms=15_000) as producer:
            offset = (await producer.send_and_wait(TRIMMED, b"%d" % self.history.kept, partition=0)).offset
        self.history.trimmed_end = offset + 1
        place = TopicPartition(TRIMMED, 0)
        self.history.kept = max(self.history.kept, (await admin.delete_records({place: offset}))[place])

    async def _limit(self, admin: Admin) -> None:
        rate = self.chance.choice((None, 20_000.0, 1e6))
        await admin.alter_client_quotas({QuotaEntity(client_id="plain1"): {"producer_byte_rate": rate}})

    async def _allow(self, admin: Admin) -> None:
        reader = f"User:reader{len(self.history.readers)}"
        self.history.readers[reader] = None
        await admin.create_acls(Acl(reader, "read", "topic", PLAIN))
        self.history.readers[reader] = True

    async def _deny(self, admin: Admin) -> None:
        allowed = [reader for reader, may_read in self.history.readers.items() if may_read]
        if allowed:
            reader = self.chance.choice(allowed)
            self.history.readers[reader] = None
            await admin.delete_acls(AclFilter(reader))
            self.history.readers[reader] = False

    async def _move(self, admin: Admin) -> None:
        brokers = self.chance.sample(range(1, self.nodes + 1), self.chance.choice((self.nodes - 1, self.nodes)))
        place = TopicPartition(self.chance.choice((PLAIN, WHOLE)), self.chance.randrange(PARTITIONS))
        await admin.alter_partition_reassignments({place: brokers})

    async def _elect(self, admin: Admin) -> None:
        await admin.elect_leaders()


async def check_administration(history: History, addresses: str) -> AsyncIterator[str]:
    """Check that what was changed is changed."""
    async with Admin(addresses) as admin:
        names = set(await admin.list_topics())
        for name, is_there in history.topics.items():
            if is_there is not None and is_there != (name in names):
                yield f"topic {name} was {'created, and is gone' if is_there else 'deleted, and is there'}"
        for name in sorted(names & {name for name, is_there in history.topics.items() if is_there}):
            try:
                await admin.list_offsets({TopicPartition(name, 0): -1})
            except KafkaError as error:
                yield f"topic {name} is there, and does not serve: {error}"
        readers = {each.principal for each in await admin.describe_acls()}
        for reader, may_read in history.readers.items():
            if may_read not in (None, reader in readers):
                yield f"{reader} {'may read no more' if may_read else 'may still read'}"
        resource = ConfigResource.topic(PLAIN)
        found = (await admin.describe_configs([resource], names=[_CONFIG]))[resource][_CONFIG].value
        if history.config not in (None, found):
            yield f"{_CONFIG} of {PLAIN} was set to {history.config}, and is {found}"
        place = TopicPartition(TRIMMED, 0)
        start = (await admin.list_offsets({place: -2}))[place]
        end = (await admin.list_offsets({place: -1}))[place]
        start, end = (each if isinstance(each, int) else each.offset for each in (start, end))
        if start < history.kept or end < history.trimmed_end:
            wanted = history.kept, history.trimmed_end
            yield f"{TRIMMED} was trimmed to {wanted[0]} and ended at {wanted[1]}: it has {start} to {end}"
