"""What the user of a consumer says: its options for fetching, its group and `consume`, and its subscription."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from ..assignors import Assignor
from ..core.clock import wall_clock_ms
from ..core.leaders import ISOLATION_LEVELS
from ..core.metadata import ClusterView
from ..core.option_table import OPTIONS
from ..core.options import check_choice, check_numbers, check_switches, part_of
from ..errors import InvalidOption
from ..record import EARLIEST, LATEST, TopicPartition

_RESETS = {"earliest": EARLIEST, "latest": LATEST, "none": None}
_BY_DURATION = "by_duration:"
# Durations of ISO 8601: "PT1H", "P1DT12H", "PT0.5S".
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,9})?)S)?)?", re.IGNORECASE)
_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1_000)


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """What to fetch, and how much at a time. Options without a comment are those of the consumer."""

    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    check_crcs: bool
    # READ_UNCOMMITTED or READ_COMMITTED.
    isolation_level: int
    # auto_offset_reset, as the timestamp for ListOffsets as of now; None for "none".
    reset: Callable[[], int] | None
    # "" for none: the client may fetch from a follower in its rack (KIP-392).
    client_rack: str


def fetch_options(given: Mapping[str, Any]) -> FetchOptions:
    """Return the options of fetching from those of a consumer. Raises InvalidOption."""
    if given["request_timeout_ms"] <= given["fetch_max_wait_ms"]:
        raise InvalidOption("request_timeout_ms must be above fetch_max_wait_ms")
    return part_of(
        given,
        FetchOptions,
        isolation_level=ISOLATION_LEVELS[given["isolation_level"]],
        reset=_reset(given["auto_offset_reset"]),
        client_rack=given["client_rack"] or "",
    )


def _reset(text: str) -> Callable[[], int] | None:
    if text.startswith(_BY_DURATION):
        youngest_ms = duration_ms(text.removeprefix(_BY_DURATION))
        return lambda: max(wall_clock_ms() - youngest_ms, 0)
    check_choice("auto_offset_reset", text, [*_RESETS, f"{_BY_DURATION}PT1H"])
    end = _RESETS.get(text)
    return None if end is None else lambda: end


def duration_ms(text: str) -> int:
    """Return a duration in milliseconds. Raises InvalidOption if it is none, or negative."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()) or text[-1] in "Tt":
        raise InvalidOption(f'{text!r} is no duration: write "PT1H" for an hour, "P7D" for seven days')
    return round(sum(float(count) * unit for count, unit in zip(match.groups(), _UNITS_MS, strict=True) if count))


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """Kafka's options of the same names. A member of a share group has those without a default."""

    group_id: str
    max_poll_interval_ms: int
    client_rack: str | None
    group_instance_id: str | None = None
    session_timeout_ms: int = 0
    heartbeat_interval_ms: float = 0
    assignors: Sequence[Assignor] = ()
    # "classic" or "consumer"; "auto": the group is asked whether it takes the consumer protocol.
    group_protocol: str = "share"
    # The coordinator's assignor; None: the one that the group has.
    group_remote_assignor: str | None = None


def group_options(given: Mapping[str, Any]) -> GroupOptions | None:
    """Return the options of membership from those of a consumer, None without a group. Raises InvalidOption."""
    if given["group_id"] == "":
        raise InvalidOption("group_id must not be empty: leave it out for no group")
    if given["group_instance_id"] == "":
        raise InvalidOption("group_instance_id must not be empty: leave it out for a member that is not static")
    interval_ms, timeout_ms = given["heartbeat_interval_ms"], given["session_timeout_ms"]
    if interval_ms >= timeout_ms:
        raise InvalidOption(f"heartbeat_interval_ms ({interval_ms:g}) must be below session_timeout_ms ({timeout_ms})")
    assignors = _assignors(given["partition_assignment_strategy"])
    if not assignors:
        raise InvalidOption("partition_assignment_strategy must name one assignor at least")
    _check_protocol(given)
    if given["group_id"] is None:
        return None
    protocol = given["group_protocol"]
    if protocol == "auto" and _classic_options(given):
        protocol = "classic"
    if protocol == "auto" and given["group_remote_assignor"] is not None:
        protocol = "consumer"
    return part_of(given, GroupOptions, assignors=assignors, group_protocol=protocol)


def _check_protocol(given: Mapping[str, Any]) -> None:
    """Raise InvalidOption for an option of the other protocol, which nothing would act on."""
    classic, assignor = _classic_options(given), given["group_remote_assignor"]
    if given["group_protocol"] == "consumer" and classic:
        raise InvalidOption(f"{classic[0]} is for group_protocol='classic': with 'consumer', the broker decides that")
    if assignor is not None and not isinstance(assignor, str):
        raise InvalidOption(f"group_remote_assignor takes the name of a broker's assignor, not {assignor!r}")
    if assignor is not None and given["group_protocol"] == "classic":
        raise InvalidOption("group_remote_assignor needs group_protocol='consumer': the classic protocol has none")
    if assignor is not None and classic:
        raise InvalidOption(f"group_remote_assignor is for group_protocol='consumer', and {classic[0]} for 'classic'")


