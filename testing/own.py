"""A Kafka that the kit starts: what a broker in a thread, a broker in a process, and a cluster have in common."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar, Self

from ..broker.log_dirs.ephemeral import ephemeral_configs, remove_directories
from .errors import Unavailable
from .remote import Kafka, config_text
from .security import Security

# Of the topics of coordinators: a directory with files for each of 50 would be most of what a test with a group costs.
_FEW = dict.fromkeys(
    (
        "offsets.topic.num.partitions",
        "transaction.state.log.num.partitions",
        "share.coordinator.state.topic.num.partitions",
    ),
    "3",
)


class OwnKafka(Kafka):
    """A Kafka of the test. `close` it at the end, or use it with `with`."""

    # Configs that it has unless the test gives others.
    _usual: ClassVar[Mapping[str, str]] = {}
    _is_closed = False

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        *,
        tls: bool = False,
        users: Mapping[str, str] | None = None,
    ) -> None:
        """`config`: the broker's configs by Kafka's names. ConfigError names the nearest where there is none.

        `tls`: clients encrypt. `users`: the passwords of those who may log in (SCRAM and PLAIN); `options` has what
        clients need then.
        """
        texts = {name: config_text(value) for name, value in (config or {}).items()}
        ephemeral = ephemeral_configs()
        self._folder = Path(ephemeral["log.dirs"])
        super().__init__("", security=Security.beside(self._folder, tls, users))
        self._prepare()
        # A child of this process that was forked has a copy of this object, and the brokers are not its.
        self._pid = os.getpid()
        # A notebook or a script may leave it open.
        atexit.register(self.close)
        try:
            self._configs = {**ephemeral, **_FEW, **self._usual, **texts, **self._security.configs(texts)}
            # With the ports that clients know, a config says them.
            self._first_listeners = self._configs["listeners"]
            self._start()
            self._set_passwords()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop what runs and remove its files, but for directories of the config log.dirs. Idempotent."""
        atexit.unregister(self.close)
        if os.getpid() != self._pid:
            return
        self._is_closed = True
        super().close()
        self._stop()
        remove_directories([self._folder, self._security.folder, *self._other_folders()])

    def reset(self) -> None:
        """Begin anew: without topics, groups and whatever else clients have made, and at another address.

        Connections end. Clients from before, also ones that connect again for ever, do not find the new address. A
        port that the config `listeners` names stays, also one that `restart` has kept, and there they come back.
        """
        self._check_open()
        self._made_topics.clear()
        self._disconnect()
        self._begin_anew()

    def _check_open(self) -> None:
        """Raise Unavailable once it is closed: its folders are gone, and nothing would stop what starts then."""
        if self._is_closed:
            raise Unavailable("this Kafka is closed")

    def _begin_anew(self) -> None:
        """Start on empty directories and on free ports."""
        self._stop()
        remove_directories(Path(each.strip()) for each in self._configs["log.dirs"].split(","))
        self._configs["listeners"] = self._first_listeners
        self._start()
        self._set_passwords()

    def _prepare(self) -> None:
        """Make what `_start` and `_stop` need."""
        raise NotImplementedError

    def _start(self) -> None:
        """Start what runs, and set the addresses."""
        raise NotImplementedError

    def _stop(self) -> None:
        """Stop what runs. Idempotent."""
        raise NotImplementedError

    def _other_folders(self) -> Iterable[Path]:
        """Return what `close` removes besides the data directory and the certificates."""
        return ()
