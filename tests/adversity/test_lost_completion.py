"""A power cut that leaves data and markers, and takes the coordinator's records behind a decided commit.

The next start carries out the commit again and writes its markers again, behind the open transaction that came next.
With transaction version 2 each transaction has an epoch of its own, so the marker does not end the wrong one.
"""

from __future__ import annotations

from pathlib import Path

from odradek.broker import Broker, BrokerConfig
from odradek.broker.coordination.transactions.records import decode_record
from odradek.broker.coordination.transactions.states import TransactionState
from odradek.protocol.records.batch import decode_batch, iter_headers
from odradek.storage.checkpoints import CLEAN_SHUTDOWN, RECOVERY_POINT
from odradek.tests.support.raw import Raw
from odradek.tests.support.transactional import Transactional

READ_COMMITTED = 1


def cut_behind_decision(data: Path) -> None:
    """Cut `__transaction_state` behind the PrepareCommit."""
    path = max(data.glob("__transaction_state-*/*.log"), key=lambda each: each.stat().st_size)
    content = path.read_bytes()
    ends = [
        position + header.size_bytes
        for position, header in iter_headers(content)
        for written in decode_batch(content[position : position + header.size_bytes])
        if (record := decode_record(written.key or b"", written.value)) is not None
        and record.standing is not None
        and record.standing.state is TransactionState.PREPARE_COMMIT
    ]
    path.write_bytes(content[: ends[-1]])
    for snapshot in path.parent.glob("*.snapshot"):
        snapshot.unlink()
    for name in (CLEAN_SHUTDOWN, RECOVERY_POINT):
        (data / name).unlink()


async def test_the_next_transaction_is_not_committed_with_the_one_before(config: BrokerConfig) -> None:
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
        producer = Transactional(raw, "x")
        await producer.begin()
        await producer.send("t", b"committed")
        assert await producer.end(commit=True) == 0
        await producer.send("t", b"open")
    cut_behind_decision(config.data_dir)
    async with Broker(config) as broker, await Raw.connect(broker.address) as raw:
        fetched = await raw.fetch("t", 0, isolation_level=READ_COMMITTED)
        assert (fetched.last_stable_offset, fetched.high_watermark) == (2, 3)