def _classic_options(given: Mapping[str, Any]) -> list[str]:
    """Return the options of the classic protocol that have other values than their defaults."""
    names = ("partition_assignment_strategy", "session_timeout_ms", "heartbeat_interval_ms")
    found = [name for name in names[1:] if given[name] != OPTIONS[name].default]
    strategies = tuple(each.__name__ for each in given[names[0]] if isinstance(each, type))
    return ([] if strategies == OPTIONS[names[0]].default else [names[0]]) + found


def _assignors(strategies: Sequence[object]) -> list[Assignor]:
    """Return one assignor of each class. Raises InvalidOption for anything else, such as a name."""
    found: list[Assignor] = []
    for each in strategies if not isinstance(strategies, str) else [strategies]:
        if not isinstance(each, type) or not issubclass(each, Assignor):
            text = f"partition_assignment_strategy takes classes, such as [RangeAssignor], not {each!r}"
            raise InvalidOption(text)
        found.append(each())
    return found


@dataclass(frozen=True, slots=True)
class WorkOptions:
    """How `consume` works. Raises InvalidOption."""

    concurrency: int
    by_key: bool
    attempts: int
    retry_backoff_ms: float
    retry_backoff_max_ms: float
    drain_timeout_ms: float

    def __post_init__(self) -> None:
        given = asdict(self)
        check_switches(by_key=given.pop("by_key"))
        check_numbers(**given)


# -- What is read


class RebalanceListener(Protocol):
    """Called when partitions come and go; heartbeats go on meanwhile. `on_partitions_revoked` can still commit offsets.

    If a method raises, the consumer leaves the group, and every poll raises ListenerFailed until the topics are
    subscribed again.
    """

    async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        """These partitions are about to be given up."""
        ...

    async def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        """These partitions are new."""
        ...

    async def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        """Other members have these partitions already; a commit would fail."""
        ...


@dataclass(slots=True, eq=False)
class Subscription:
    """What the user wants to read. It outlives a stop: the next start reads it again."""

    # With a pattern, the topics that it matches now.
    topics: set[str] = field(default_factory=set[str])
    pattern: re.Pattern[str] | None = None
    # The pattern as the broker matches it; None if this client does.
    broker_pattern: str | None = None
    # Assigned by hand, in the place of topics; None if they are not.
    partitions: tuple[TopicPartition, ...] | None = None
    listener: RebalanceListener | None = None

    @property
    def is_made(self) -> bool:
        """Whether the user has said what to read. `assign` of nothing says so, too: more may follow."""
        return bool(self.topics) or self.pattern is not None or self.partitions is not None

    def read_topics(self) -> set[str]:
        """Return all topics that are read now."""
        return self.topics | {partition.topic for partition in self.partitions or ()}

    def matched(self, view: ClusterView) -> set[str]:
        """Return the topics to read in a view of the cluster: those that match, but no internal ones."""
        if self.pattern is None:
            return self.topics
        known = (info for info in view.topics.values() if not info.is_internal)
        return {info.name for info in known if self.pattern.fullmatch(info.name)}


def compiled_pattern(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    """Return the pattern of the topics to read. Raises InvalidOption for what is none."""
    try:
        compiled = re.compile(pattern)
        compiled.fullmatch("")  # not where it is one of bytes
        return compiled
    except (re.error, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidOption(f"pattern={pattern!r} is no regular expression: {error}") from error


# Patterns that brokers match: Python's syntax as far as RE2 has it, in RE2's words. RE2 has neither look-arounds nor
# back-references, so that a match takes linear time. A pattern that uses them is rejected here: the broker would reject
# it too, but without the reason.
_FLAGS = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s"}
# Python's own, outside of classes of characters: what it is, and its name.
_PYTHON_ONLY = (
    (re.compile(r"\(\?<?[=!]"), "a look-around"),
    (re.compile(r"\\[1-9]|\(\?P="), "a back-reference"),
    (re.compile(r"\(\?\("), "a condition"),
    (re.compile(r"\(\?>|[*+?}]\+"), "a possessive repeat"),
    (re.compile(r"\(\?#"), "a comment"),
    (re.compile(r"\\Z"), r"\Z"),
)
# One piece of a pattern: an escaped character, a class of characters, or anything else.
_PIECES = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)


def broker_pattern(pattern: str | re.Pattern[str]) -> str:
    """Return a pattern as a broker takes it. Raises InvalidOption for what only Python has."""
    compiled = compiled_pattern(pattern)
    text = compiled.pattern
    if compiled.flags & re.VERBOSE:
        raise _rejection(text, "the flag VERBOSE")
    outside = "".join(piece if not piece.startswith("[") else "[]" for piece in _PIECES.findall(text))
    unescaped = re.sub(r"\\[^1-9Z]", "x", outside)
    for found, name in _PYTHON_ONLY:
        if found.search(unescaped):
            raise _rejection(text, name)
    inline = re.match(r"\(\?[aiLmsux]+\)", text)
    flags = "".join(letter for flag, letter in _FLAGS.items() if compiled.flags & flag)
    if inline is not None:
        text = text[inline.end() :]
    return f"(?{flags}){text}" if flags else text


def _rejection(pattern: str, name: str) -> InvalidOption:
    return InvalidOption(
        f"brokers match patterns by RE2, which does not have {name}, as in {pattern!r}: "
        "write it otherwise, or take group_protocol='classic', where the client matches"
    )
