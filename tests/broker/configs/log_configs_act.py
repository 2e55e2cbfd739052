"""Show that the configs of logs and topics change what the broker does."""

from __future__ import annotations

from odradek.protocol.errors import ErrorCode
from odradek.protocol.records.batch import read_header
from odradek.protocol.records.compression import Compression, compress, decompress
from odradek.tests.broker.configs.world import HOUR_MS, World, shows
from odradek.tests.support.clients.raw import batch_of


@shows("log.segment.bytes", log_segment_bytes=1 << 20)
async def _(world: World) -> None:
    await world.create()
    for _ in range(3):
        await world.raw.produce("t", batch_of(b"x" * 600_000))
    assert world.segments() == 3


@shows("log.roll.ms", log_roll_ms=1000)
async def _(world: World) -> None:
    await world.create()
    for segments, passed_ms in ((1, 0), (1, 900), (2, 200)):
        world.clock.advance(passed_ms)
        await world.raw.produce("t", batch_of(b"x", timestamp_ms=world.clock.now_ms()))
        assert world.segments() == segments


@shows("log.roll.hours", log_roll_hours=2)
async def _(world: World) -> None:
    await world.create()
    for segments, passed_ms in ((1, 0), (1, 2 * HOUR_MS - 1000), (2, 2000)):
        world.clock.advance(passed_ms)
        await world.raw.produce("t", batch_of(b"x", timestamp_ms=world.clock.now_ms()))
        assert world.segments() == segments


