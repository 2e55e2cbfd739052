"""Values of options: numbers, words, NAME=VALUE, units of configs (`1h` for milliseconds, `1GiB` for bytes), escapes.

A config takes a unit if its name says what it counts: `.ms`, `.seconds`, `.minutes` and `.hours` take times (ms, s,
min, h, d, w), names with `bytes` and `.buffer.size` take sizes (B, kB, MB, GB, TB by 1000; KiB, MiB, GiB, TiB by 1024),
and so do three configs of producers and the quotas that end with `_byte_rate`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from .errors import CliError, as_cli_error


class _Plain(click.ParamType[Any]):
    """A parameter type whose error says what the option takes, not what the value is not."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            raise NotTaken(f"takes {self.takes()}, not '{value}'", ctx, param) from None

    def takes(self) -> str:
        """Return what a value may be, in words."""
        raise NotImplementedError


class NotTaken(click.BadParameter):
    """A value that an option or an argument does not take. The message goes on behind its name."""


# The largest numbers that fields of Kafka's messages hold.
INT16, INT32, INT64 = (1 << 15) - 1, (1 << 31) - 1, (1 << 63) - 1


class WholeNumber(_Plain, click.IntRange):
    """An integer; `min` and `max` are allowed. None is larger than those of Kafka's messages."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if number > INT64:
            raise NotTaken(f"takes a whole number from {self.min or 0} to {INT64}, not '{value}'", ctx, param)
        return number

    def takes(self) -> str:
        return f"a whole number{_range(self)}"


class AnyWholeNumber(_Plain, click.types.IntParamType):
    """An integer, also a negative one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if abs(number) > INT64:
            raise NotTaken(f"takes a whole number from -{INT64} to {INT64}, not '{value}'", ctx, param)
        return number

    def takes(self) -> str:
        return "a whole number"


class Number(_Plain, click.FloatRange):
    """A number; `min` and `max` are allowed, but for an open `min`."""

    def takes(self) -> str:
        return f"a number{_range(self)}"


class OneOf(_Plain, click.Choice[str]):
    """One of some words."""

    def takes(self) -> str:
        *others, last = self.choices
        return f"{', '.join(others)} or {last}" if others else last


def _range(kind: click.IntRange | click.FloatRange) -> str:
    if kind.min is None:
        return ""
    if kind.max is not None:
        return f" from {kind.min} to {kind.max}"
    return f" above {kind.min}" if kind.min_open else f" of {kind.min} or more"


def parse_pair(text: str, source: str) -> tuple[str, str]:
    """Return name and value. UsageError for any other text; it says that `source`, an option, needs a pair."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise click.UsageError(f"{source} needs NAME=VALUE, got {text!r}")
    return name.strip(), value


def config_pairs(texts: Iterable[str], source: str) -> dict[str, str]:
    """Return configs by name, with units taken off their values. What they mean is then said on standard error.

    UsageError for a text that is no pair, and for a unit that does not fit.
    """
    configs: dict[str, str] = {}
    for text in texts:
        name, given = parse_pair(text, source)
        configs[name] = value = parse_value(name, given)
        if value != given:
            click.echo(f"{name}={value} ({readable(name, value) or given})", err=True)
    return configs


_TIMES_MS = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_SIZES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BINARY_SIZES = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
# What one of the config's own unit is in milliseconds.
_NAMES_MS = {"ms": 1, "seconds": 1000, "minutes": 60_000, "hours": 3_600_000}
_VALUE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)", re.ASCII)
_SIZES_OF_PRODUCERS = {"batch.size", "buffer.memory", "max.request.size"}
# Above this, a number stands for no limit.
_UNLIMITED = 1 << 60


def parse_value(name: str, text: str) -> str:
    """Return the value of a config without its unit; a text that has none as it is.

    UsageError for a unit that the config does not take, and for a value that is no whole number in its own unit.
    """
    match = _VALUE.fullmatch(text.strip())
    units = _units(name)
    if match is None or not units:
        return text
    from decimal import Decimal  # it takes longer to load than most commands, and few have a unit

    if match[2] not in units:
        raise click.UsageError(f"{name}={text}: units are {', '.join(units)}")
    number = Decimal(match[1]) * units[match[2]] / _own_unit(name)
    if number != int(number):
        raise click.UsageError(f"{name}={text}: that is {number.normalize():f} and no whole number")
    return str(int(number))


def readable(name: str, value: str | None) -> str | None:
    """Return a config's value with a unit, None where that says no more than the number."""
    units = _units(name)
    if value is None or not units or not value.isascii() or not value.isdigit():
        return None
    number = int(value) * _own_unit(name)
    if not 0 < number < _UNLIMITED:
        return None
    return time_text(number) if _own_name(name) in _NAMES_MS else size_text(number)


