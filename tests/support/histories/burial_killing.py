"""Kills a broker (-9) at each step of a dead letter, by a seed: at which one, the broker is told when it starts.

`run(folder, seed)`: a member rejects records until the broker has killed itself, the next broker goes on, and the last
one is not killed. Then nothing is left, and each record is a dead letter, perhaps more than once.

`python -m odradek.tests.support.histories.burial_killing STEP serve ...` is such a broker.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from odradek.broker.coordination.share_states.routed_persister import RoutedPersister
from odradek.broker.share_partitions.dead_letter_topics import OwnWire
from odradek.broker.share_partitions.dead_letters import DeadLetterWriter
from odradek.broker.share_partitions.stretches import RecordState
from odradek.cli import main
from odradek.client import Admin, ConfigResource, Consumer, NewTopic, TopicPartition
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.read_share_group_state_summary import (
    PartitionData,
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
)
from odradek.tests.support.brokers.process import BrokerProcess
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.clients.share_member import REJECT, ShareMember, acquired, initialized

# Before the state is ARCHIVING; before and after the leader of the dead letter has it; once the writer knows; and when
# the state is ARCHIVED.
STEPS = ("rejected", "archiving", "appended", "written", "archived")
RECORDS = 60
GROUP, TOPIC = "g", "t"
LOST = (OSError, asyncio.IncompleteReadError, TimeoutError)
WITHIN_S = 120.0
RECORD_LIMIT = 1
NO_STEP = "none"


class DoomedBroker(BrokerProcess):
    """A broker that kills itself at a step."""

    step = NO_STEP

    def program(self) -> list[str]:
        return ["-m", "odradek.tests.support.histories.burial_killing", self.step]


class Run:
    """One run: its broker and its member."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.broker = DoomedBroker(folder)

    async def __call__(self) -> None:
        self.broker.start()
        try:
            async with asyncio.timeout(WITHIN_S):
                topic_id = await self._set_up()
                for step in self.chance.sample(STEPS, len(STEPS)):
                    self.broker.kill()
                    self.broker.step = step
                    self.broker.start()
                    await self._reject(topic_id)
                self.broker.kill()
                self.broker.step = NO_STEP
                self.broker.start()
                await self._reject(topic_id)
                await self._check()
        finally:
            if self.broker.is_running:
                self.broker.kill()

    async def _set_up(self) -> bytes:
        flag = {"errors.deadletterqueue.group.enable": "true"}
        configs = {"errors.deadletterqueue.topic.name": "dlq.g", "share.record.lock.duration.ms": "60000"}
        async with Admin(self.broker.address) as admin, await Raw.connect(self.broker.address) as raw:
            await admin.create_topics([NewTopic(TOPIC, 1), NewTopic("dlq.g", 1, configs=flag)])
            await admin.alter_configs({ConfigResource.group(GROUP): configs})
            await raw.produce(TOPIC, batch_of(*[b"x"] * RECORDS))
            return await initialized(raw, TOPIC, GROUP)

    async def _reject(self, topic_id: bytes) -> None:
        """Reject records, a few at a time, until the broker is gone, or the group at the end."""
        with suppress(*LOST):
            async with await Raw.connect(self.broker.address) as raw:
                member = ShareMember(raw, GROUP, "ann", topic_id)
                assert (await member.fetch(0, max_records=0)).error_code == 0
                while await self._done(raw, topic_id) < RECORDS:
                    size = self.chance.randint(1, 4)
                    response = await member.fetch(max_wait_ms=20, max_records=size, share_acquire_mode=RECORD_LIMIT)
                    for first, last, _ in acquired(response):
                        answer = await member.acknowledge(0, (first, last, (REJECT,)))
                        assert answer.error_code == answer.responses[0].partitions[0].error_code == 0

    async def _done(self, raw: Raw, topic_id: bytes) -> int:
        """Return how many records the state says are done with."""
        request = ReadShareGroupStateSummaryRequest(GROUP, [ReadStateSummaryData(topic_id, [PartitionData(0)])])
        answer = await raw.ask(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, 1, request)
        state: Any = answer.results[0].partitions[0]
        return state.start_offset + max(state.delivery_complete_count, 0)

    async def _check(self) -> None:
        place = TopicPartition("dlq.g", 0)
        async with Consumer(bootstrap_servers=self.broker.address, auto_offset_reset="earliest") as reader:
            reader.assign([place])
            (end,) = (await reader.end_offsets([place])).values()
            letters = [dict((await reader.getone()).headers)["__dlq.errors.offset"] for _ in range(end)]
        found = {int(each or b"") for each in letters}
        assert found == set(range(RECORDS)), f"{sorted(set(range(RECORDS)) - found)} are no dead letters"
        assert "without a dead letter" not in self.broker.log.read_text()


def run(folder: Path, seed: int) -> None:
    """Run one seed."""
    asyncio.run(Run(folder, seed)())


def _plant(step: str) -> None:
    """Have this process end at a step."""

    def die(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def dying(work: Callable[..., Awaitable[Any]], before: bool, counts: Callable[..., bool]) -> Any:
        async def done(*arguments: Any) -> Any:
            if before and counts(*arguments):
                die()
            result = await work(*arguments)
            if not before and counts(*arguments):
                die()
            return result

        return done

    def has(state: RecordState) -> Callable[..., bool]:
        return lambda *arguments: any(each.delivery_state == state for each in arguments[-1])

    def always(*_: object) -> bool:
        return True

    places: dict[str, tuple[Any, str, bool, Callable[..., bool]]] = {
        "rejected": (RoutedPersister, "write", True, has(RecordState.ARCHIVING)),
        "archiving": (DeadLetterWriter, "write", True, always),
        "appended": (OwnWire, "produce", False, always),
        "written": (RoutedPersister, "write", True, has(RecordState.ARCHIVED)),
        "archived": (RoutedPersister, "write", False, has(RecordState.ARCHIVED)),
    }
    if step in places:
        owner, name, before, counts = places[step]
        setattr(owner, name, dying(getattr(owner, name), before, counts))


if __name__ == "__main__":
    _plant(sys.argv.pop(1))
    main()
