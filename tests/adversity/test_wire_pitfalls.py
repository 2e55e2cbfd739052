"""Known pitfalls of the protocol that broke other implementations, each on a real connection."""

from __future__ import annotations

from struct import pack, unpack_from

import pytest
from odradek.broker import Broker
from odradek.protocol import frame
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.tests.support.clients.raw import Raw, batch_of
from odradek.tests.support.documents.mutations import framed

CORRELATION_ID = 7


@pytest.mark.parametrize("version", range(6))
async def test_the_header_of_an_api_versions_response_never_has_tags(raw: Raw, version: int) -> None:
    request = ApiVersionsRequest("tests", "1.0") if version >= 3 else ApiVersionsRequest()
    raw.send(ApiKey.API_VERSIONS, version, request)
    data = await raw.receive_bytes()
    # Behind the correlation id comes the error code at once; a client that reads a tag count there is off by one.
    assert unpack_from(">ih", data) == (1, 0)
    count = data[6] - 1 if version >= 3 else unpack_from(">i", data, 6)[0]
    assert count > 15


@pytest.mark.parametrize("version", [6, 99, 32767, -1])
async def test_api_versions_of_an_unknown_version_is_error_35_in_version_0(raw: Raw, version: int) -> None:
    raw.send_bytes(framed(pack(">hhih", 18, version, CORRELATION_ID, -1) + b"whatever may follow"))
    data = await raw.receive_bytes()
    assert unpack_from(">ihihhh", data) == (CORRELATION_ID, 35, 1, 18, 0, 5)


async def test_tags_that_nobody_knows_are_stepped_over(raw: Raw) -> None:
    header = pack(">hhih", 3, 9, CORRELATION_ID, -1) + b"\x02" + b"\x63\x02ab" + b"\x64\x00"
    body = b"\x01" + b"\x00\x00\x00" + b"\x01" + b"\x65\x03xyz"
    raw.send_bytes(framed(header + body))
    assert unpack_from(">i", await raw.receive_bytes())[0] == CORRELATION_ID


@pytest.mark.parametrize("version", range(11, 19))
async def test_a_fetch_sends_nobody_to_a_replica_that_is_not_there(broker: Broker, raw: Raw, version: int) -> None:
    topic_id = (await raw.create_topic("t")).topic_id
    await raw.produce("t", batch_of(b"x"))
    partition = FetchPartition(0, partition_max_bytes=1000)
    topic = FetchTopic("t", partitions=[partition]) if version < 13 else FetchTopic("", topic_id, [partition])
    response = await raw.ask(ApiKey.FETCH, version, FetchRequest(max_wait_ms=0, topics=[topic]))
    (answer,) = response.responses[0].partitions
    assert answer.preferred_read_replica == -1
    assert answer.records


async def test_answers_come_in_the_order_of_their_requests_also_behind_one_that_waits(broker: Broker, raw: Raw) -> None:
    await raw.create_topic("t")
    wanted = [FetchTopic("t", partitions=[FetchPartition(0, partition_max_bytes=1000)])]
    requests = [
        (ApiKey.FETCH, 11, FetchRequest(max_wait_ms=20, min_bytes=1, topics=wanted)),
        (ApiKey.METADATA, 9, MetadataRequest(topics=[])),
        (ApiKey.API_VERSIONS, 3, ApiVersionsRequest("tests", "1.0")),
    ]
    pieces = [
        b"".join(map(bytes, frame.encode_request(key, version, at, None, request)))
        for at, (key, version, request) in enumerate(requests)
    ]
    raw.send_bytes(b"".join(pieces))
    assert [unpack_from(">i", await raw.receive_bytes())[0] for _ in requests] == [0, 1, 2]


@pytest.mark.parametrize("version", range(6))
async def test_an_idempotent_producer_gets_an_id_and_may_use_it(raw: Raw, version: int) -> None:
    await raw.create_topic("t")
    answer = await raw.ask(ApiKey.INIT_PRODUCER_ID, version, InitProducerIdRequest(None, 60_000))
    assert (answer.error_code, answer.producer_epoch) == (0, 0)
    batch = batch_of(b"x", producer_id=answer.producer_id, producer_epoch=0, base_sequence=0)
    assert (await raw.produce("t", batch)).base_offset == (await raw.produce("t", batch)).base_offset == 0
