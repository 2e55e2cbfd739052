"""A Kafka of this process: a broker in a thread of its own, with everything that a test can do to it.

    with kafka() as k:
        k.create_topic("orders")
        with k.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2):
            run_my_service(k.address)

A test calls it from its own thread. What changes the broker runs on the broker's loop (control.py).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from ..broker.broker_thread import StopError
from ..broker.configs.broker_config import BrokerConfig
from ..broker.configs.definition import ConfigError
from ..broker.log_dirs.ephemeral import UnsyncedDisk, ephemeral_configs, remove_directories
from ..broker.server import Broker
from . import control
from .clock import MovableClock
from .door import Door
from .errors import Unavailable
from .faults import Fault, api_name, api_named, error_named
from .releases import Release
from .remote import Kafka, config_text
from .requests import Seen
from .security import Security

R = TypeVar("R")
# Answers a request: the decoded request and `proceed` go in, a response or None comes out.
Handler = Callable[[Any, Callable[[], Any]], Any]


class LocalKafka(Kafka):
    """A broker in a thread. `close` it at the end, or use it with `with`."""

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        *,
        versions: str | None = None,
        tls: bool = False,
        users: Mapping[str, str] | None = None,
    ) -> None:
        """`config`: the broker's configs by Kafka's names. ConfigError names the nearest where there is none.

        `versions`: the older Kafka that it plays, such as "2.8". `tls`: clients encrypt. `users`: the passwords of
        those who may log in (SCRAM and PLAIN); `options` has what clients need then.
        """
        release = None if versions is None else Release(versions)
        texts = {name: config_text(value) for name, value in (config or {}).items()}
        ephemeral = ephemeral_configs()
        folder = Path(f"{texts.get('log.dirs', ephemeral['log.dirs'])}-certificates")
        self._security = Security(tls, dict(users or {}), folder)
        self._configs = {**ephemeral, **texts, **self._security.configs(texts)}
        self._clock = MovableClock()
        self._door = Door(self._topic_of, release)
        self._broker: Broker | None = None
        self._snapshot: Path | None = None
        try:
            self._start()
            self._call(lambda broker: control.set_passwords(broker, self._security.users))
        except BaseException:
            self._stop()
            self._remove_files()
            raise
        super().__init__(self._running.address, self._running.addresses[-1])

    def __enter__(self) -> LocalKafka:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the broker and remove its files. Idempotent."""
        super().close()
        self._stop()
        self._remove_files()

    def options(self, client: str, user: str | None = None) -> dict[str, Any]:
        """Return the options with which a client connects: of "confluent-kafka", "kafka-python", "aiokafka",
        "odradek" or "java". The first of `users`, unless another one is named.
        """
        return self._security.options(client, self.address, user)

    @property
    def broker(self) -> Broker:
        """The broker. Only its thread may use more than its address and ids."""
        return self._running

    @property
    def is_alive(self) -> bool:
        """Whether the broker answers its own thread."""
        try:
            self._call(control.answer)
        except (StopError, Unavailable):
            return False
        return True

    # -- A clean start for the next test

    def reset(self) -> None:
        """Remove all topics, groups, transactional ids, dynamic configs and faults. The clock keeps its time."""
        self._made_topics.clear()
        self._door.end_all()
        self._door.failures.clear()
        self._call(lambda broker: control.clear(broker, self._door, self._security.users))

    # -- Faults

    def fail(
        self,
        api: str,
        error: str | int,
        *,
        times: int | None = None,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        after_append: bool = False,
        must_fire: bool = False,
    ) -> Fault:
        """Answer requests of an API with an error, all of them or `times` ones.

        With `after_append` the broker carries the request out first: the acknowledgement is lost.
        """
        key, code = api_named(api), error_named(error)
        what = f"fail({api_name(key)!r}, {code.name!r})"
        place = {"topic": topic, "partition": partition, "client_id": client_id}
        fault = Fault(what, key, **place, left=times, must_fire=must_fire)  # pyright: ignore[reportArgumentType]
        fault.error, fault.is_after = code, after_append
        return self._door.add(fault)

    def delay(
        self, api: str | None, seconds: float, *, times: int | None = None, client_id: str | None = None
    ) -> Fault:
        """Let requests of an API, or of all (None), wait before the broker handles them."""
        key = None if api is None else api_named(api)
        what = f"delay({api and api_name(key or 0)!r}, {seconds:g})"
        return self._door.add(Fault(what, key, client_id=client_id, left=times, delay_s=seconds))

    def stall(self, api: str | None = None, *, client_id: str | None = None) -> Fault:
        """Answer nothing, or nothing of one API or one client, until `resume`, or the end of `with`."""
        key = None if api is None else api_named(api)
        return self._door.add(Fault(f"stall({api or ''})", key, client_id=client_id, stalls=True, woken=self._wake))

    def resume(self) -> None:
        """End all stalls: what waited is answered."""
        self._door.end_stalls()
        self._wake()

    def cut(
        self,
        api: str | None = None,
        *,
        client_id: str | None = None,
        in_answer: bool = False,
        times: int | None = 1,
        must_fire: bool = False,
    ) -> Fault | None:
        """Cut the open connections, of all clients or of one. With an API: cut when such a request comes.

        With `in_answer` the broker carries the request out, and the connection ends in the middle of the response.
        """
        if api is None and not in_answer:
            self._call(lambda _: self._door.cut(client_id))
            return None
        key = None if api is None else api_named(api)
        fault = Fault(f"cut({api or ''})", key, client_id=client_id, left=times, must_fire=must_fire)
        fault.cuts, fault.is_after = True, in_answer
        return self._door.add(fault)

    def on(self, api: str, *, times: int | None = None, client_id: str | None = None) -> Callable[[Handler], Fault]:
        """Let a function answer the requests of an API: `@kafka.on("Metadata")`.

        It gets the decoded request and `proceed`, which has the broker answer. It returns a response, raises a
        KafkaError, or returns None to pass on. It runs in a thread of its own.
        """
        key = api_named(api)

        def decorate(handler: Handler) -> Fault:
            what = f"the handler on({api_name(key)!r})"
            return self._door.add(Fault(what, key, client_id=client_id, left=times, handler=handler))

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
        for each in ended:
            each.check()

    def recent_requests(self) -> list[str]:
        """Return the last requests, one a line, the newest last."""
        return self._door.recent()

    def handler_failures(self) -> list[str]:
        """Return what went wrong in functions of `on`."""
        return list(self._door.failures)

    def _wake(self) -> None:
        self._call(lambda _: self._door.wake())

    def _topic_of(self, topic_id: bytes) -> str | None:
        topics = self._running.topics.all()
        return next((each.name for each in topics if each.id == topic_id), None)

    # -- Time

    def advance(self, **by: float) -> None:
        """Move the broker's clock forward, by timedelta's names: `advance(hours=7)`. Returns when due timers have run.

        Clients' clocks stay real.
        """
        added_ms = round(timedelta(**by) / timedelta(milliseconds=1))
        if added_ms < 0:
            raise Unavailable("a broker's clock never goes back")
        self._call(lambda broker: control.advance(broker, self._clock, added_ms))

    def rebalance(self, group: str) -> None:
        """Let a group rebalance: its members must join again."""
        self._check_group(group)
        self._call(lambda broker: control.rebalance(broker, group))

    def expire(self, member: str, group: str | None = None) -> None:
        """End the session of a member, as if it had been silent for too long. Its id says enough without the group."""
        self._call(lambda broker: control.expire(broker, member, group))

    def apply_retention(self, topic: str | None = None) -> None:
        """Delete now what retention no longer keeps: of one topic, or of all."""
        if topic is not None:
            self._check_topic(topic)
        self._call(lambda broker: control.apply_retention(broker, topic))

    def compact(self, topic: str) -> None:
        """Compact a topic now, including its newest segment."""
        self._check_topic(topic)
        self._call(lambda broker: control.compact(broker, topic))

    # -- The disk

    def restart(self) -> None:
        """Stop the broker cleanly, and start it again on its port and its files."""
        self._stop()
        self._start()

    def snapshot(self) -> Path:
        """Copy what is on the disk, for `restore`, and return the copy. The broker restarts for that."""
        copy = self._snapshot or Path(tempfile.mkdtemp(prefix=f"{self._data_dir.name}-snapshot-"))
        self._stop()
        _replace(copy, self._data_dir)
        self._start()
        self._snapshot = copy
        return copy

    def restore(self, snapshot: Path | None = None) -> None:
        """Put the files of a snapshot in place of the broker's: the last one by default. The broker restarts."""
        source = snapshot or self._snapshot
        if source is None:
            raise Unavailable("there is no snapshot to restore: call snapshot() first")
        self._stop()
        _replace(self._data_dir, source)
        self._start()

    # -- The broker

    @property
    def _data_dir(self) -> Path:
        return Path(self._configs["log.dirs"])

    @property
    def _running(self) -> Broker:
        if self._broker is None:
            raise Unavailable("this Kafka is closed")
        return self._broker

    def _start(self) -> None:
        config, _ = BrokerConfig.parse(self._configs, strict=True)
        broker = Broker(config, clock=self._clock, disk=UnsyncedDisk(), door=self._door.between)
        broker.__enter__()
        self._broker = broker
        # A later start keeps the ports, which clients know.
        endpoints = zip(config.endpoints, broker.addresses, strict=True)
        self._configs["listeners"] = ",".join(f"{each.name}://{address}" for each, address in endpoints)

    def _stop(self) -> None:
        broker, self._broker = self._broker, None
        if broker is not None:
            broker.__exit__()

    def _remove_files(self) -> None:
        snapshots = [self._snapshot] if self._snapshot else []
        remove_directories([self._data_dir, self._security.folder, *snapshots])

    def _call(self, work: Callable[[Broker], Coroutine[Any, Any, R]]) -> R:
        broker = self._running
        return broker.call(lambda: work(broker))


@contextmanager
def kafka(config: Mapping[str, object] | None = None, **how: Any) -> Generator[LocalKafka]:
    """Run a broker in a thread for the `with` block: for unittest, notebooks and scripts. `how` as for LocalKafka."""
    with LocalKafka(config, **how) as running:
        yield running


def _replace(target: Path, source: Path) -> None:
    """Make `target` a copy of `source`."""
    remove_directories([target])
    shutil.copytree(source, target)


__all__ = ["ConfigError", "LocalKafka", "kafka"]
