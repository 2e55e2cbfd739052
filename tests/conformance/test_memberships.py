"""The same heartbeats of consumer and share groups as Apache Kafka gets, where KAFKA_LIB names its jars."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from odradek.tests.support.brokers.process import BrokerProcess, KafkaProcess
from odradek.tests.support.clients.others import require, require_kafka_4_4
from odradek.tests.support.histories.membership_comparison import compare

STEPS = 30
# A new assignment with each change, so that epochs do not depend on time. Kafka wants three brokers otherwise.
SETTINGS = {
    "group_initial_rebalance_delay_ms": 0,
    "group_consumer_assignment_interval_ms": 0,
    "group_share_assignment_interval_ms": 0,
    "share_coordinator_state_topic_replication_factor": 1,
    "share_coordinator_state_topic_min_isr": 1,
}


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Yield the addresses of a Kafka and of our broker."""
    require("java")
    theirs = KafkaProcess(tmp_path_factory.mktemp("kafka"), **SETTINGS).start()
    ours = BrokerProcess(tmp_path_factory.mktemp("broker"), **SETTINGS).start()
    yield theirs.address, ours.address
    ours.close()
    theirs.close()


@pytest.mark.parametrize("is_share", [False, True], ids=["consumer group", "share group"])
@pytest.mark.parametrize("seed", range(5))
async def test_members_are_answered_as_by_kafka(addresses: tuple[str, str], seed: int, is_share: bool) -> None:
    if not is_share:
        await require_kafka_4_4(addresses[0], "before Kafka 4.4 another elected assignor raises no epoch")
    assert await compare(seed, addresses, STEPS, is_share=is_share) == []
