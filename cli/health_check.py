"""Asks brokers whether they answer: one connection and one ApiVersions request each, of version 0, which every Kafka
since 0.10 answers.

A container asks every few seconds, and the imports of the command line would take most of the time. So this module does
`odradek ping` with plain options by itself, and imports sockets and next to nothing else: no click, no client, no
asyncio, and none of what they import. Everything else is left to the command in `ping.py`.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from struct import Struct

from .broker_address import ADDRESS_VARIABLE, BadAddress, nothing_listens, split_addresses

DEFAULT_TIMEOUT_S = 3.0
_OPTIONS = {"-b": "address", "--bootstrap-server": "address", "--timeout": "timeout"}
# ApiVersions version 0: its length, API key 18, version, correlation id, client id "odradek-ping".
_CLIENT_ID = b"odradek-ping"
_HEADER = Struct(">ihhih")
_CORRELATION_ID = 7
REQUEST = _HEADER.pack(10 + len(_CLIENT_ID), 18, 0, _CORRELATION_ID, len(_CLIENT_ID)) + _CLIENT_ID
# Length, correlation id and error code of the response.
_RESPONSE = Struct(">iih")
_MAX_RESPONSE_BYTES = 1 << 20


class NoAnswer(Exception):
    """A broker cannot be reached, is none, or does not answer in time; the message says which."""


def status_of(arguments: list[str]) -> int | None:
    """Do `odradek ping` with these arguments, and return its exit status.

    None leaves it to the command line, which asks again: help, JSON, profiles, wrong usage, and an output that fails.
    """
    asked = _plain(arguments)
    if asked is None or sys.stdout is None or sys.stderr is None:
        return None
    status = 0
    try:
        for address, answer in answers(*asked):
            if isinstance(answer, NoAnswer):
                status = 1
                print(f"odradek: {answer}", file=sys.stderr, flush=True)
            else:
                print(f"{address} answered in {time_ms(answer)} ms", flush=True)
    except (BadAddress, OSError, UnicodeError):
        return None
    return status


def _plain(arguments: list[str]) -> tuple[str, float] | None:
    """Return the addresses and the seconds to wait, or None where there is more to understand than these two."""
    names, values = arguments[::2], arguments[1::2]
    if len(names) != len(values) or any(name not in _OPTIONS for name in names):
        return None
    given = {_OPTIONS[name]: value for name, value in zip(names, values, strict=True)}
    address = given.get("address") or os.environ.get(ADDRESS_VARIABLE)
    try:
        timeout_s = float(given.get("timeout", DEFAULT_TIMEOUT_S))
    except ValueError:
        return None
    return (address, timeout_s) if address and timeout_s > 0 else None


def answers(addresses: str, timeout_s: float) -> Iterator[tuple[str, float | NoAnswer]]:
    """Ask one broker after the other: yield each address with the seconds until the answer, or why none came.

    Commas separate the addresses. Raises BadAddress before the first is asked.
    """
    for address, host, port in split_addresses(addresses):
        try:
            yield address, ask(address, host, port, timeout_s)
        except NoAnswer as no_answer:
            yield address, no_answer


def time_ms(seconds: float) -> float:
    """Return the time of an answer as it is printed."""
    return round(seconds * 1000, 1)


def ask(address: str, host: str, port: int, timeout_s: float) -> float:
    """Return the seconds until the broker has answered. NoAnswer if it does not, with the reason."""
    began_s = time.monotonic()
    deadline_s = began_s + timeout_s
    connected = False
    try:
        # A host as text would load the codec of international names; bytes do not (typeshed does not know that).
        name = host.encode() if host.isascii() else host
        with socket.create_connection((name, port), timeout_s) as connection:  # pyright: ignore[reportArgumentType]
            connected = True
            connection.sendall(REQUEST)
            size, correlation_id, error = _RESPONSE.unpack(_read(connection, _RESPONSE.size, deadline_s))
    except TimeoutError:
        what = "took the connection, but did not answer" if connected else "took no connection"
        raise NoAnswer(f"{address} {what} within {timeout_s:g} s") from None
    except (OSError, UnicodeError) as error:
        tried = f"{address} ({_reason(error)})"
        raise NoAnswer(f"cannot reach {tried}" if connected else nothing_listens(tried)) from error
    if correlation_id != _CORRELATION_ID or not _RESPONSE.size - 4 <= size <= _MAX_RESPONSE_BYTES:
        raise NoAnswer(f"{address} answered, but is no Kafka broker")
    if error:
        raise NoAnswer(f"{address} answered with error {error} to ApiVersions version 0")
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


def _reason(error: OSError | UnicodeError) -> str:
    # No host has a name that cannot be encoded.
    if isinstance(error, socket.gaierror | UnicodeError):
        return "no such host"
    return (error.strerror or str(error)).lower()
