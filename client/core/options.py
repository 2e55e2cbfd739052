"""The options that clients are given: checked by the rows of the table, and divided among the parts that read them.

    def __init__(self, *, linger_ms: float = 5, ...) -> None:
        given = check_options(locals())
        self._options = part_of(given, ProducerOptions)

A signature lists a client's options for editors; a test compares it with the table.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, TypeVar

from ..errors import InvalidOption
from .option_table import CALL_NUMBERS, OPTIONS, OTHER_NAMES
from .option_values import SWITCH, bootstrap_addresses, check_value
from .security import PLAINTEXT, SecurityArguments, SecurityOptions

T = TypeVar("T")

# Options of other Python clients that are not needed here. docs/from-other-clients.md has all of them.
_NOT_NEEDED = {
    "allow_auto_create_topics": "a producer always asks for it",
    "api_version": "versions are agreed on with each broker",
    "bootstrap_timeout_ms": "wait_for_broker waits",
    "client_dns_lookup": "all addresses of a host are tried",
    "connections_max_idle_ms": "a connection that the broker closes is opened again when it is needed",
    "consumer_timeout_ms": "use getmany(timeout_ms=...)",
    "default_offset_commit_callback": "commit raises its error",
    "enable_incremental_fetch_sessions": "it is always on",
    "exclude_internal_topics": "a pattern never matches internal topics",
    "loop": "a client uses the loop that runs",
    "max_in_flight_requests_per_connection": "a consumer has one Fetch for each leader",
    "retries": "delivery_timeout_ms bounds the attempts",
    "ssl_ciphers": "set them in an ssl_context",
    "ssl_crlfile": "set it in an ssl_context",
}


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """How to reach a cluster, how long to wait and when to retry. Raises InvalidOption."""

    bootstrap_servers: str | Sequence[str]
    client_id: str = "odradek"
    request_timeout_ms: float = 30_000
    retry_backoff_ms: float = 100
    retry_backoff_max_ms: float = 1_000
    metadata_max_age_ms: float = 300_000
    # How long a call may wait in all, retries included (Kafka's default.api.timeout.ms and max.block.ms).
    default_api_timeout_ms: float = 60_000
    allow_auto_create_topics: bool = True
    security: SecurityOptions = PLAINTEXT

    def __post_init__(self) -> None:
        bootstrap_addresses(self.bootstrap_servers)
        check_options({each.name: getattr(self, each.name) for each in fields(self)})


def part_of(given: Mapping[str, Any], part: type[T], **more: Any) -> T:
    """Return the options that one part of a client reads, a dataclass: those of `given` that it has, and `more`."""
    names = (each.name for each in fields(part))  # pyright: ignore[reportArgumentType]
    return part(**({name: given[name] for name in names if name in given} | more))


# -- Checks


def check_options(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `given`. Raises InvalidOption if an option in it has a value that the table does not allow."""
    for name, value in given.items():
        if name in OPTIONS:
            check_value(name, value, OPTIONS[name].values)
    return given


def check_numbers(**given: object) -> None:
    """Raise InvalidOption unless each of these options, or arguments of a call, has a number of its range."""
    for name, value in given.items():
        check_value(name, value, CALL_NUMBERS[name] if name in CALL_NUMBERS else OPTIONS[name].values)


def check_switches(**given: object) -> None:
    """Raise InvalidOption unless each of these arguments is True or False: a text such as "false" would be true."""
    for name, value in given.items():
        check_value(name, value, SWITCH)


def check_stop_timeout(timeout_ms: float | None) -> None:
    """Raise InvalidOption unless it is None, or a time to wait."""
    if timeout_ms is not None:
        check_numbers(timeout_ms=timeout_ms)


def check_choice(name: str, value: str, choices: Collection[str]) -> None:
    """Raise InvalidOption unless `value` is one of `choices`."""
    if value not in choices:
        raise InvalidOption(f"{name} must be one of {', '.join(choices)}, not {value!r}")


# -- Names


def security_options(client: str, arguments: SecurityArguments) -> SecurityOptions:
    """Return the options from the rest of a client's arguments. Raises InvalidOption, and TypeError for other names."""
    unknown = arguments.keys() - SecurityArguments.__annotations__.keys()
    if unknown:
        name = min(unknown)
        raise TypeError(f"{client} has no option {name!r}{instead_of(name)}")
    return SecurityOptions(**arguments)


def nearest(name: str, known: Collection[str], otherwise: str) -> str:
    """Return what to write for a name that is not known: another client's, a like one, or where all of them stand."""
    found = [OTHER_NAMES[name].config] if name in OTHER_NAMES else get_close_matches(name.replace("_", "."), known, 1)
    return f"did you mean {found[0]}?" if found else otherwise


def instead_of(name: str) -> str:
    """Return what to write instead of an option that a client does not have, for the end of a message."""
    known = _NOT_NEEDED.get(name)
    if known is None and (other := OTHER_NAMES.get(name.replace("_", "."))):
        known = f"it is {other.name} here"
    if known is None and not name.isidentifier():
        known = f"options have underscores, such as {name.replace('.', '_').replace('-', '_')}"
    return "" if known is None else f": {known}"


def in_words_of_kafka(message: str, prefix: str = "") -> str:
    """Return an error's message with Kafka's names of options in the place of Python's."""
    return _NAMES.sub(lambda match: f"{prefix}{OPTIONS[match[0]].config}", message)


_NAMES = re.compile(rf"\b({'|'.join(name for name in OPTIONS if '_' in name)})\b")
