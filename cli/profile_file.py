"""Profiles: named clusters with the configs of clients, in one small TOML file that people may edit.

    current = "staging"

    [profiles.staging]
    "bootstrap.servers" = "kafka-1:9092,kafka-2:9092"
    "request.timeout.ms" = "5000"

The file is ODRADEK_CONFIG, or odradek/profiles.toml in XDG_CONFIG_HOME (~/.config). Promise: it is replaced as a whole.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from .errors import CliError
from .private_file import write_private

FILE_VARIABLE = "ODRADEK_CONFIG"
ADDRESS_CONFIG = "bootstrap.servers"
# A key of TOML that needs no quotes.
_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


@dataclass(slots=True)
class Profile:
    """One cluster: its address and the configs of clients, all as texts under Kafka's names."""

    name: str
    configs: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def address(self) -> str | None:
        """The addresses of brokers (`bootstrap.servers`), or None."""
        return self.configs.get(ADDRESS_CONFIG)

    @property
    def client_configs(self) -> dict[str, str]:
        """All configs but the address."""
        return {name: value for name, value in self.configs.items() if name != ADDRESS_CONFIG}


@dataclass(slots=True)
class Profiles:
    """All profiles of a file, by name."""

    path: Path
    by_name: dict[str, Profile] = field(default_factory=dict[str, Profile])
    current: str | None = None

    @property
    def current_profile(self) -> Profile | None:
        """The profile that commands use where none is named, or None."""
        return None if self.current is None else self.get(self.current)

    def get(self, name: str) -> Profile:
        """Return a profile. CliError for an unknown name."""
        if name not in self.by_name:
            known = f"known are {', '.join(sorted(self.by_name))}" if self.by_name else "there are none yet"
            make = f'"odradek profile set {name} bootstrap.servers=HOST:PORT" makes it'
            raise CliError(f"there is no profile {name!r} in {self.path}: {known}; {make}")
        return self.by_name[name]

    def save(self) -> None:
        """Replace the file. CliError where that is not possible."""
        lines = [] if self.current is None else [f"current = {_quoted(self.current)}\n"]
        for name, profile in sorted(self.by_name.items()):
            lines.append(f"\n[profiles.{name if _BARE.fullmatch(name) else _quoted(name)}]\n")
            lines += [f"{_quoted(key)} = {_quoted(value)}\n" for key, value in sorted(profile.configs.items())]
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_private(self.path, "".join(lines).lstrip("\n"))
        except OSError as error:
            raise CliError(f"{self.path} cannot be written: {error.strerror or error}") from error


def path_of_file() -> Path:
    """Return where the profiles are kept."""
    named = os.environ.get(FILE_VARIABLE)
    if named:
        return Path(named)
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(home).expanduser() / "odradek" / "profiles.toml"


def load() -> Profiles:
    """Return the profiles of the file, none if there is no file. CliError for a file that cannot be read."""
    path = path_of_file()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Profiles(path)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise CliError(f"the profiles in {path} cannot be read: {why}") from error
    import tomllib

    try:
        return _from_values(path, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise CliError(f"the profiles in {path} cannot be read: {error}") from error


def _from_values(path: Path, values: dict[str, Any]) -> Profiles:
    """Return the profiles that a parsed file describes. CliError for what does not belong into it."""
    unknown = sorted(values.keys() - {"current", "profiles"})
    if unknown:
        raise CliError(f"the profiles in {path} cannot be read: it has {unknown[0]!r}, expected are current, profiles")
    current, tables = values.get("current"), values.get("profiles", {})
    if not isinstance(current, str | None) or not isinstance(tables, dict):
        raise CliError(f"the profiles in {path} cannot be read: current is a text, profiles are tables")
    profiles = Profiles(path, current=current)
    for name, table in cast("dict[str, Any]", tables).items():
        if not isinstance(table, dict):
            raise CliError(f"the profiles in {path} cannot be read: profile {name!r} is no table")
        texts = {key: value_text(value) for key, value in _flat(cast("dict[str, Any]", table))}
        profiles.by_name[name] = Profile(name, texts)
    return profiles


def _flat(table: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Return the entries of a table: in TOML a name with dots and without quotes is a table in a table."""
    found: list[tuple[str, Any]] = []
    for key, value in table.items():
        if isinstance(value, dict):
            found += _flat(cast("dict[str, Any]", value), f"{prefix}{key}.")
        else:
            found.append((prefix + key, value))
    return found


def value_text(value: object) -> str:
    """Return the text of a config's value."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quoted(text: str) -> str:
    return json.dumps(text).replace("\x7f", "\\u007f")
