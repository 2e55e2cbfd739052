"""What hostile connections may cost: the memory and the turns of a broker that gets thousands of them, by seed.

Each connection sends good requests, and then something that no client would send: a half frame, an impossible length, a
batch that unfolds to ninety megabytes, random bytes. `ODRADEK_FUZZ=N` opens N connections, `ODRADEK_SEED=S` takes
another seed.
"""

from __future__ import annotations

import asyncio
import os
import random
from functools import cache
from pathlib import Path
from struct import pack

import pytest
from odradek.broker import BrokerConfig
from odradek.broker.topics.conversion import AT_ONCE
from odradek.protocol import frame
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.record import Record
from odradek.tests.support.brokers.loop_turns import LIMIT_MS, measured_broker
from odradek.tests.support.brokers.process import BrokerProcess
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.documents.mutations import framed, mutated

COUNT = int(os.environ.get("ODRADEK_FUZZ", "60"))
SEED = int(os.environ.get("ODRADEK_SEED", "2"))
AT_A_TIME = 20
WAIT_S = 30
MIB = 1024 * 1024
# Topics whose configs have the broker open the batches that it gets.
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "compacted": {"cleanup_policy": "compact"},
    "compressed": {"compression_type": "lz4"},
    "unpacked": {"compression_type": "uncompressed"},
}
BOMB_BYTES = 90 * MIB

# The broker has a loop or a process of its own; which loop the clients run on says nothing about it.
pytestmark = pytest.mark.asyncio(loop_factories=["uvloop"])


@cache
def bomb(codec: Compression) -> bytes:
    """Return a batch of some KB that unfolds to BOMB_BYTES."""
    return encode_batch([Record(0, 0, b"k", bytes(BOMB_BYTES))], compression=codec)


def produce(topic: str, batch: bytes) -> bytes:
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])]
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=data)
    return b"".join(map(bytes, frame.encode_request(ApiKey.PRODUCE, 9, 1, "bomb", request)))


def hostile(chance: random.Random) -> bytes:
    """Return what a client sends after its good requests."""
    match chance.randrange(6):
        case 0:  # half a frame, or what is announced never comes
            whole = framed(mutated(chance))
            return whole[: chance.randrange(1, len(whole))]
        case 1:
            length = chance.choice([0, -1, -(2**31), 2**31 - 1, 100 * MIB, 100 * MIB + 1])
            return pack(">i", length) + chance.randbytes(chance.randrange(100))
        case 2:
            return produce(chance.choice(list(TOPICS)), bomb(chance.choice([Compression.GZIP, Compression.ZSTD])))
        case 3:
            return chance.randbytes(chance.randrange(1, 5_000))
        case 4:  # many small requests, which nobody reads the answers of
            return framed(mutated(chance)) * chance.randrange(1, 200)
        case _:
            return framed(mutated(chance)) + chance.randbytes(20)


def good(correlation_id: int) -> bytes:
    request = MetadataRequest(topics=[])
    return b"".join(map(bytes, frame.encode_request(ApiKey.METADATA, 9, correlation_id, "good", request)))


async def attack(address: str, chance: random.Random) -> None:
    """Send good requests, whose answers must come, and something hostile behind them; then leave."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    count = chance.randrange(4)
    try:
        writer.write(b"".join(map(good, range(count))) + hostile(chance))
        async with asyncio.timeout(WAIT_S):
            for number in range(count):
                size = int.from_bytes(await reader.readexactly(4))
                assert int.from_bytes((await reader.readexactly(size))[:4]) == number
            writer.write_eof()
            while await reader.read(65536):
                pass
    except ConnectionError:
        pass
    finally:
        writer.transport.abort()


async def attack_all(address: str, seed: int) -> None:
    """Open COUNT connections beside a client that behaves, which is served all the time."""
    chance = random.Random(seed)
    async with await Raw.connect(address) as neighbour:
        for name, configs in TOPICS.items():
            await neighbour.create_topic(name, **configs)
        await neighbour.create_topic("neighbour")
        for turn in range(COUNT // AT_A_TIME):
            await asyncio.gather(
                *(attack(address, random.Random(chance.getrandbits(64))) for _ in range(AT_A_TIME)),
            )
            assert (await neighbour.produce("neighbour", batch_of(b"%d" % turn))).base_offset == turn


async def test_hostile_connections_hold_no_turn(tmp_path: Path) -> None:
    config = BrokerConfig(
        listeners=("PLAINTEXT://127.0.0.1:0",),
        log_dirs=(str(tmp_path),),
        auto_create_topics_enable=False,
        offsets_topic_num_partitions=1,
        transaction_state_log_num_partitions=1,
    )
    with measured_broker(config) as measured:
        measured.begin()
        await attack_all(measured.address, SEED + 1)
        assert measured.longest_turn_ms < LIMIT_MS


async def test_hostile_connections_cost_bounded_memory(process: BrokerProcess) -> None:
    process.start()
    before = process.memory_bytes()
    await attack_all(process.address, SEED)
    # A batch that is made again is in memory twice.
    assert process.memory_bytes("VmHWM") - before < AT_ONCE * 2 * BOMB_BYTES + 64 * MIB
    said = process.log.read_text()
    assert " ERROR " not in said
    assert "Traceback" not in said
