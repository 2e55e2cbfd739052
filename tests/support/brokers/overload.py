"""Overload: more connections, joins and batches than a broker on a slow disk can serve, by seed."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from struct import pack

from odradek.protocol.apis import ApiKey
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.storage.files import Disk, File
from odradek.tests.support.brokers.process import memory_bytes
from odradek.tests.support.clients.raw import Raw, batch_of

TOPIC = "slow"
# A fetch or a produce that waits for its turn, on a machine that is busy.
PATIENCE_S = 30
KIB = 1024


class SlowDisk(Disk):
    """A disk whose fsyncs take their time. It counts those of the topic's logs that are under way at once."""

    def __init__(self, fsync_s: float) -> None:
        self.fsync_s = fsync_s
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()

    def fsync(self, file: File) -> None:
        is_counted = file.path.parent.name.startswith(TOPIC)
        self._count(is_counted)
        time.sleep(self.fsync_s)
        super().fsync(file)
        self._count(-is_counted)

    def _count(self, change: int) -> None:
        with self._lock:
            self._at_once += change
            self.most_at_once = max(self.most_at_once, self._at_once)


@dataclass
class Overload:
    """So many clients of each kind, for so long."""

    connections: int
    producers: int
    joins: int
    rounds: int
    seed: int
    # How often each member joins again after its first two joins.
    rejoins: int = 0
    # What producers and members were told.
    produced: Counter[ErrorCode] = field(default_factory=Counter[ErrorCode])
    joined: Counter[ErrorCode] = field(default_factory=Counter[ErrorCode])
    # The most requests of others that were answered while the client that behaves waited for one answer.
    most_before_neighbour: int = 0

    @property
    def clients(self) -> int:
        """How many clients load the broker, each with one request at a time."""
        return self.producers + self.joins

    async def run(self, address: str) -> None:
        """Load the broker, beside a client that must be served all the time."""
        async with AsyncExitStack() as stack:
            setup = await stack.enter_async_context(await Raw.connect(address))
            await setup.create_topic(TOPIC, 4, flush_messages="1")
            await self._connect_idle(address, stack)
            load = asyncio.gather(
                *(self._produce(address, number) for number in range(self.producers)),
                *(self._join(address, number) for number in range(self.joins)),
            )
            await self._behave(address, load)
            await load

    async def _connect_idle(self, address: str, stack: AsyncExitStack) -> None:
        chance = random.Random(self.seed)
        for _ in range(self.connections):
            raw = await stack.enter_async_context(await Raw.connect(address))
            if chance.random() < 0.5:
                raw.send_bytes(pack(">i", 100 << 20) + chance.randbytes(chance.randrange(10, 2 * KIB)))

    async def _produce(self, address: str, number: int) -> None:
        batch = batch_of(random.Random(number).randbytes(100 * KIB))
        async with await Raw.connect(address) as raw:
            for _ in range(self.rounds):
                async with asyncio.timeout(PATIENCE_S):
                    result = await raw.produce(TOPIC, batch, partition=number % 4)
                self.produced[ErrorCode.of(result.error_code)] += 1

    async def _join(self, address: str, number: int) -> None:
        protocols = [JoinGroupRequestProtocol("range", bytes(KIB))]
        request = JoinGroupRequest(f"group-{number % 3}", 10_000, 1_000, protocol_type="consumer", protocols=protocols)
        async with await Raw.connect(address) as raw:
            for _ in range(2 + self.rejoins):
                raw.send(ApiKey.JOIN_GROUP, 7, request)
                async with asyncio.timeout(PATIENCE_S):
                    response = await raw.receive(ApiKey.JOIN_GROUP, 7)
                self.joined[ErrorCode.of(response.error_code)] += 1
                is_unknown = response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
                request.member_id = "" if is_unknown else response.member_id

    async def _behave(self, address: str, load: asyncio.Future[object]) -> None:
        async with await Raw.connect(address) as raw:
            while not load.done():
                before = self._answered()
                async with asyncio.timeout(PATIENCE_S):
                    await raw.ask(ApiKey.METADATA, 9, MetadataRequest(topics=[]))
                self.most_before_neighbour = max(self.most_before_neighbour, self._answered() - before)
                await asyncio.sleep(0.005)

    def _answered(self) -> int:
        return self.produced.total() + self.joined.total()


def forget_peak() -> int:
    """Begin a new measure of the largest resident memory of this process, and return what it is now."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak_bytes()


def peak_bytes() -> int:
    """Return the largest resident memory of this process since `forget_peak`."""
    return memory_bytes("VmHWM")
