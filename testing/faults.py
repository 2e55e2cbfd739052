"""A fault: what a test wants to happen to some requests at the broker's door.

A fault is in force when it is made. `with` ends it early, `times` after so many requests, a reset in any case.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import Any

from ..broker.configs.definition import nearest
from ..protocol.apis import ApiKey, key_of
from ..protocol.errors import ErrorCode
from ..protocol.schema import Message, has_field
from ..protocol.shapes.shape import Items
from ..protocol.shapes.table import SHAPES
from .errors import NeverFired, Unavailable

# The topic of an id; None where there is none.
Names = Callable[[bytes], str | None]

_LOGIN = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
# They change nothing, besides those whose names say so: of them no acknowledgement is lost.
_LOOKS = re.compile("(DESCRIBE|LIST)_.*|.*_DESCRIBE|FETCH|OFFSET_FETCH|METADATA|FIND_COORDINATOR|API_VERSIONS")


@dataclass(slots=True, eq=False)
class Fault:
    """A fault: the requests that it is for (None: any), and what happens to them."""

    what: str
    api: ApiKey | None = None
    topic: str | None = None
    partition: int | None = None
    client_id: str | None = None
    # The broker of a cluster that gets the requests.
    broker: int | None = None
    # In the place of `topic`: the id of one that may be gone.
    topic_id: bytes | None = None
    # How many requests it lets pass first.
    skip: int = 0
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
    # Whether its handler has failed.
    has_failed: bool = False
    end: Callable[[Fault], None] = field(default=lambda _: None, repr=False)
    # Called after its end, so that requests that stall look again.
    woken: Callable[[], None] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.left is not None and self.left < 1:
            raise Unavailable(f"{self.what} would meet no request: times is 1 or more, not {self.left}")
        if self.skip < 0:
            raise Unavailable(f"{self.what}: skip is 0 or more, not {self.skip}")
        if self.topic is not None and self.topic_id is not None:
            raise Unavailable(f"{self.what}: topic and topic_id are two names of one thing: give one of them")
        if not 0 <= self.delay_s < math.inf:
            raise Unavailable(f"{self.what}: a delay is a number of seconds, 0 or more")
        if self.api in _LOGIN:
            raise Unavailable(f"{self.what} would meet no request: the broker's connections handle logins themselves")
        if self.error is not None and self.is_after and self.api is not None and _LOOKS.fullmatch(self.api.name):
            raise Unavailable(f"{self.what} would lose no acknowledgement: {api_name(self.api)} changes nothing")
        if self.api is not None and self.names_place and not _names_topics(SHAPES[self.api].lists):
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

    def concerns(self, key: int, client_id: str, node: int | None) -> bool:
        """Tell by its header and its broker whether a request may be meant."""
        is_meant = self.api in (None, key) and self.client_id in (None, client_id) and self.broker in (None, node)
        return is_meant and self.left != 0

    @property
    def names_place(self) -> bool:
        """Whether it is for a topic or a partition, so that the request's body decides."""
        return self.topic is not None or self.topic_id is not None or self.partition is not None

    @property
    def waits(self) -> bool:
        """Whether it lets requests wait, and changes nothing else."""
        return self.stalls or self.delay_s > 0

    def names(self, names: Names) -> Names:
        """Return what names the topics of ids for it: the topic of its own id has a name also when it is gone."""
        topic_id = self.topic_id
        if topic_id is None:
            return names
        self.topic = topic = names(topic_id) or f"the topic of id {topic_id.hex()}"
        return lambda found: topic if found == topic_id else names(found)

    def is_at(self, topic: str, partition: int | None) -> bool:
        """Tell whether a topic is meant, and of it a partition, where one is given."""
        return self.topic in (None, topic) and (None in (self.partition, partition) or self.partition == partition)

    def passes(self) -> bool:
        """Let one of the first requests pass; False when they have come."""
        is_early = self.skip > 0
        self.skip -= is_early
        return is_early

    def fire(self) -> bool:
        """Count a request; False where it has met as many as it waited for."""
        if self.left == 0:
            return False
        self.fired += 1
        if self.left is not None:
            self.left -= 1
        return True

    def forget(self) -> None:
        """Count a request no more, which comes again."""
        self.fired -= 1
        if self.left is not None:
            self.left += 1


def check(faults: Iterable[Fault]) -> None:
    """Raise NeverFired where one of them should have met a request."""
    for each in faults:
        each.check()


def api_named(name: str) -> ApiKey:
    """Return the API of a name as Kafka writes it: "Produce", "OffsetCommit". Unavailable names the nearest."""
    key = {_plain(each.name): each for each in ApiKey}.get(_plain(name))
    if key is None:
        raise Unavailable(f"Kafka has no API {name!r}{_did_you_mean(name, map(api_name, ApiKey))}")
    return key


def api_name(key: int) -> str:
    """Return Kafka's name of an API."""
    try:
        return "".join(word.capitalize() for word in ApiKey(key).name.split("_"))
    except ValueError:
        return f"API {key}"


def error_named(name: str | int | ErrorCode) -> ErrorCode:
    """Return the error of a name or number. Unavailable names the nearest."""
    named = ErrorCode.__members__.get(str(name).upper())
    found = next((each for each in ErrorCode if each == name), None) if isinstance(name, int) else named
    if found is ErrorCode.NONE:
        raise Unavailable(f"{name!r} is no error")
    if found is None:
        raise Unavailable(f"Kafka has no error {name!r}{_did_you_mean(str(name), ErrorCode.__members__)}")
    return found


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    names = {_plain(each): each for each in known}
    close, _ = nearest(_plain(name), names)
    return f": did you mean {names[close]}?" if close else ""


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


# -- The topics of a request


def places(request: Message, version: int, names: Names) -> Generator[tuple[str, int | None]]:
    """Yield the topics that a request names, each with each of its partitions, or None where it names none."""
    assert request.KEY is not None
    for items in SHAPES[key_of(request.KEY)].lists:
        if has_field(type(request), items.within or items.items, version):
            yield from _places(items, items.of(request), names)


def _places(items: Items, all_items: list[Any], names: Names) -> Generator[tuple[str, int | None]]:
    inner = items.inner
    for item in all_items:
        if items.kind != "topic":
            yield from _places(inner, inner.of(item), names) if inner is not None else ()
            continue
        topic = topic_of(items, item, names)
        if topic is not None:
            partitions = [] if inner is None else [inner.identity(each) for each in inner.of(item)]
            yield from ((topic, each) for each in partitions or [None])


def _names_topics(lists: Iterable[Items]) -> bool:
    """Tell whether a request with these lists names topics."""
    return any(each.kind == "topic" or (each.inner is not None and _names_topics([each.inner])) for each in lists)


def topic_of(items: Items, item: Any, names: Names, *, is_result: bool = False) -> str | None:
    """Return the topic that an item of a request is about, or a result of its response; None where none has its id."""
    for mine, theirs in items.names:
        field = theirs if is_result else mine
        value = getattr(item, field) if field else item
        if isinstance(value, bytes):
            value = names(value) if any(value) else None
        if value:
            return str(value)
    return None
