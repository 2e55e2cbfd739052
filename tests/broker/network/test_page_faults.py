"""What large responses cost a broker in memory: no response makes it take new memory from the system."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path
from struct import unpack

import pytest
from odradek.protocol import frame
from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.tests.support.brokers.process import BrokerProcess
from odradek.tests.support.clients.raw import Raw, batch_of

MB = 1_000_000
# Python maps some new memory, too. Before the change it was 35 to 45.
MAX_FAULTS_PER_MB = 2
IN_FLIGHT = 5
MEASURED = 100


def faults(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[7])


def receive(client: socket.socket) -> int:
    size = left = unpack(">i", client.recv(4, socket.MSG_WAITALL))[0]
    buffer = memoryview(bytearray(MB))
    while left:
        left -= client.recv_into(buffer[: min(left, MB)])
    return size


def faults_per_mb(client: socket.socket, data: bytes, pid: int) -> float:
    before, received = faults(pid), 0
    for _ in range(MEASURED):
        received += receive(client)
        client.sendall(data)
    assert received > MEASURED * MB * 0.8
    return (faults(pid) - before) / (received / MB)


async def fill(address: str) -> None:
    async with await Raw.connect(address) as raw:
        await raw.create_topic("t")
        for _ in range(4):
            assert (await raw.produce("t", batch_of(*[b"x" * 900] * 1000))).error_code == 0


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_client_that_fetches_on_costs_no_page_faults(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path).start()
    try:
        asyncio.run(fill(broker.address))
        partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=MB)
        request = FetchRequest(max_bytes=MB, min_bytes=1, topics=[FetchTopic("t", partitions=[partition])])
        data = b"".join(map(bytes, frame.encode_request(ApiKey.FETCH, 11, 1, "faults", request)))  # type: ignore[arg-type]
        host, _, port = broker.address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=60) as client:
            client.sendall(data * IN_FLIGHT)
            for _ in range(MEASURED):  # the first ones take what the others use again
                receive(client)
                client.sendall(data)
            # The first round may still map what later ones use again.
            assert min(faults_per_mb(client, data, broker.pid) for _ in range(5)) <= MAX_FAULTS_PER_MB
            for _ in range(IN_FLIGHT):
                receive(client)
    finally:
        broker.stop()