def size_text(number: int) -> str:
    """Return a number of bytes for people, exact or with one decimal: 1 GiB, 2 MB, 1.5 KiB, 17 B."""
    exact = [(size, unit) for unit, size in (_SIZES | _BINARY_SIZES).items() if size > 1 and not number % size]
    if exact and 0 < number // max(exact)[0] < 10_000:
        size, unit = max(exact)
        return f"{number // size} {unit}"
    for unit, size in reversed(_BINARY_SIZES.items()):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number} B"


def time_text(number_ms: int) -> str:
    """Return milliseconds for people, exact or with one decimal: 7 d, 1 h, 1.5 s, 20 ms."""
    units = [(size, unit) for unit, size in _TIMES_MS.items() if unit != "w"]
    exact = [pair for pair in units if number_ms and pair[0] > 1 and not number_ms % pair[0]]
    if exact:
        size, unit = max(exact)
        if number_ms // size < 1000 or unit == "d":
            return f"{number_ms // size} {unit}"
    for size, unit in reversed(units):
        if number_ms >= size > 1:
            return f"{number_ms / size:.1f} {unit}"
    return f"{number_ms} ms"


def _own_name(name: str) -> str:
    return name.rpartition(".")[2]


def _own_unit(name: str) -> int:
    return _NAMES_MS.get(_own_name(name), 1)


def _units(name: str) -> dict[str, int]:
    if _own_name(name) in _NAMES_MS:
        return _TIMES_MS
    if "bytes" in name.split(".") or name.endswith((".buffer.size", "_byte_rate")) or name in _SIZES_OF_PRODUCERS:
        return _SIZES | _BINARY_SIZES
    return {}


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_time_ms(text: str) -> int | None:
    """Return an ISO 8601 time (local if it has no zone) or a number of milliseconds since 1970; None for others."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def parse_search_time_ms(text: str) -> int | None:
    """Return such a time to look for records from it on. One before 1970 is 0: lower numbers stand for ends of logs."""
    found = parse_time_ms(text)
    return None if found is None else max(found, 0)


_ESCAPE = re.compile(rb"\\(x[0-9A-Fa-f]{2}|.|$)", re.DOTALL)
_CHARACTERS = {b"t": b"\t", b"n": b"\n", b"r": b"\r", b"0": b"\0", b"\\": b"\\"}


def unescape(text: str, source: str) -> bytes:
    """Return the bytes that `text` means. UsageError for an unknown escape; it names `source`, an option."""

    def character(match: re.Match[bytes]) -> bytes:
        code = match[1]
        if len(code) == 3:
            return bytes([int(code[1:], 16)])
        if code not in _CHARACTERS:
            raise click.UsageError(f"{source} knows \\t, \\n, \\r, \\0, \\\\ and \\xHH, not {match[0].decode()!r}")
        return _CHARACTERS[code]

    return _ESCAPE.sub(character, text.encode("utf-8", "surrogateescape"))


def properties_of(file: str) -> dict[str, str]:
    """Return the configs of a file such as server.properties. CliError for one that cannot be read."""
    from ..broker.configs.properties import PropertiesError, load

    with as_cli_error(PropertiesError):
        return load(Path(file))


def read_password(option: str, name: str) -> str:
    """Return the password in the file that an option names; - is standard input. CliError where there is none."""
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"{option} {name} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    # An editor ends the last line, and no password ends so.
    password = text.removesuffix("\n").removesuffix("\r")
    if not password:
        raise CliError(f"{option} {name} is empty")
    return password


def login_of(path: Path, option: str = "--login-file") -> str:
    """Return the NAME:PASSWORD of the file that an option names. CliError for a file without one."""
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise CliError(f"{option} {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CliError(f"{option} {path}: is no text in UTF-8") from error
    name, colon, password = text.partition(":")
    if not (name and colon and password) or "\n" in text:
        raise CliError(f"{option} {path}: one line NAME:PASSWORD is expected")
    return text
