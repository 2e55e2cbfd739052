"""What users pass to clients and their calls, checked; and what to write instead where it is another client's way.

    def __init__(self, *, linger_ms: float = 5, ...) -> None:
        given = check_options(locals())
        self._options = part_of(given, ProducerOptions)

Options are checked by the rows of the table, and divided among the parts that read them. A signature lists a client's
options for editors; a test compares it with the table.

A call takes what it is about as star-arguments, or as one list of them (`items_of`). Other clients call some methods
otherwise: Python's own errors for it do not say what to write.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar, cast

from ...protocol.topic_partition import TopicPartition
from ..errors import InvalidOption
from ..record import OffsetAndMetadata
from .descriptions import ConfigResource
from .option_table import CALL_NUMBERS, OPTIONS, OTHER_NAMES, TAKERS
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
_NAMES = re.compile(rf"\b({'|'.join(name for name in OPTIONS if '_' in name)})\b")
# What to call instead of a method of another Python client. docs/from-other-clients.md has all of them.
_METHODS_INSTEAD = {
    "bootstrap_connected": "is_connected tells it",
    "close": "call stop(), or use `with` or `async with`",
    "commit_async": "call commit()",
    "highwater": "call high_watermark(partition)",
    "incremental_alter_configs": "call alter_configs, which leaves the other configs as they are",
    "init_transactions": "start() does it",
    "list_topics": "call Admin.list_topics(), or partitions_for(topic)",
    "partitions_for_topic": "call partitions_for(topic)",
    "poll": "a consumer has getmany(timeout_ms=...) and getone(); a producer needs no polls",
    "produce": "call send(topic, value, key=...)",
    "seek_to_committed": "call seek(partition, offset) with the offset that committed(partition) returns",
    "topics": "call Admin.list_topics()",
    "unassign": "call unsubscribe()",
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


# -- Checks of options


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
        raise TypeError(f"{client} has no option {name!r}{instead_of(name) or _meant(client, name)}")
    return SecurityOptions(**arguments)


def nearest(name: str, known: Collection[str], otherwise: str) -> str:
    """Return what to write for a name that is not known: another client's, a like one, or where all of them stand."""
    found = [OTHER_NAMES[name].config] if name in OTHER_NAMES else get_close_matches(name.replace("_", "."), known, 1)
    return f"did you mean {found[0]}?" if found else otherwise


def _meant(client: str, name: str) -> str:
    """Return what was meant by a name that is like an option of this client, for the end of a message."""
    takers = {f"`{client}`", f"`{client}` in a group"}
    own = [each.name for each in OPTIONS.values() if any(TAKERS[taker] in takers for taker in each.takers.split())]
    found = get_close_matches(name, {*own, *SecurityArguments.__annotations__}, 1)
    return f": did you mean {found[0]}?" if found else ""


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


# -- Calls


class KnowsOtherNames:
    """A client that says what to call where somebody calls a method of another client."""

    if not TYPE_CHECKING:  # a type checker would take every name

        def __getattr__(self, name: str) -> object:
            instead = _METHODS_INSTEAD.get(name)
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(text if instead is None else f"{text}: {instead}", name=name, obj=self)


def is_partition(value: object) -> bool:
    """Return whether `value` is a TopicPartition, or a pair that equals one."""
    if not isinstance(value, tuple):
        return False
    pair = cast("tuple[object, ...]", value)
    return len(pair) == 2 and isinstance(pair[0], str) and hasattr(pair[1], "__index__")


def whole_number(value: object, name: str) -> int:
    """Return a whole number, such as numpy's, as an int. Raises TypeError for anything else, also for a float."""
    try:
        return index(cast("SupportsIndex", value))
    except TypeError:
        raise TypeError(f"{name} must be an int, not {type(value).__name__}") from None


def checked_offset(given: int | OffsetAndMetadata) -> OffsetAndMetadata:
    """Return an offset with its metadata. Raises TypeError, and InvalidOption for one below 0 or above 2^63 - 1."""
    offset = given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(whole_number(given, "an offset"))
    if not 0 <= whole_number(offset.offset, "an offset") < 1 << 63:
        raise InvalidOption(f"an offset is from 0 to 2^63 - 1, not {offset.offset}")
    return offset


def check_topic(name: object) -> None:
    """Raise TypeError unless `name` can be the name of a topic: metadata are asked for all watched topics at once."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a topic is a str, not {type(name).__name__}")


def check_mapping(call: str, given: object, of_what: str) -> None:
    """Raise TypeError unless the argument of `call` is a dict or the like."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{call} takes a dict of {of_what}, not a {type(given).__name__}")


def check_partitions(call: str, given: Iterable[object]) -> None:
    """Raise TypeError unless each element of the list that `call` takes is a TopicPartition."""
    for each in given:
        if not is_partition(each):
            raise TypeError(f"{call} takes TopicPartition(topic, number), from odradek.client, not {each!r:.100}")


def as_partition(call: str, given: TopicPartition) -> TopicPartition:
    """Return a TopicPartition, also for a pair that equals one. Raises TypeError for anything else."""
    check_partitions(call, [given])
    return TopicPartition(given[0], index(given[1]))


def by_partition(call: str, given: Mapping[TopicPartition, T], of_what: str) -> dict[TopicPartition, T]:
    """Return what `call` takes for each TopicPartition, also for pairs that equal one. Raises TypeError."""
    check_mapping(call, given, f"TopicPartition and {of_what}")
    return {as_partition(call, each): value for each, value in given.items()}


def items_of(call: str, kind: type[T], given: Iterable[T | Iterable[T]]) -> list[T]:
    """Return what `call` is about: its star-arguments, or the elements of the only one, if that is a list of them.

    A list is any iterable. A text, and a named tuple such as a TopicPartition, is one thing. Raises TypeError for
    anything that is no `kind`, nor a pair that equals a TopicPartition, nor another type of whole numbers.
    """
    items = list(given)
    if len(items) == 1 and not _is_one(items[0], kind):
        items = list(cast("Iterable[T]", items[0]))
    return [_checked_item(call, kind, each) for each in items]


def _is_one(given: object, kind: type) -> bool:
    """Return whether the only argument is one thing, also of a wrong kind. Names come in no dict: options would."""
    if isinstance(given, str | bytes | bytearray) or hasattr(given, "_fields") or is_partition(given):
        return True
    return not isinstance(given, Iterable) or (kind is str and isinstance(given, Mapping))


def _checked_item(call: str, kind: type[T], given: Any) -> T:
    if kind is TopicPartition:
        return cast("T", as_partition(call, given))
    if kind is int:
        return cast("T", whole_number(given, f"what {call} takes"))
    if isinstance(given, kind):
        return given
    name = type(given).__name__
    if kind is not str:
        made = "ConfigResource.topic(name) or the like" if kind is ConfigResource else f"{kind.__name__}(...)"
        raise TypeError(f"{call} takes {made}, from odradek.client, not {given!r:.100}")
    if isinstance(given, Mapping):
        raise TypeError(f"{call} takes options by name, not in a {name}: write {call}(bootstrap_servers=...)")
    raise TypeError(f"{call} takes names as str, not {name}")


def check_records(call: str, given: object) -> None:
    """Raise TypeError unless the records that `call` takes come from a plain iterable."""
    if isinstance(given, AsyncIterable):
        text = f"{call} takes an iterable, not an async one: write `async for key, value in ...: await send(...)`"
        raise TypeError(text)
    if not isinstance(given, Iterable):
        raise TypeError(f"{call} takes an iterable of pairs of key and value, not a {type(given).__name__}")
