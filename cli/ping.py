"""`odradek ping`: does a broker answer? One connection and one ApiVersions request, for health checks.

A container runs it every few seconds, so it imports no client and no asyncio. It speaks version 0, which every Kafka
since 0.10 answers.
"""

from __future__ import annotations

import socket
import time
from struct import Struct

import click

from .connection_options import connection_options
from .errors import CliError, nothing_listens
from .output import as_json as json_text
from .output import json_option

_DEFAULT_PORT = 9092
# ApiVersions version 0: its length, API key 18, version, correlation id, client id "odradek-ping".
_CLIENT_ID = b"odradek-ping"
_HEADER = Struct(">ihhih")
_CORRELATION_ID = 7
_REQUEST = _HEADER.pack(10 + len(_CLIENT_ID), 18, 0, _CORRELATION_ID, len(_CLIENT_ID)) + _CLIENT_ID
# Length, correlation id and error code of the response.
_RESPONSE = Struct(">iih")
_MAX_RESPONSE_BYTES = 1 << 20


@click.command(short_help="Ask a broker whether it answers.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    default=3.0,
    show_default=True,
    help="How long to wait.",
)
@json_option
@connection_options()
def command(timeout: float, as_json: bool, bootstrap_server: str) -> None:
    """Connect to each broker of -b and ask for its API versions. Status 0 if all of them answer in time, otherwise 1.

    \b
    Examples:
      odradek ping
      odradek ping -b kafka-1:9092 --timeout 1
      odradek ping -b kafka-1:9092,kafka-2:9092 --json
    """
    failed = False
    for address in filter(None, map(str.strip, bootstrap_server.split(","))):
        time_ms = None
        try:
            time_ms = round(ask(address, timeout) * 1000, 1)
        except CliError as error:
            failed = True
            error.show()
        if as_json:
            click.echo(json_text({"broker": address, "answered": time_ms is not None, "time_ms": time_ms}))
        elif time_ms is not None:
            click.echo(f"{address} answered in {time_ms} ms")
    if failed:
        raise click.exceptions.Exit(1)


def ask(address: str, timeout_s: float) -> float:
    """Return the seconds until the broker at HOST:PORT has answered. CliError if it does not, with the reason."""
    host, port = _split(address)
    began_s = time.monotonic()
    deadline_s = began_s + timeout_s
    connected = False
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connected = True
            connection.sendall(_REQUEST)
            size, correlation_id, error = _RESPONSE.unpack(_read(connection, _RESPONSE.size, deadline_s))
    except TimeoutError:
        what = "took the connection, but did not answer" if connected else "took no connection"
        raise CliError(f"{address} {what} within {timeout_s:g} s") from None
    except OSError as error:
        tried = f"{address} ({_reason(error)})"
        raise (CliError(f"cannot reach {tried}") if connected else nothing_listens(tried)) from error
    if correlation_id != _CORRELATION_ID or not _RESPONSE.size - 4 <= size <= _MAX_RESPONSE_BYTES:
        raise CliError(f"{address} answered, but is no Kafka broker")
    if error:
        raise CliError(f"{address} answered with error {error} to ApiVersions version 0")
    return time.monotonic() - began_s


def _read(connection: socket.socket, size: int, deadline_s: float) -> bytes:
    """Return `size` bytes. Raises OSError where the connection ends before, and TimeoutError at the deadline."""
    data = b""
    while len(data) < size:
        connection.settimeout(max(deadline_s - time.monotonic(), 0.001))
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionResetError(None, "it closed the connection; is this the port of a broker?")
        data += more
    return data


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower() if not isinstance(error, socket.gaierror) else "no such host"


def _split(address: str) -> tuple[str, int]:
    """Return host and port. UsageError for anything but HOST, HOST:PORT and [HOST]:PORT."""
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]") or (":" in host and not host.startswith("[")):
        return address.strip("[]"), _DEFAULT_PORT
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise click.UsageError(f"-b is HOST:PORT, not {address!r}")
    return host.strip("[]"), int(port)
