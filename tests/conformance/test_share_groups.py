"""Share groups at the leader: the same histories as Apache Kafka, where KAFKA_LIB names its jars."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from odradek.tests.support.brokers.process import KafkaProcess
from odradek.tests.support.clients.others import require, require_kafka_4_4
from odradek.tests.support.histories.share_comparison import compare

STEPS = 60
# Kafka wants three brokers for the topic of share groups otherwise.
SETTINGS = {
    "share_coordinator_state_topic_replication_factor": 1,
    "share_coordinator_state_topic_min_isr": 1,
    "group_initial_rebalance_delay_ms": 0,
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    require("java")
    process = KafkaProcess(tmp_path_factory.mktemp("kafka"), **SETTINGS).start()
    yield process.address
    process.close()


@pytest.mark.parametrize("seed", range(10))
async def test_members_get_what_kafka_gives_them(kafka: str, address: str, seed: int) -> None:
    assert await compare(seed, (kafka, address), STEPS) == []


@pytest.mark.parametrize("seed", range(5))
async def test_dead_letters_are_kafkas(kafka: str, address: str, seed: int) -> None:
    await require_kafka_4_4(kafka, "Kafka before 4.4 has no dead letters")
    assert await compare(seed, (kafka, address), STEPS, dead_letters=True) == []