@shows("log.roll.jitter.ms", log_roll_ms=HOUR_MS, log_roll_jitter_ms=HOUR_MS // 2)
async def _(world: World) -> None:
    await closed_early(world, HOUR_MS, HOUR_MS // 2)


@shows("log.roll.jitter.hours", log_roll_hours=4, log_roll_jitter_hours=2)
async def _(world: World) -> None:
    await closed_early(world, 4 * HOUR_MS, 2 * HOUR_MS)


async def closed_early(world: World, segment_ms: int, jitter_ms: int) -> None:
    """Each partition's first segment is closed at a time of its own, all of them within the jitter."""
    await world.raw.create_topic("t", 8)
    open_ms = dict.fromkeys(range(8), 0)
    start_ms = world.clock.now_ms()
    for passed_ms in range(0, segment_ms + 2, segment_ms // 32):
        world.clock.advance(segment_ms // 32)
        for partition in open_ms:
            await world.raw.produce("t", batch_of(b"x", timestamp_ms=start_ms + passed_ms), partition)
            if len(list((world.directory / f"t-{partition}").glob("*.log"))) == 1:
                open_ms[partition] = passed_ms
    assert all(segment_ms - jitter_ms - segment_ms // 32 < each <= segment_ms for each in open_ms.values())
    assert len(set(open_ms.values())) > 2


@shows("log.index.interval.bytes", log_index_interval_bytes=200)
async def _(world: World) -> None:
    await world.create()
    for _ in range(20):
        await world.raw.produce("t", batch_of(b"x" * 100))
    world.log().flush()
    world.log().segments[-1].seal()
    # By default one entry a 4096 bytes, and all of these are less.
    assert (world.directory / "t-0" / f"{0:020d}.index").stat().st_size >= 8 * 8


@shows("log.index.size.max.bytes", log_index_size_max_bytes=64, log_index_interval_bytes=0)
async def _(world: World) -> None:
    await world.create()
    for _ in range(20):
        await world.raw.produce("t", batch_of(b"x"))
    # Eight entries of 8 bytes, and the first batch of a segment needs none.
    assert world.segments() == 3


@shows("log.flush.interval.messages", log_flush_interval_messages=2)
async def _(world: World) -> None:
    await world.create()
    await world.raw.produce("t", batch_of(b"x"))
    assert world.log().recovery_point == 0
    await world.raw.produce("t", batch_of(b"x"))
    assert world.log().recovery_point == 2


@shows("log.flush.interval.ms", log_flush_interval_ms=1000)
async def _(world: World) -> None:
    await world.create()
    await world.raw.produce("t", batch_of(b"x"))
    world.pass_ms(1000)
    await world.broker.services.flusher.stop()
    assert world.log().recovery_point == 1


@shows("log.message.timestamp.type", log_message_timestamp_type="LogAppendTime")
async def _(world: World) -> None:
    await world.create()
    answer = await world.raw.produce("t", batch_of(b"x", timestamp_ms=5))
    assert answer.log_append_time_ms == world.clock.now_ms()


@shows("log.message.timestamp.before.max.ms", log_message_timestamp_before_max_ms=1000)
async def _(world: World) -> None:
    await world.create()
    now_ms = world.clock.now_ms()
    assert (await world.raw.produce("t", batch_of(b"x", timestamp_ms=now_ms - 1000))).error_code == 0
    answer = await world.raw.produce("t", batch_of(b"x", timestamp_ms=now_ms - 1001))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP


@shows("log.message.timestamp.after.max.ms", log_message_timestamp_after_max_ms=1000)
async def _(world: World) -> None:
    await world.create()
    now_ms = world.clock.now_ms()
    assert (await world.raw.produce("t", batch_of(b"x", timestamp_ms=now_ms + 1000))).error_code == 0
    answer = await world.raw.produce("t", batch_of(b"x", timestamp_ms=now_ms + 1001))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP


@shows("compression.type", compression_type="gzip")
async def _(world: World) -> None:
    assert await stored_bytes(world, Compression.GZIP) < TEXT_BYTES


@shows("compression.gzip.level", compression_type="gzip", compression_gzip_level=1)
async def _(world: World) -> None:
    assert await stored_bytes(world, Compression.GZIP) == 61 + len(compress(Compression.GZIP, await body(world), 1))


@shows("compression.lz4.level", compression_type="lz4", compression_lz4_level=17)
async def _(world: World) -> None:
    assert await stored_bytes(world, Compression.LZ4) == 61 + len(compress(Compression.LZ4, await body(world), 17))


@shows("compression.zstd.level", compression_type="zstd", compression_zstd_level=19)
async def _(world: World) -> None:
    assert await stored_bytes(world, Compression.ZSTD) == 61 + len(compress(Compression.ZSTD, await body(world), 19))


TEXT_BYTES = 6000


async def stored_bytes(world: World, codec: Compression) -> int:
    """The size of the batch that is stored of one with a text that levels compress differently."""
    await world.create()
    text = b"".join(b"%d " % (number * number) for number in range(1000))[:TEXT_BYTES]
    assert (await world.raw.produce("t", batch_of(text))).error_code == 0
    header = read_header((await world.raw.fetch("t", 0)).records)
    assert header.compression is codec
    return header.size_bytes


async def body(world: World) -> bytes:
    """The records of that batch, decompressed."""
    data = bytes((await world.raw.fetch("t", 0)).records)
    return decompress(read_header(data).compression, data[61:])


@shows("min.insync.replicas", min_insync_replicas=3)
async def _(world: World) -> None:
    """The one replica caps it, as in Kafka 4: a producer with acks=all is not kept waiting, nor rejected."""
    await world.create()
    assert (await world.raw.create_topic("own", min_insync_replicas="2147483647")).error_code == 0
    for topic in ("t", "own"):
        assert (await world.raw.produce(topic, batch_of(b"x"), acks=-1)).error_code == 0
    assert (await world.raw.create_topic("none", min_insync_replicas="0")).error_code == ErrorCode.INVALID_CONFIG


@shows("message.max.bytes", message_max_bytes=1000)
async def _(world: World) -> None:
    await world.create()
    assert (await world.raw.produce("t", batch_of(b"x" * 1000))).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert (await world.raw.produce("t", batch_of(b"x" * 900))).error_code == 0
