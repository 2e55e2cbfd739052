"""What Kafka's releases serve: the highest version of each API, so that a broker in a test can play an older one.

A release is served as far as this broker goes: Kafka 2.8 answers CreateTopics 0, and this broker begins at 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from ..broker.configs.definition import suggestion
from ..protocol.apis import ApiKey
from .errors import Unavailable

# What each release has raised since the one before: API key:highest version.
_RAISED = {
    "0.10.2": "0:2 1:3 2:1 3:2 8:2 9:1 10:0 11:1 12:0 13:0 14:0 15:0 16:0 17:0 18:0 19:1 20:0",
    "0.11": "0:3 1:5 2:2 3:4 8:3 9:3 10:1 11:2 12:1 13:1 14:1 15:1 16:1 18:1 19:2 20:1 21:0 22:0 23:0 24:0 25:0 26:0 "
    "27:0 28:0 29:0 30:0 31:0 32:0 33:0",
    "1.0": "0:5 1:6 3:5 17:1 34:0 35:0 36:0 37:0",
    "1.1": "1:7 32:1 38:0 39:0 40:0 41:0 42:0",
    "2.0": "0:6 1:8 2:3 3:6 8:4 9:4 10:2 11:3 12:2 13:2 14:2 15:2 16:2 18:2 19:3 20:2 21:1 22:1 23:1 24:1 25:1 26:1 "
    "28:1 29:1 30:1 31:1 32:2 33:1 34:1 35:1 37:1 38:1 39:1 40:1 41:1 42:1",
    "2.1": "0:7 1:10 2:4 3:7 8:6 9:5 20:3 23:2 28:2",
    "2.2": "2:5 11:4 36:1 43:0",
    "2.3": "1:11 3:8 8:7 11:5 12:3 14:3 15:3 23:3 44:0",
    "2.4": "0:8 3:9 8:8 9:6 10:3 11:6 12:4 13:4 14:4 15:5 16:3 18:3 19:5 20:4 22:2 38:2 42:2 43:2 44:1 45:0 46:0 47:0",
    "2.5": "9:7 11:7 14:5 22:3 28:3 29:2 30:2 31:2 36:2 37:2 39:2 40:2 41:2",
    "2.6": "16:4 21:2 32:3 35:2 48:0 49:0",
    "2.7": "1:12 19:6 20:5 22:4 24:2 25:2 26:2 37:3 50:0 51:0 57:0",
    "2.8": "0:9 2:6 3:11 19:7 20:6 23:4 24:3 25:3 26:3 27:1 32:4 33:2 34:2 48:1 49:1 60:0 61:0",
    "3.0": "2:7 9:8 10:4 65:0 66:0",
    "3.1": "1:13 3:12",
    "3.2": "11:9 13:5 35:3",
    "3.3": "29:3 30:3 31:3 35:4 38:3 41:3 57:1",
    "3.4": "",
    "3.5": "1:15 2:8",
    "3.6": "24:4",
    "3.7": "0:10 1:16 8:9 9:9 60:1 68:0 71:0 72:0 74:0",
    "3.8": "0:11 10:5 16:5 22:5 24:5 25:4 26:4 28:4 66:1 69:0 75:0",
    "3.9": "1:17 2:9 10:6 18:4",
    "4.0": "0:12 2:10 3:13 15:6 26:5 28:5 57:2 60:2 68:1 69:1",
    "4.1": "0:13 1:18 45:1 66:2 74:1 76:1 77:1 78:1 79:1 90:0 91:0 92:0",
    "4.2": "2:11 8:10 9:10 27:2 78:2 79:2 88:0 89:0 90:1",
    "4.3": "35:5",
}
# The lowest versions, where they are not 0: Kafka 4 dropped those of clients before 2.1 (KIP-896).
_DROPPED = {
    "4.0": "0:3 1:4 2:1 8:2 9:1 11:2 19:2 20:1 23:2 27:1 29:1 30:1 31:1 32:1 34:1 35:1 38:1 39:1 40:1 41:1",
    "4.1": "11:0 76:1 77:1 78:1 79:1",
}
# An older release does not say which versions of ApiVersions it serves, when it refuses one (KIP-511).
_NAMES_RANGE_SINCE = "2.4"
# Older ones know neither transactions of KIP-890 nor groups of KIP-848, which clients find among the features.
_FEATURES_SINCE = "4.0"
_ORDER = list(_RAISED)


class Release:
    """One release of Kafka: "2.8", or "2.8.1". Unavailable names the nearest of those that can be played."""

    def __init__(self, text: str) -> None:
        self.name = _known(text)
        self._served = _served(self.name)

    def serves(self, key: int, version: int) -> bool:
        """Tell whether the release serves a version of an API."""
        return version in self.versions(key)

    def versions(self, key: int) -> range:
        """Return the versions of an API that the release serves: none where it does not have it."""
        return self._served.get(key, range(0))

    @property
    def names_range(self) -> bool:
        """Whether it answers a version of ApiVersions that it does not know with those that it does."""
        return self._is_since(_NAMES_RANGE_SINCE)

    @property
    def has_features(self) -> bool:
        """Whether it has the features that this broker has."""
        return self._is_since(_FEATURES_SINCE)

    def _is_since(self, name: str) -> bool:
        return _ORDER.index(self.name) >= _ORDER.index(name)


def _known(text: str) -> str:
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        # 3.1 and 3.10 are one number.
        raise Unavailable(f"versions is a text: versions={str(text)!r}, not {text!r}")
    parts = text.split(".")
    for name in (text, ".".join(parts[:2]), ".".join(parts[:3])):
        if name in _RAISED:
            return name
    why = f"there is no release {text!r} of Kafka that a broker can play{suggestion(text, _RAISED)}"
    raise Unavailable(f"{why}; there are {', '.join(_RAISED)}")


@cache
def _served(name: str) -> Mapping[int, range]:
    """Return the versions of each API in a release."""
    highest: dict[int, int] = {}
    lowest: dict[int, int] = {}
    for each in _ORDER[: _ORDER.index(name) + 1]:
        highest.update(_pairs(_RAISED[each]))
        lowest.update(_pairs(_DROPPED.get(each, "")))
    return {ApiKey(key): range(lowest.get(key, 0), most + 1) for key, most in highest.items()}


def _pairs(text: str) -> list[tuple[int, int]]:
    return [(int(key), int(version)) for key, _, version in (each.partition(":") for each in text.split())]
