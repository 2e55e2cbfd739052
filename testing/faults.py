"""A fault: what a test wants to happen to some requests at the broker's door.

A fault is in force when it is made. `with` ends it early, `times` after so many requests, a reset in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import Any

from ..broker.configs.definition import nearest
from ..protocol.apis import ApiKey, message
from ..protocol.errors import ErrorCode
from ..protocol.schema import Field, Message, Struct
from .errors import NeverFired, Unavailable

# The fields by which requests name a topic.
_NAMES = ("name", "topic", "topic_name")
_TOPIC_NAMES = ("topic", "topic_name", "topic_id")
_LOGIN = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
_INDEXES = ("index", "partition_index", "partition")


@dataclass(slots=True, eq=False)
class Fault:
    """A fault: the requests that it is for (None: any), and what happens to them."""

    what: str
    api: ApiKey | None = None
    topic: str | None = None
    partition: int | None = None
    client_id: str | None = None
    # How many requests it still waits for. None: it does not end by itself.
    left: int | None = None
    must_fire: bool = False
    # -- What happens
    delay_s: float = 0.0
    stalls: bool = False
    cuts: bool = False
    error: ErrorCode | None = None
    handler: Callable[[Any, Callable[[], Any]], Any] | None = None
    # Whether the broker carries the request out before the error or the cut.
    is_after: bool = False
    # How many requests it met.
    fired: int = 0
    end: Callable[[Fault], None] = field(default=lambda _: None, repr=False)
    # Called after its end, so that requests that stall look again.
    woken: Callable[[], None] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.left is not None and self.left < 1:
            raise Unavailable(f"{self.what} would meet no request: times is 1 or more, not {self.left}")
        if self.delay_s < 0:
            raise Unavailable(f"{self.what}: nothing can be delayed by less than 0 seconds")
        if self.api in _LOGIN:
            raise Unavailable(f"{self.what} would meet no request: the broker's connections handle logins themselves")
        if self.api is not None and self.names_place and not _names_topics(message(self.api, "request")):
            raise Unavailable(f"{self.what} would meet no request: {api_name(self.api)} names no topic")

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.end(self)
        if self.woken is not None:
            self.woken()
        if kind is None:
            self.check()

    def check(self) -> None:
        """Raise NeverFired where it should have met a request."""
        if self.must_fire and not self.fired:
            raise NeverFired(f"{self.what} never fired: no such request came")

    def concerns(self, key: int, client_id: str) -> bool:
        """Tell by its header whether a request may be meant."""
        is_over = self.left == 0
        return not is_over and self.api in (None, key) and self.client_id in (None, client_id)

    @property
    def names_place(self) -> bool:
        """Whether it is for a topic or a partition, so that the request's body decides."""
        return self.topic is not None or self.partition is not None

    def is_at(self, topic: str, partition: int | None) -> bool:
        """Tell whether a topic is meant, and of it a partition, where one is given."""
        return self.topic in (None, topic) and (None in (self.partition, partition) or self.partition == partition)

    def fire(self) -> None:
        """Count a request."""
        self.fired += 1
        if self.left is not None:
            self.left -= 1


def check(faults: Iterable[Fault]) -> None:
    """Raise NeverFired where one of them should have met a request."""
    for each in faults:
        each.check()


def api_named(name: str) -> ApiKey:
    """Return the API of a name as Kafka writes it: "Produce", "OffsetCommit". Unavailable names the nearest."""
    names = {_plain(each.name): each for each in ApiKey}
    key = names.get(_plain(name))
    if key is None:
        close, _ = nearest(_plain(name), names)
        hint = f": did you mean {api_name(names[close])}?" if close else ""
        raise Unavailable(f"Kafka has no API {name!r}{hint}")
    return key


def api_name(key: int) -> str:
    """Return Kafka's name of an API."""
    try:
        return "".join(word.capitalize() for word in ApiKey(key).name.split("_"))
    except ValueError:
        return f"API {key}"


def error_named(name: str | int | ErrorCode) -> ErrorCode:
    """Return the error of a name or number. Unavailable names the nearest."""
    if isinstance(name, int):
        return ErrorCode.of(name)
    found = ErrorCode.__members__.get(name.upper())
    if found is None:
        close, _ = nearest(name.replace("_", "."), [each.lower().replace("_", ".") for each in ErrorCode.__members__])
        hint = f": did you mean {close.upper().replace('.', '_')}?" if close else ""
        raise Unavailable(f"Kafka has no error {name!r}{hint}")
    return found


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


# -- The topics of a request


def places(message: Struct, name_of_id: Callable[[bytes], str | None]) -> Generator[tuple[str, int | None]]:
    """Yield the topics that a request names, each with each of its partitions, or None where it names none."""
    for items in _arrays(message):
        for item in items:
            topic = topic_of(item, name_of_id)
            if topic is None:
                if isinstance(item, Struct):
                    yield from places(item, name_of_id)
                continue
            partitions = [partition_of(each) for inner in _arrays(item) for each in inner]
            yield from ((topic, each) for each in partitions or [None])


def _names_topics(cls: type[Struct]) -> bool:
    """Tell whether such a message, or an entry in it, names topics."""
    return any(_is_of_topics(each) for each in cls.FIELDS if each.kind == "array" and each.of is None)


def _is_of_topics(array: Field) -> bool:
    entry = array.struct()
    names = {each.name for each in entry.FIELDS}
    # Users, protocols and configs have a `name`, too.
    return not names.isdisjoint(_TOPIC_NAMES) or ("name" in names and "topic" in array.name) or _names_topics(entry)


def topic_of(item: object, name_of_id: Callable[[bytes], str | None]) -> str | None:
    """Return the topic that an entry of a request is about; None where it is about something else."""
    if not isinstance(item, Struct):
        return None
    for name in _NAMES:
        if getattr(item, name, None):
            return str(getattr(item, name))
    topic_id = getattr(item, "topic_id", None)
    return name_of_id(topic_id) if topic_id and any(topic_id) else None


def partition_of(item: object) -> int | None:
    """Return the partition that an entry below a topic is about."""
    if isinstance(item, int):
        return item
    return next((getattr(item, name) for name in _INDEXES if hasattr(item, name)), None)


def _arrays(item: object) -> list[list[Any]]:
    if not isinstance(item, Struct):
        return []
    return [items_of(item, each.name) for each in type(item).FIELDS if each.kind == "array"]


def items_of(item: Struct, name: str) -> list[Any]:
    """Return the entries of a list in a message; none where it is null."""
    return getattr(item, name) or []


def is_about(fault: Fault, request: Message, name_of_id: Callable[[bytes], str | None]) -> bool:
    """Tell whether a request names the topic and partition of a fault."""
    return any(fault.is_at(*place) for place in places(request, name_of_id))
