"""What clients may change in a cluster: topics, at the controller, and configs, at any broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from ...protocol.errors import ErrorCode, KafkaError
from ...zookeeper.operations import SessionExpired, Steps
from ...zookeeper.session import Session
from ..replication.metadata_cache import MetadataCache, PartitionView
from .config_watch import ConfigWatch, broker_znode, write_config
from .controller.controller import Controller
from .controller.machine import ControllerMachine
from .controller.topic_changes import CreatedTopic, NewTopic, Placement, add_partitions, create_topic, delete_topic
from .producer_ids import take_block
from .znodes import ProducerIds, Replicas, TopicPartition


class ClusterAdmin:
    """Carries out changes and waits until this broker's clients see them. Raises KafkaError."""

    def __init__(self, zookeeper: Session, controller: Controller, configs: ConfigWatch, view: MetadataCache) -> None:
        self._zookeeper = zookeeper
        self._controller = controller
        self._configs = configs
        self._view = view

    # -- Topics, at the controller

    def check_controller(self) -> None:
        """Raise NOT_CONTROLLER where another broker is the controller."""
        if not self._controller.is_active:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "This broker is not the controller.")

    async def create_topic(
        self,
        name: str,
        partitions: int,
        factor: int,
        configs: Mapping[str, str],
        placement: Placement | None,
        timeout_ms: int,
        *,
        validate_only: bool,
    ) -> CreatedTopic:
        """Create a topic; returns when every partition has a leader.

        Without `placement` the replicas are spread over brokers and racks. REQUEST_TIMED_OUT: it is created, and has no
        leaders yet.
        """
        wanted = NewTopic(name, partitions, factor, configs, placement)
        created = await self._controller.ask(partial(create_topic, wanted=wanted, validate_only=validate_only))
        if not validate_only:
            await self._wait(timeout_ms, lambda: self._is_led(name, created.partitions))
        return created

    async def add_partitions(
        self, topic: str, count: int, chosen: list[tuple[int, ...]] | None, timeout_ms: int, *, validate_only: bool
    ) -> None:
        """Give a topic more partitions; returns as `create_topic` does."""
        await self._controller.ask(
            lambda machine: add_partitions(machine, topic, count, chosen, validate_only=validate_only)
        )
        if not validate_only:
            await self._wait(timeout_ms, lambda: self._is_led(topic, count))

    async def delete_topic(self, topic: str, timeout_ms: int) -> None:
        """Delete a topic; returns when clients do not see it any more. REQUEST_TIMED_OUT: its deletion goes on."""
        await self._controller.ask(lambda machine: delete_topic(machine, topic))
        await self._wait(timeout_ms, lambda: topic not in self._view.topics)

    async def _wait_for_leaders(self, places: Iterable[TopicPartition], timeout_ms: int) -> None:
        """Wait until the partitions have the leaders that this controller has elected, as clients see it."""
        machine = self._controller.machine
        states = machine.cluster.states if machine is not None else {}
        wanted = {each: states[each].leader for each in places if each in states}
        await self._wait(timeout_ms, lambda: all(self._leader(each) == leader for each, leader in wanted.items()))

    async def elect(
        self, places: Iterable[tuple[str, int]] | None, *, unclean: bool, timeout_ms: int
    ) -> dict[TopicPartition, ErrorCode]:
        """Elect leaders of the partitions, or of all that need it. Returns the error of each, or NONE."""

        def steps(machine: ControllerMachine) -> Steps[dict[TopicPartition, ErrorCode]]:
            wanted = sorted(machine.cluster.replicas) if places is None else [TopicPartition(*each) for each in places]
            return machine.elect(wanted, unclean=unclean)

        errors = await self._controller.ask(steps)
        if places is None:
            errors = {each: code for each, code in errors.items() if code is not ErrorCode.ELECTION_NOT_NEEDED}
        await self._wait_for_leaders([each for each, code in errors.items() if code is ErrorCode.NONE], timeout_ms)
        return errors

    async def take_producer_ids(self, broker: int, broker_epoch: int) -> ProducerIds:
        """Give a broker a block of producer ids. BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH."""

        def steps(machine: ControllerMachine) -> Steps[ProducerIds]:
            known = machine.cluster.live.get(broker)
            if known is None:
                raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker} is not registered")
            if known.epoch != broker_epoch:
                raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker} has epoch {known.epoch} by now")
            return (yield from take_block(broker))

        return await self._controller.ask(steps)

    async def reassign(
        self, wanted: Mapping[tuple[str, int], tuple[int, ...] | None], *, may_change_factor: bool
    ) -> dict[TopicPartition, KafkaError]:
        """Begin reassignments, or cancel those of None. Returns the errors of those that cannot be."""
        targets = {TopicPartition(*place): target for place, target in wanted.items()}
        return await self._controller.ask(
            lambda machine: machine.reassign(targets, may_change_factor=may_change_factor)
        )

    def reassignments(self) -> dict[TopicPartition, Replicas]:
        """Return the partitions that are moving."""
        self.check_controller()
        machine = self._controller.machine
        replicas = machine.cluster.replicas if machine is not None else {}
        return {place: each for place, each in sorted(replicas.items()) if each.is_moving}

    def _leader(self, place: TopicPartition) -> int:
        found: PartitionView | None = self._view.partition(place.topic, place.partition)
        return -1 if found is None else found.leader

    def _is_led(self, topic: str, partitions: int) -> bool:
        return all(self._leader(TopicPartition(topic, index)) >= 0 for index in range(partitions))

    async def _wait(self, timeout_ms: int, is_seen: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(max(timeout_ms, 0) / 1000):
                while not is_seen():
                    await self._view.updated()
        except TimeoutError:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The change was begun, and is not complete yet.") from None

    # -- Configs

    async def write_configs(self, entity: str, name: str, configs: Mapping[str, str]) -> None:
        """Give one of the `topics` or `brokers`, or every broker (""), these configs and no others.

        They are in use here when this returns, elsewhere soon.
        """
        await self.refresh_configs(write_config(entity, broker_znode(name), configs))

    async def refresh_configs(self, steps: Steps[None] | None = None) -> None:
        """Write configs, and learn what other brokers have changed, so that the next change builds on it."""
        try:
            if steps is not None:
                await self._zookeeper.run(steps)
            await self._configs.read_changes()
        except SessionExpired:
            why = "the session with ZooKeeper has expired: try again"
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, why) from None
