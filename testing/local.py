"""A Kafka of this process: a broker in a thread of its own, with everything that a test can do to it.

    with kafka() as k:
        k.create_topic("orders")
        with k.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2):
            run_my_service(k.address)

A test calls it from its own thread. What changes the broker runs on the broker's loop (interventions.py).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ..broker.configs.broker_config import BrokerConfig
from ..broker.configs.definition import ConfigError
from ..broker.log_dirs.ephemeral import UnsyncedDisk, remove_directories
from ..broker.server import Broker
from . import interventions
from .controlled_kafka import ControlledKafka
from .errors import Unavailable
from .security import keep_ports

R = TypeVar("R")


class LocalKafka(ControlledKafka):
    """A broker in a thread. `close` it at the end, or use it with `with`."""

    def _prepare(self) -> None:
        super()._prepare()
        self._broker: Broker | None = None
        self._snapshots: list[Path] = []
        # Those that clients of earlier tests know.
        self._left_addresses: set[str] = set()

    def _other_folders(self) -> list[Path]:
        return self._snapshots

    @property
    def broker(self) -> Broker:
        """The broker. Only its thread may use more than its address and ids."""
        return self._running

    @property
    def can_move(self) -> bool:
        """Whether a reset gives it another address: a restart has kept its ports, and they stay."""
        return all(each.port == 0 for each in self._running.config.endpoints)

    def _begin_anew(self) -> None:
        broker = self._running
        self._left_addresses.update(broker.addresses)
        self._on_loop(lambda _: interventions.clear(broker, self._door, self._security.users, self._left_addresses))
        self._set_addresses(broker)

    # -- The disk

    def restart(self) -> None:
        """Stop the broker cleanly, and start it again on its port and its files."""
        self._check_open()
        self._stop()
        self._start()

    def snapshot(self) -> Path:
        """Copy what is on the disk, for `restore`, and return the copy. The broker restarts for that.

        The copy goes at the end of this Kafka.
        """
        copy, source = Path(f"{self._folder}-snapshot-{len(self._snapshots)}"), self._data_dir
        self._stop()
        try:
            _replace(copy, source)
            self._snapshots.append(copy)
        except BaseException:
            remove_directories([copy])
            raise
        finally:
            self._start()
        return copy

    def restore(self, snapshot: str | Path | None = None) -> None:
        """Put the files of a snapshot in place of the broker's: the last one by default. The broker restarts."""
        if snapshot is None and not self._snapshots:
            raise Unavailable("there is no snapshot to restore: call snapshot() first")
        source, target = Path(snapshot or self._snapshots[-1]), self._data_dir
        if not source.is_dir():
            raise Unavailable(f"there is no snapshot {source}")
        self._stop()
        _replace(target, source)
        self._start()

    # -- The broker

    @property
    def _data_dir(self) -> Path:
        first, *others = self._running.config.data_dirs
        if others:
            raise Unavailable("a broker with several log.dirs has no snapshots")
        return first

    @property
    def _running(self) -> Broker:
        if self._broker is None:
            raise Unavailable("this Kafka is closed")
        return self._broker

    @property
    def _node_ids(self) -> list[int]:
        return [self._running.node_id]

    def _topic_of(self, topic_id: bytes) -> str | None:
        # A broker that stops still gets requests, and a report comes after its end.
        topics = () if self._broker is None else self._broker.topics.all()
        return next((each.name for each in topics if each.id == topic_id), None)

    def _on_loop(self, work: Callable[[Sequence[Broker]], Coroutine[Any, Any, R]]) -> R:
        broker = self._running
        return broker.call(lambda: work([broker]))

    def _start(self) -> None:
        config, _ = BrokerConfig.parse(self._configs, strict=True)
        self._door.forget_loop()
        broker = Broker(
            config, clock=self._clock, disk=UnsyncedDisk(), door=partial(self._door.between, node=config.node_id)
        )
        broker.__enter__()
        self._broker = broker
        self._set_addresses(broker)

    def _set_addresses(self, broker: Broker) -> None:
        self.address, self._kit_address = broker.addresses[0], broker.addresses[-1]
        self._configs["listeners"] = keep_ports(self._configs["listeners"], broker.addresses)

    def _stop(self) -> None:
        broker, self._broker = self._broker, None
        if broker is not None:
            broker.__exit__()


# For unittest, notebooks and scripts. It ends with its `with` block, at `close`, or with the program.
kafka = LocalKafka


def _replace(target: Path, source: Path) -> None:
    """Make `target` a copy of `source`."""
    remove_directories([target])
    shutil.copytree(source, target)


__all__ = ["ConfigError", "LocalKafka", "kafka"]
