"""A Kafka in the test's hand, of one broker or several: faults, recordings, answers of the test, and time.

A test calls it from its own thread. What changes the brokers runs on their loop (interventions.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

from ..broker.broker_thread import StopError
from ..broker.server import Broker
from ..protocol.errors import InvalidField
from ..protocol.primitives import uuid_from_text
from . import interventions
from .door import Door
from .errors import Unavailable
from .faults import Fault, api_name, api_named, check, error_named
from .own import OwnKafka
from .requests import Seen

R = TypeVar("R")
_TOPIC_ID_BYTES = 16
# Answers a request: the decoded request and `proceed` go in, a response or None comes out.
Handler = Callable[[Any, Callable[[], Any]], Any]


class ControlledKafka(OwnKafka):
    """A Kafka of this process: brokers of one event loop, with one clock and one door for their clients."""

    def _prepare(self) -> None:
        self._clock = interventions.MovableClock()
        self._door = Door(self._topic_of)

    def _topic_of(self, topic_id: bytes) -> str | None:
        """Return the topic of an id."""
        raise NotImplementedError

    def _on_loop(self, work: Callable[[Sequence[Broker]], Coroutine[Any, Any, R]]) -> R:
        """Run `work` for the brokers that run, on their loop, and return its result."""
        raise NotImplementedError

    def reset(self) -> None:
        """Begin anew, as all Kafkas of a test do, and without faults. The clock keeps its time.

        NeverFired where a fault should have met a request, and has not.
        """
        ended = self._door.end_all()
        self._door.forget()
        super().reset()
        check(ended)

    @property
    def is_alive(self) -> bool:
        """Whether the brokers' loop answers its own thread."""
        try:
            self._on_loop(lambda _: asyncio.sleep(0))
        except (StopError, Unavailable):
            return False
        return True

    def fail(
        self,
        api: str,
        error: str | int,
        *,
        times: int | None = None,
        skip: int = 0,
        topic: str | None = None,
        topic_id: bytes | UUID | str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        broker: int | None = None,
        after_append: bool = False,
        must_fire: bool = False,
    ) -> Fault:
        """Answer requests of an API with an error, all of them or `times` ones, behind `skip` that pass.

        With `after_append` the broker carries the request out first: the acknowledgement is lost. A topic made again
        under its name has another `topic_id`, which is 16 bytes, a UUID or Kafka's text. `broker` is a node id.
        """
        key, code = api_named(api), error_named(error)
        what = f"fail({api_name(key)!r}, {code.name!r})"
        place = topic, partition, client_id, self._node(broker), _topic_id(topic_id)
        fault = Fault(what, key, *place, skip, times, must_fire=must_fire, error=code, is_after=after_append)
        return self._door.add(fault)

    def delay(
        self,
        api: str | None,
        seconds: float,
        *,
        times: int | None = None,
        client_id: str | None = None,
        broker: int | None = None,
    ) -> Fault:
        """Let requests of an API, or of all (None), wait before the broker handles them."""
        if not isinstance(seconds, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise Unavailable(f"a delay is a number of seconds, not {seconds!r}")
        what = f"delay({api and api_name(api_named(api))!r}, {seconds:g})"
        return self._add(what, api, client_id, broker, left=times, delay_s=seconds)

    def stall(self, api: str | None = None, *, client_id: str | None = None, broker: int | None = None) -> Fault:
        """Answer nothing, or nothing of one API, client or broker, until `resume`, or the end of `with`."""
        return self._add(f"stall({api or ''})", api, client_id, broker, stalls=True, woken=self._wake)

    def resume(self) -> None:
        """End all stalls: what waited is answered."""
        self._door.end_stalls()
        self._wake()

    def cut(
        self,
        api: str | None = None,
        *,
        client_id: str | None = None,
        broker: int | None = None,
        in_answer: bool = False,
        times: int | None = 1,
        must_fire: bool = False,
    ) -> Fault | None:
        """Cut the open connections, of all clients or of one, to all brokers or to one.

        With an API: cut when such a request comes. With `in_answer` the broker carries the request out, and the
        connection ends in the middle of the response.
        """
        if api is None and not in_answer:
            self._on_loop(lambda _: self._door.cut(client_id, self._node(broker)))
            return None
        how: dict[str, Any] = {"left": times, "must_fire": must_fire, "cuts": True, "is_after": in_answer}
        return self._add(f"cut({api or ''})", api, client_id, broker, **how)

    def on(
        self, api: str, *, times: int | None = None, client_id: str | None = None, broker: int | None = None
    ) -> Callable[[Handler], Fault]:
        """Let a function answer the requests of an API: `@kafka.on("Metadata")`.

        It gets the decoded request and `proceed`, which has the broker answer. It returns a response, raises a
        KafkaError, or returns None: then the client gets the broker's answer. It runs in a thread of its own.
        """
        key, node = api_named(api), self._node(broker)

        def decorate(handler: Handler) -> Fault:
            what = f"the handler on({api_name(key)!r})"
            return self._door.add(Fault(what, key, client_id=client_id, broker=node, left=times, handler=handler))

        return decorate

    @contextmanager
    def requests(self) -> Generator[Seen]:
        """Record the requests that come within the `with` block, and their responses."""
        seen = Seen()
        self._door.record(seen)
        try:
            yield seen
        finally:
            self._door.stop_recording(seen)

    def end_faults(self) -> None:
        """End all faults. NeverFired where one should have met a request, and has not."""
        ended = self._door.end_all()
        self._wake()
        check(ended)

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        try:
            if kind is None and self.is_alive:
                self.end_faults()
        finally:
            self.close()

    def _now_ms(self) -> int:
        return self._clock.now_ms()

    def recent_requests(self) -> list[str]:
        """Return the last requests, one a line, the newest last."""
        return self._door.recent()

    def handler_failures(self) -> list[str]:
        """Return what went wrong in functions of `on`."""
        return self._door.failures()

    def _add(self, what: str, api: str | None, client_id: str | None, broker: int | None, **how: Any) -> Fault:
        """Put a fault of requests of an API, or of all, in force."""
        key = None if api is None else api_named(api)
        return self._door.add(Fault(what, key, client_id=client_id, broker=self._node(broker), **how))

    def _node(self, broker: int | None) -> int | None:
        """Return the node id of a fault. Unavailable where no broker has it."""
        if broker is not None and broker not in self._node_ids:
            raise Unavailable(f"a fault of broker {broker} would meet no request: there are {sorted(self._node_ids)}")
        return broker

    @property
    def _node_ids(self) -> Collection[int]:
        """The node ids of all its brokers, also of those that do not run."""
        raise NotImplementedError

    def _wake(self) -> None:
        self._on_loop(lambda _: self._door.wake())

    # -- Time

    @property
    def has_moved_time(self) -> bool:
        """Whether the brokers' clock is ahead of the real one."""
        return self._clock.added_ms > 0

    def advance(self, **by: float) -> None:
        """Move the broker's clock forward, by timedelta's names: `advance(hours=7)`. Returns when due timers have run.

        Clients' clocks stay real.
        """
        added_ms = round(timedelta(**by) / timedelta(milliseconds=1))
        if added_ms < 0:
            raise Unavailable("a broker's clock never goes back")
        self._on_loop(lambda brokers: interventions.advance(brokers, self._clock, added_ms))

    def rebalance(self, group: str) -> None:
        """Let a group rebalance: its members must join again."""
        self._check_group(group)
        self._on_loop(lambda brokers: interventions.rebalance(brokers, group))

    def expire(self, member: str, group: str | None = None) -> None:
        """End the session of a member, as if it had been silent for too long. Its id says enough without the group."""
        self._on_loop(lambda brokers: interventions.expire(brokers, member, group))

    def apply_retention(self, topic: str | None = None) -> None:
        """Delete now what retention no longer keeps: of one topic, or of all."""
        if topic is not None:
            self._check_topic(topic)
        self._on_loop(lambda brokers: interventions.apply_retention(brokers, topic))

    def compact(self, topic: str) -> None:
        """Compact a topic now, including its newest segment."""
        self._check_topic(topic)
        self._on_loop(lambda brokers: interventions.compact(brokers, topic))


def _topic_id(given: bytes | UUID | str | None) -> bytes | None:
    """Return the 16 bytes of a topic's id. Unavailable where it is none."""
    if isinstance(given, UUID):
        return given.bytes
    try:
        found = uuid_from_text(given) if isinstance(given, str) else given
    except InvalidField:
        found = b""
    if found is not None and len(found) != _TOPIC_ID_BYTES:
        raise Unavailable(f"no topic has the id {given!r}: it is 16 bytes, a UUID or Kafka's text of 22 letters")
    return found
