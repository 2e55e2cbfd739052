"""kill -9 of a broker under load: acknowledged records are there, once, in order.

With flush.messages=1 acknowledged records survive a power cut too, which loses everything that was not fsynced.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.protocol.records.batch import decode_batch, iter_headers
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.disks.disk import FaultyDisk
from odradek.tests.support.histories import killing
from odradek.tests.support.seeds import seeds

PRODUCERS = 4
BATCHES = 30
CUTS = 5


@pytest.mark.parametrize("seed", seeds([0], range(100, 130)))
def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path: Path, seed: int) -> None:
    killing.run(tmp_path, seed)


def config_of(data: Path, **texts: str) -> BrokerConfig:
    named = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(data), **texts}
    return BrokerConfig.parse(named)[0]


async def values(raw: Raw) -> list[bytes | None]:
    """Return all values of topic t, by offset."""
    found: list[bytes | None] = []
    while records := (await raw.fetch("t", len(found))).records:
        data = bytes(records)
        for position, _ in iter_headers(data):
            found += [each.value for each in decode_batch(data, position)]
    return found


@pytest.mark.parametrize("seed", range(3))
async def test_nothing_that_was_flushed_is_lost_by_a_power_cut(tmp_path: Path, seed: int) -> None:
    chance, disk = random.Random(seed), FaultyDisk()
    acknowledged: dict[int, bytes] = {}
    cuts: list[tuple[dict[Path, bytes], dict[int, bytes]]] = []
    moments = set(chance.sample(range(PRODUCERS * BATCHES), CUTS))

    async def produce(raw: Raw, number: int) -> None:
        for sequence in range(BATCHES):
            value = b"%d-%d " % (number, sequence) + b"x" * chance.randrange(2000)
            answer = await raw.produce("t", batch_of(value))
            assert answer.error_code == 0
            acknowledged[answer.base_offset] = value
            if len(acknowledged) in moments:
                moments.discard(len(acknowledged))
                known = dict(acknowledged)
                cuts.append((disk.after_power_cut(chance.randrange(2**32)), known))

    data = tmp_path / "data"
    config = config_of(data, **{"log.flush.interval.messages": "1"})
    async with Broker(config, disk=disk) as broker, await Raw.connect(broker.address) as raw:
        await raw.create_topic("t")
        others = [await Raw.connect(broker.address) for _ in range(PRODUCERS)]
        await asyncio.gather(*(produce(each, number) for number, each in enumerate(others)))
        for each in others:
            each.close()
    assert len(cuts) == CUTS
    for number, (left, known) in enumerate(cuts):
        copy = tmp_path / str(number)
        for path, content in left.items():
            target = copy / path.relative_to(data)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        async with Broker(config_of(copy)) as broker, await Raw.connect(broker.address) as raw:
            found = await values(raw)
        assert {offset: found[offset] for offset in known} == known
        everything = [acknowledged[offset] for offset in range(len(found))]
        assert found == everything
