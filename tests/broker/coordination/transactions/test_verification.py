"""A batch whose coordinator is on another broker that does not wait for the producer's last transaction, as Kafka's."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.broker import BrokerConfig
from odradek.broker.coordination.transactions.verification import LateWord, Verification
from odradek.broker.topics.partition import MarkerWatch
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.records import batch
from odradek.tests.support.clients.raw import batch_of

EARLY, NONE = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE


class Elsewhere:
    """A coordinator on another broker, with its answers."""

    def __init__(self, *answers: ErrorCode) -> None:
        self.answers = list(answers)
        self.asked_s: list[float] = []

    async def ask(self, *_: object) -> ErrorCode:
        self.asked_s.append(asyncio.get_running_loop().time())
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


async def append(coordinator: Elsewhere, version: int, **configs: Any) -> str:
    shards: Any = SimpleNamespace(check=lambda _: ErrorCode.NOT_COORDINATOR)
    here: Any = SimpleNamespace(shards=shards)
    nothing: Any = None
    verification = Verification(BrokerConfig(**configs), here, nothing, coordinator.ask)
    header = batch.read_header(batch_of(b"a", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    partition: Any = SimpleNamespace(topic="t", index=0, marker_watch=MarkerWatch())
    return await verification.verify_later(LateWord("x", header), partition, version, lambda: "appended")


async def test_the_coordinator_is_asked_again_after_the_backoff() -> None:
    coordinator = Elsewhere(EARLY, EARLY, NONE)
    told = await append(
        coordinator,
        12,
        add_partitions_to_txn_retry_backoff_ms=15,
        add_partitions_to_txn_retry_backoff_max_ms=60_000,
    )
    assert told == "appended"
    first, second, third = coordinator.asked_s
    assert min(second - first, third - second) >= 0.0145


@pytest.mark.parametrize(("version", "max_ms"), [(12, 0), (11, 60_000)], ids=["no time", "verification alone"])
async def test_the_coordinator_is_asked_once(version: int, max_ms: int) -> None:
    coordinator = Elsewhere(EARLY)
    with pytest.raises(KafkaError):
        await append(coordinator, version, add_partitions_to_txn_retry_backoff_max_ms=max_ms)
    assert len(coordinator.asked_s) == 1
