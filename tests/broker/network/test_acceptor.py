"""The listening sockets: which addresses they take, and what happens to connections when they are renewed."""

from __future__ import annotations

import socket

import pytest
from odradek.broker import Broker
from odradek.client.core.connection import Connection
from odradek.client.errors import ConnectionLost
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse


async def metadata_of(address: str) -> MetadataResponse:
    """Ask a broker for its metadata."""
    host, _, port = address.rpartition(":")
    connection = await Connection.open(host.strip("[]"), int(port), client_id="mine")
    try:
        return await connection.request(MetadataRequest(topics=[]), MetadataResponse)
    finally:
        await connection.close()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this system has no socket for IPv4 and IPv6")
async def test_every_interface_of_ipv6_is_every_one_of_ipv4_too() -> None:
    async with Broker.ephemeral({"listeners": "PLAINTEXT://[::]:0"}) as broker:
        port = broker.address.removeprefix("[::]:")
        for host in ("127.0.0.1", "::1"):
            (told,) = (await metadata_of(f"{host}:{port}")).brokers
            assert (told.host, told.port) == (host, int(port))


@pytest.mark.parametrize("names", ["PLAINTEXT", "PLAINTEXT,OTHER"])
async def test_renewed_listeners_have_other_ports_and_no_connection(names: str) -> None:
    listeners = ",".join(f"{each}://127.0.0.1:0" for each in names.split(","))
    protocols = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT"}
    async with Broker.ephemeral({"listeners": listeners, **protocols}) as broker:
        before = broker.addresses
        host, _, port = broker.address.rpartition(":")
        open_before = await Connection.open(host, int(port), client_id="mine")
        await broker.acceptor.renew()
        with pytest.raises(ConnectionLost):
            await open_before.request(MetadataRequest(topics=[]), MetadataResponse)
        await open_before.close()
        assert len(broker.addresses) == len(before) and not {*before} & {*broker.addresses}
        for each in before:
            with pytest.raises(ConnectionLost):
                await metadata_of(each)
        for each in broker.addresses:
            assert len((await metadata_of(each)).brokers) == 1
