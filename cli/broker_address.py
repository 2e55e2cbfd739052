"""The address of a broker as users write it: where it may be given, its form, and what is said where nobody listens.

This module imports nothing, because a health check uses it.
"""

from __future__ import annotations

DEFAULT_PORT = 9092
DEFAULT_ADDRESS = f"127.0.0.1:{DEFAULT_PORT}"
# The environment's address of the broker.
ADDRESS_VARIABLE = "ODRADEK_BOOTSTRAP_SERVER"


class BadAddress(Exception):
    """A text is neither HOST nor HOST:PORT; the message says how to write one."""


def split_addresses(texts: str) -> list[tuple[str, str, int]]:
    """Return the text, host and port of each address, which commas separate. Raises BadAddress."""
    addresses = [(text, *_split(text)) for text in filter(None, map(str.strip, texts.split(",")))]
    if not addresses:
        raise BadAddress(f"-b is HOST:PORT, not {texts!r}")
    return addresses


def _split(text: str) -> tuple[str, int]:
    """Return the host and port of HOST, HOST:PORT or [HOST]:PORT."""
    if "/" in text:  # as in advertised.listeners
        raise BadAddress(f"-b is HOST:PORT, not {text!r}")
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]") or (":" in host and not host.startswith("[")):
        return text.strip("[]"), DEFAULT_PORT
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise BadAddress(f"-b is HOST:PORT, not {text!r}")
    return host.strip("[]"), int(port)


def nothing_listens(tried: str) -> str:
    """Return the error of an address where no broker listens: `tried` has it with the reason."""
    return f'cannot reach {tried}. Start a broker with "odradek serve", or pass -b.'
