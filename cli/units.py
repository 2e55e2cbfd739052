"""Units of config values: `1h` for milliseconds and `1GiB` for bytes, and back.

A config takes a unit if its name says what it counts: `.ms`, `.seconds`, `.minutes` and `.hours` take times (ms, s,
min, h, d, w), names with `bytes` and `.buffer.size` take sizes (B, kB, MB, GB, TB by 1000; KiB, MiB, GiB, TiB by 1024),
and so do three configs of producers.
"""

from __future__ import annotations

import re

import click

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
    if number and exact:
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
    if "bytes" in name.split(".") or name.endswith(".buffer.size") or name in _SIZES_OF_PRODUCERS:
        return _SIZES | _BINARY_SIZES
    return {}
