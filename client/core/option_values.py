"""The values that options can have: numbers within a range, a few words, True or False, texts, addresses of brokers.

The text of each kind ends "must be ...", and its `rejection` ends "'a text' is ...".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from ..errors import InvalidOption

INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1
DAY_MS = 24 * 3600 * 1000
# Texts have a length of 16 bits in requests.
MAX_TEXT_BYTES = 2**15 - 1
# Spark's units of a span of time.
_UNITS_MS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": DAY_MS, "us": 0.001}


class Values:
    """Values that the reader of an option checks. `words` name them."""

    words = ""

    def __init__(self, words: str) -> None:
        self.words = words

    def __str__(self) -> str:
        return self.words

    def rejection(self) -> str:
        """What a text is that is none of these values."""
        return f"not {self}"

    def has(self, value: object) -> bool:
        """Return whether `value` is one of these values."""
        return True

    def read(self, text: str) -> Any:
        """Return the value that a text gives, which `has` may reject. Raises ValueError."""
        return text


@dataclass(frozen=True)
class Number(Values):
    """The numbers from `lowest` to `highest`, both included; whole ones only, or any."""

    lowest: int
    highest: int = INT32_MAX
    is_whole: bool = True

    def __str__(self) -> str:
        return f"a {'whole ' if self.is_whole else ''}number from {self.lowest} to {self.highest}"

    def has(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int if self.is_whole else int | float):
            return False
        return self.lowest <= value <= self.highest

    def read(self, text: str) -> int | float:
        try:
            return int(text)
        except ValueError:
            if self.is_whole:
                raise
            return float(text)


@dataclass(frozen=True)
class Choice(Values):
    """One of a few values. Texts are taken in upper and lower case, and Python's values with `ignores_case`."""

    choices: tuple[Any, ...]
    words: str = ""
    ignores_case: bool = False
    hint: str = ""

    def __str__(self) -> str:
        return self.words or f"one of {', '.join(self.choices)}"

    def rejection(self) -> str:
        names = [each for each in self.choices if isinstance(each, str)]
        return (f"neither {' nor '.join(names)}" if len(names) == 2 else f"none of {', '.join(names)}") + self.hint

    def has(self, value: object) -> bool:
        if isinstance(value, bool):
            return False  # False equals 0: acks=False would lose records
        return (value.lower() if self.ignores_case and isinstance(value, str) else value) in self.choices

    def read(self, text: str) -> Any:
        wanted = text.strip().lower()
        return next((each for each in self.choices if isinstance(each, str) and each.lower() == wanted), None)


class Switch(Values):
    """True or False; a text such as "false" would be true in Python."""

    def rejection(self) -> str:
        return "neither true nor false"

    def has(self, value: object) -> bool:
        return isinstance(value, bool)

    def read(self, text: str) -> bool | None:
        return {"true": True, "false": False}.get(text.strip().lower())


class Text(Values):
    """None, or a text that fits into a request."""

    def has(self, value: object) -> bool:
        try:
            return value is None or (isinstance(value, str) and len(value.encode()) <= MAX_TEXT_BYTES)
        except UnicodeEncodeError:
            return False


class Time(Values):
    """Milliseconds since 1970; a text may be of ISO 8601, in UTC where it names no zone."""

    def rejection(self) -> str:
        return "neither milliseconds since 1970 nor a time from then on, as 2026-11-22T10:00:00Z"

    def read(self, text: str) -> int | None:
        text = text.strip()
        if not text:
            return None
        if text.isdecimal():
            found = int(text)
        else:
            moment = datetime.fromisoformat(text)
            found = round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
        if not 0 <= found <= INT64_MAX:
            raise ValueError  # brokers take numbers below 0 for the ends of a log
        return found


class Span(Values):
    """Milliseconds; a text may have one of Spark's units."""

    def rejection(self) -> str:
        return "no span of time, as 15m or 30s"

    def read(self, text: str) -> int:
        found = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
        if found is None or found[2] not in _UNITS_MS:
            raise ValueError
        return round(int(found[1]) * _UNITS_MS[found[2]])


SWITCH, TEXT = Switch("True or False"), Text(f"a text of {MAX_TEXT_BYTES} bytes or less")


def check_value(name: str, value: object, values: Values) -> None:
    """Raise InvalidOption unless `value` is one of `values`."""
    if not values.has(value):
        raise InvalidOption(f"{name} must be {values}, not {value!r:.100}")


def read_text(values: Values, text: str) -> Any:
    """Return the one of `values` that a text gives. Raises ValueError."""
    found = values.read(text)
    if not values.has(found):
        raise ValueError
    return found


Address = tuple[str, int]

DEFAULT_PORT = 9092


def bootstrap_addresses(servers: str | Sequence[str]) -> list[Address]:
    """Return the addresses in the given order. Raises InvalidOption, which names the wrong entry."""
    if isinstance(servers, Mapping):
        raise InvalidOption("bootstrap_servers is HOST:PORT or a list of it, not a dict: options are given by name")
    given: object = servers
    if not isinstance(given, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - what a caller may pass
        raise InvalidOption(f"bootstrap_servers is HOST:PORT or a list of it, not {given!r:.100}")
    entries = servers.split(",") if isinstance(servers, str) else list(servers)
    for entry in cast("Iterable[object]", entries):
        if not isinstance(entry, str):
            raise InvalidOption(f"bootstrap_servers takes each server as a text HOST:PORT, not as {entry!r:.100}")
    addresses = [_address(entry.strip()) for entry in entries if entry.strip()]
    if not addresses:
        raise InvalidOption(f"bootstrap_servers names no server: {servers!r}")
    return addresses


def broker_address(host: str, port: int | None) -> Address:
    """Return the address of one broker, which `host` holds whole, as "host:port", where there is no `port`.

    Raises InvalidOption.
    """
    if port is not None:
        return host, port
    addresses = bootstrap_addresses(host)
    if len(addresses) > 1:
        raise InvalidOption(f"{host!r} names {len(addresses)} servers; this client connects to one: HOST:PORT")
    return addresses[0]


def _address(entry: str) -> Address:
    if entry.startswith("["):
        host, _, rest = entry[1:].partition("]")
        port = rest.removeprefix(":")
    elif entry.count(":") > 1 and "/" not in entry:
        host, port = entry, ""  # a bare IPv6 address
    else:
        host, _, port = entry.partition(":")
    if not port and host and "/" not in host:
        return _checked(host), DEFAULT_PORT
    if not host or "/" in entry or not port.isdecimal() or not 0 < int(port) < 65536:
        raise InvalidOption(f"bootstrap_servers: {entry!r} is not HOST:PORT")
    return _checked(host), int(port)


def _checked(host: str) -> str:
    """Return a host name that can be looked up. Raises InvalidOption."""
    try:
        host.encode("idna")
    except UnicodeError:
        raise InvalidOption(f"bootstrap_servers: {host!r} is no host name") from None
    return host
