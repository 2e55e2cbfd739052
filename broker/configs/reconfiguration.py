"""Reconfiguration: alters configs of brokers and groups while the broker runs, and again at every later start."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Protocol, TypeVar

from ...protocol.errors import KafkaError
from .broker_config import BrokerConfig
from .definition import ConfigError
from .group_config import check_group_configs

Result = TypeVar("Result")
_log = logging.getLogger(__name__)


class UnreadStores(Exception):
    """A thread must read key and trust stores before listeners can have other configs: `Reconfiguration.in_turn`."""

    def __init__(self, read: Callable[[], Awaitable[None]], forget: Callable[[], None]) -> None:
        super().__init__("a thread must read the stores of a listener")
        # Keeps what was read, or why it cannot be used, until `forget`.
        self.read = read
        self.forget = forget


class ConfigJournal(Protocol):
    """Where the dynamic configs are kept: the metadata journal."""

    # By node; the empty name is every broker of the cluster.
    broker_configs: dict[str, dict[str, str]]

    # By group, of the groups that have configs of their own.
    group_configs: dict[str, dict[str, str]]

    def put_broker_configs(self, node: str, configs: dict[str, str]) -> None: ...
    def put_group_configs(self, group: str, configs: dict[str, str]) -> None: ...


class Reconfiguration:
    """The dynamic configs of this broker (its number) and of every broker of the cluster (the empty name).

    `reconfigure_topics` checks the configs that topics have from the broker, and returns the call that applies them.
    `reconfigure_tasks` lets the background tasks that rest by a config look at it again.
    """

    def __init__(
        self,
        config: BrokerConfig,
        journal: ConfigJournal,
        reconfigure_topics: Callable[[], Callable[[], None]],
        reconfigure_tasks: Callable[[], None],
    ) -> None:
        self.config = config
        self._journal = journal
        self._reconfigure_topics = reconfigure_topics
        self._reconfigure_tasks = reconfigure_tasks
        # Checks the listeners whose configs were given, by the names of these, and returns the call that applies them.
        # Raises UnreadStores.
        self.reconfigure_listeners: Callable[[Collection[str]], Callable[[], None]] = lambda names: lambda: None
        # Changes that wait for their stores, or behind another one; the lock lets them in in their order.
        self._waiting: set[asyncio.Future[Any]] = set()
        self._turn = asyncio.Lock()

    def in_turn(self, change: Callable[[], Result]) -> Result | asyncio.Future[Result]:
        """Make a change by `alter` now, or when a thread has read the stores that it needs: in the order of the calls.

        `change` is called again after each UnreadStores, and makes what it has made already only once.
        """
        if not self._waiting:
            try:
                return change()
            except UnreadStores:
                pass
        task = asyncio.ensure_future(self._change_later(change))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)
        return task

    async def _change_later(self, change: Callable[[], Result]) -> Result:
        async with self._turn:
            forget: Callable[[], None] | None = None
            try:
                while True:
                    try:
                        return change()
                    except UnreadStores as unread:
                        forget = unread.forget
                        await unread.read()
            finally:
                if forget is not None:
                    forget()

    def overrides(self, node: str) -> Mapping[str, str]:
        """Return the dynamic configs of a node."""
        return self._journal.broker_configs.get(node, {})

    def alter(self, node: str, configs: dict[str, str], validate_only: bool = False) -> None:
        """Give a node these dynamic configs and no others. They are in use when this returns, but that partitions of
        many topics follow in the next turns of the event loop.

        ConfigError where a value, or two together, are invalid. KafkaError where a topic's configs contradict them, or
        the disk fails. UnreadStores where a listener has other stores. After an error nothing has changed.
        """
        before = self.config.dynamic.broker, self.config.dynamic.cluster
        self.config.alter(*_layers(self.config, {**self._journal.broker_configs, node: configs}))
        try:
            apply = self._reconfigure_topics()
            apply_listeners = self.reconfigure_listeners({*configs, *before[0]})
            if not validate_only:
                self._journal.put_broker_configs(node, configs)
        except (KafkaError, UnreadStores):
            self.config.alter(*before)
            raise
        if validate_only:
            self.config.alter(*before)
            return
        apply()
        apply_listeners()
        self._reconfigure_tasks()
        _log.info("configs of %s were changed", f"broker {node}" if node else "every broker")

    @property
    def groups(self) -> Mapping[str, Mapping[str, str]]:
        """The configs of the groups that have some of their own, by group id."""
        return self._journal.group_configs

    def alter_group(self, group_id: str, configs: dict[str, str], validate_only: bool = False) -> None:
        """Give a consumer group these configs and no others. Its next heartbeat is answered by them.

        ConfigError where a value is outside of the broker's bounds, KafkaError where the disk fails.
        """
        check_group_configs(self.config, configs)
        if not validate_only:
            self._journal.put_group_configs(group_id, configs)
            _log.info("configs of group %s were changed", group_id)


def restore(config: BrokerConfig, journal: ConfigJournal) -> None:
    """Put the dynamic configs of earlier runs in use, without those that this version rejects, as Kafka does.

    They stay in the journal until somebody changes them. ConfigError where the error names another config.
    """
    layers = tuple(map(dict, _layers(config, journal.broker_configs)))
    while any(layers):
        try:
            config.alter(*layers)
        except ConfigError as error:
            if not [layer.pop(error.name) for layer in layers if error.name in layer]:
                raise
            _log.error("a dynamic config of an earlier run is not in use: %s", error)
        else:
            return


def _layers(config: BrokerConfig, configs: Mapping[str, dict[str, str]]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the dynamic configs of this broker, and those of every broker."""
    return configs.get(str(config.node_id), {}), configs.get("", {})
