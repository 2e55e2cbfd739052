"""Print a broker's errors for bad record batches: one JSON line for each case (name, hex, error).

    python tools/record_rejections.py HOST:PORT > tests/golden/records/rejections.jsonl

The file in the tree comes from a real Kafka 4.3.1. Run it on another broker to see where that one differs. Each case is
sent alone in a Produce request of version 9 with acks=all, on a connection of its own, to the topic `rejections`.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import time
from typing import TypeVar

from odradek.protocol import frame
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from odradek.protocol.records import batch, legacy
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.record import Record
from odradek.protocol.schema import Message

M = TypeVar("M", bound=Message)

TOPIC = "rejections"
RECORDS = [Record(i, 1_700_000_000_000 + i, b"key", b"value %d" % i) for i in range(3)]


def changed(data: bytes, *patches: tuple[int, str, int]) -> bytes:
    """Return `data` with (position, layout, value) put in and a correct CRC."""
    out = bytearray(data)
    for position, layout, value in patches:
        struct.pack_into(layout, out, position, value)
    struct.pack_into(">I", out, 17, batch.crc32c(memoryview(out)[21:]))
    return bytes(out)


def cases() -> dict[str, bytes]:
    good = batch.encode_batch(RECORDS)
    packed = batch.encode_batch(RECORDS, compression=Compression.LZ4)
    return {
        "good": good,
        "wrong CRC": good[:-1] + b"?",
        "base offset 1": changed(good, (0, ">q", 1)),
        "last offset delta -1": changed(good, (23, ">i", -1)),
        "record count 0": changed(good, (57, ">i", 0)),
        "record count too small": changed(good, (57, ">i", 2)),
        "record count -3 and delta -4": changed(good, (57, ">i", -3), (23, ">i", -4)),
        "count and delta too large": changed(good, (57, ">i", 6), (23, ">i", 5)),
        "count and delta too large, lz4": changed(packed, (57, ">i", 6), (23, ">i", 5)),
        "control batch": changed(good, (21, ">h", 0x20)),
        "producer without sequence": batch.encode_batch(RECORDS, producer_id=5, producer_epoch=0),
        "codec 5": changed(good, (21, ">h", 5)),
        "codec 7": changed(good, (21, ">h", 7)),
        "magic 3": changed(good, (16, ">b", 3)),
        "magic -1": changed(good, (16, ">b", -1)),
        "magic 1": legacy.encode_message_set(RECORDS, 1),
        "magic 0": legacy.encode_message_set(RECORDS, 0),
        "two batches": good + good,
        "torn": good[:-1],
        "torn header": good[:40],
        "no bytes": b"",
        "three bytes left over": good + b"abc",
        "length 48": changed(good, (8, ">i", 48)),
        "length 10": changed(good, (8, ">i", 10)),
        "length -1": changed(good, (8, ">i", -1)),
        "length beyond the end": changed(good, (8, ">i", len(good))),
        "max timestamp wrong": changed(good, (35, ">q", 5)),
        "negative timestamps": changed(good, (27, ">q", -5), (35, ">q", -5)),
        "unused attribute bits": changed(good, (21, ">h", 0x7F80)),
        "append time": changed(good, (21, ">h", 0x08)),
        "delete horizon": changed(good, (21, ">h", 0x40)),
        "offsets with gaps": batch.encode_batch([r._replace(offset=2 * r.offset) for r in RECORDS]),
    }


def call(address: tuple[str, int], key: int, version: int, request: Message, answer: type[M]) -> M:
    with socket.create_connection(address, timeout=10) as wire:
        wire.sendall(b"".join(bytes(piece) for piece in frame.encode_request(key, version, 1, "rejections", request)))
        stream = wire.makefile("rb")
        size = int.from_bytes(stream.read(4), "big")
        return frame.decode_response(stream.read(size), answer, version)[1]


def produce(address: tuple[str, int], data: bytes) -> str:
    topic = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=memoryview(data))])
    request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[topic])
    answer = call(address, 0, 9, request, ProduceResponse)
    return ErrorCode.of(answer.responses[0].partition_responses[0].error_code).name


def main() -> None:
    host, port = sys.argv[1].rsplit(":", 1)
    address = (host, int(port))
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=True)
    for _ in range(100):  # created by the first question, led a moment later
        if not call(address, 3, 9, wanted, MetadataResponse).topics[0].error_code:
            break
        time.sleep(0.1)
    for name, data in cases().items():
        print(json.dumps({"name": name, "hex": data.hex(), "error": produce(address, data)}))


if __name__ == "__main__":
    main()
