"""The configs of transactions act: `transaction.max.timeout.ms`, `transactional.id.expiration.ms`,
`transaction.abort.timed.out.transaction.cleanup.interval.ms`, `transaction.state.log.num.partitions`,
`transaction.remove.expired.transaction.cleanup.interval.ms`, `transaction.state.log.segment.bytes`.
"""

from __future__ import annotations

from dataclasses import replace

from odradek.broker import Broker, BrokerConfig
from odradek.broker.topics import TRANSACTIONS_TOPIC
from odradek.protocol.errors import ErrorCode
from odradek.tests.broker.handlers.test_transactions import add, describe, init
from odradek.tests.support.clock import FakeClock
from odradek.tests.support.raw import Raw


def pass_ms(broker: Broker, clock: FakeClock, for_ms: int) -> None:
    clock.time_ms += for_ms
    broker.timers.fire_due()


async def test_the_longest_timeout(config: BrokerConfig) -> None:
    async with (
        Broker(replace(config, transaction_max_timeout_ms=500)) as broker,
        await Raw.connect(broker.address) as raw,
    ):
        assert (await init(raw, transaction_timeout_ms=501)).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert (await init(raw, transaction_timeout_ms=500)).error_code == 0


async def test_the_shape_of_the_topic(config: BrokerConfig) -> None:
    config = replace(config, transaction_state_log_num_partitions=3, transaction_state_log_segment_bytes=2 << 20)
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await init(raw)
        topic = broker.topics.get(TRANSACTIONS_TOPIC)
        assert topic is not None
        assert [each.log.config.segment_bytes for each in topic.partitions] == [2 << 20] * 3


async def test_how_often_timeouts_are_looked_for(config: BrokerConfig) -> None:
    clock = FakeClock()
    config = replace(config, transaction_abort_timed_out_transaction_cleanup_interval_ms=700)
    async with Broker(config, clock=clock) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
        await add(raw, await init(raw, transaction_timeout_ms=100), 0)
        pass_ms(broker, clock, 699)
        assert (await describe(raw)).transaction_state == "Ongoing"
        pass_ms(broker, clock, 1)
        assert (await describe(raw)).transaction_state == "CompleteAbort"


async def test_when_ids_are_forgotten(config: BrokerConfig) -> None:
    clock = FakeClock()
    config = replace(
        config,
        transactional_id_expiration_ms=5000,
        transaction_remove_expired_transaction_cleanup_interval_ms=3000,
        connections_max_idle_ms=-1,
    )
    async with Broker(config, clock=clock) as broker, await Raw.connect(broker.address) as raw:
        await init(raw)
        pass_ms(broker, clock, 3000)
        assert (await describe(raw)).error_code == 0
        pass_ms(broker, clock, 2999)
        assert (await describe(raw)).error_code == 0
        pass_ms(broker, clock, 1)
        assert (await describe(raw)).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
