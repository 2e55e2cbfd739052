"""The controller's shell: stands for election, runs the machine's steps against ZooKeeper, and sends its messages.

Every broker has one. Events are taken up one at a time, in order. While another broker is the controller there is no
machine, and what is asked gets NOT_CONTROLLER. A lost session, or a write that is refused because of a newer epoch,
ends the machine at once: its channels are closed, and nothing that it wanted to say is said any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.schema import Message as ProtocolMessage
from ....zookeeper.operations import Check, Fenced, Refused, SessionExpired, Steps
from ....zookeeper.session import Session
from ...clock import Clock
from ...configs.broker_config import BrokerConfig
from ...replication.controller_door import OwnBroker
from ...replication.inter_broker import InterBroker
from ...turns import keeper
from ..znodes import (
    BROKER_IDS,
    CONTROLLER,
    CONTROLLER_EPOCH,
    DELETE_TOPICS,
    ISR_CHANGES,
    LOG_DIR_EVENTS,
    PREFERRED_REPLICA_ELECTION,
    REASSIGN_PARTITIONS,
    TOPICS,
    BadZnode,
    Registration,
    TopicPartition,
)
from .candidacy import Won, is_elected, stand, step_down
from .channels import Channels
from .machine import ControllerMachine
from .outbox import BecomeLeaderOrFollower, Message, StopReplicas
from .repetition import Repetition
from .requests import error_of, errors_of

# Requests that wait.
MAX_WAITING = 1000
# How long a controller that has failed leaves its place to others.
FAILURE_PAUSE_S = 1.0

_FAILED = ErrorCode.UNKNOWN_SERVER_ERROR

T = TypeVar("T")
Event = Callable[[ControllerMachine], Steps[Any]]

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Term:
    """What there is while this broker is the controller."""

    machine: ControllerMachine
    fence: int
    channels: Channels
    repetition: Repetition


@dataclass(frozen=True, slots=True)
class _Asked:
    """An event whose outcome somebody waits for."""

    event: Event
    outcome: asyncio.Future[Any]


class Controller:
    """This broker as the controller, or as one that would be. `start` once the broker is registered."""

    def __init__(
        self, config: BrokerConfig, zookeeper: Session, clock: Clock, own: OwnBroker, inter_broker: InterBroker
    ) -> None:
        """`config` is the broker's own, which dynamic configs change; `own` is told without the network."""
        self._config = config
        self._own = own
        self._inter_broker = inter_broker
        self._zookeeper = zookeeper
        self._clock = clock
        # Invariant: each changed znode at most once, and at most MAX_WAITING requests.
        self._events: asyncio.Queue[str | _Asked] = asyncio.Queue()
        self._changed: set[str] = set()
        self._term: _Term | None = None
        # Whether it may have won already, and does not know it yet.
        self._is_standing = False
        self._tasks: list[asyncio.Future[None]] = []

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller, as far as it knows, or will know in a moment."""
        return self._term is not None or self._is_standing

    @property
    def machine(self) -> ControllerMachine | None:
        """The machine while this broker is the controller, to be read only."""
        return None if self._term is None else self._term.machine

    def start(self) -> None:
        """Stand for election, and take up events from now on."""
        self._tasks = [asyncio.ensure_future(self._work())]
        if self._config.auto_leader_rebalance_enable:
            self._tasks.append(asyncio.ensure_future(self._balance()))
        self.stand()

    def stop(self) -> None:
        """Be the controller no more. Requests that wait get NOT_CONTROLLER."""
        for task in self._tasks:
            task.cancel()
        self.resign()

    def stand(self) -> None:
        """Stand for election as soon as it is this event's turn."""
        self.note_change(CONTROLLER)

    def note_change(self, path: str) -> None:
        """Take note that a znode has changed. What follows reads it, so that one event tells of many changes."""
        subject = subject_of(path)
        if subject not in self._changed:
            self._changed.add(subject)
            self._events.put_nowait(subject)

    async def ask(self, event: Callable[[ControllerMachine], Steps[T]]) -> T:
        """Run steps of the machine in their turn and return their outcome.

        Raises NOT_CONTROLLER where this broker is not the controller, and what the steps raise.
        """
        if not self.is_active:
            raise _not_controller()
        if self._is_full:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "Too many requests wait for the controller.")
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._events.put_nowait(_Asked(event, outcome))
        return await outcome

    @property
    def _is_full(self) -> bool:
        return self._events.qsize() - len(self._changed) >= MAX_WAITING

    def resign(self) -> None:
        """End the term, if there is one: the session is gone, or another broker is the controller."""
        term, self._term = self._term, None
        if term is not None:
            term.channels.close()
            term.repetition.close()
            _log.info("broker %d is no longer the controller", self._config.node_id)
        self._changed.clear()
        while not self._events.empty():
            waiting = self._events.get_nowait()
            if isinstance(waiting, _Asked) and not waiting.outcome.done():
                waiting.outcome.set_exception(_not_controller())

    # -- Events

    async def _work(self) -> None:
        while True:
            event = await self._events.get()
            if isinstance(event, str):
                self._changed.discard(event)
            try:
                await self._take_up(event)
            except SessionExpired:
                # `stand` is called again when there is a new session.
                self.resign()
            except Fenced:
                self.resign()
                self.stand()
            except BadZnode as error:
                # /controller or /controller_epoch: the next change of it leads to another try.
                _log.error("%s", error)
            except Exception as error:  # noqa: BLE001 - logged, and the term ends
                # A bug in this program. An event may be half done, so the next term reads everything again.
                _log.error("the controller gives up its term", exc_info=error)
                await self._give_up()

    async def _give_up(self) -> None:
        self.resign()
        try:
            await self._zookeeper.run(step_down(self._config.node_id))
        except (SessionExpired, BadZnode):
            # The session has taken /controller with it, or another broker's is there.
            return
        except Exception as error:  # noqa: BLE001 - logged; `stand` tries again to end the term
            _log.error("the controller cannot leave its place to others", exc_info=error)
        await asyncio.sleep(FAILURE_PAUSE_S)
        self.stand()

    async def _take_up(self, event: str | _Asked) -> None:
        if isinstance(event, _Asked):
            await self._answer(event)
        elif event == CONTROLLER:
            await self._look_at_controller()
        elif self._term is not None:
            steps = event_of(self._term.machine, event)
            if steps is not None:
                await self._run(self._term, steps)

    async def _look_at_controller(self) -> None:
        """Somebody has made or removed `/controller`, or it is the first look."""
        term, broker_id = self._term, self._config.node_id
        if term is not None:
            if await self._zookeeper.run(is_elected(broker_id, term.machine.cluster.epoch)):
                return
            self.resign()
        self._is_standing = True
        try:
            won = await self._zookeeper.run(stand(broker_id, self._clock.now_ms()))
            if won is not None:
                await self._take_over(won)
        finally:
            self._is_standing = False

    async def _take_over(self, won: Won) -> None:
        config, number = self._config, self._config.node_id
        _log.info("broker %d is the controller of epoch %d", number, won.epoch)
        machine = ControllerMachine(number, won.epoch, lambda: config.unclean_leader_election_enable)
        timeout_s = config.controller_socket_timeout_ms / 1000
        channels = Channels(
            number, won.epoch, timeout_s, self._note_response, self._tell_anew, self._own, self._inter_broker
        )
        self._term = _Term(machine, won.fence, channels, Repetition(self._put))
        await self._run(self._term, machine.take_over())

    async def _answer(self, asked: _Asked) -> None:
        term = self._term
        try:
            if term is None:
                raise _not_controller()
            outcome = await self._run(term, asked.event(term.machine))
        except Exception as error:
            if not asked.outcome.done():
                asked.outcome.set_exception(_told(error))
            if not isinstance(error, KafkaError):
                raise
        else:
            if not asked.outcome.done():
                asked.outcome.set_result(outcome)

    async def _run(self, term: _Term, steps: Steps[T]) -> T:
        """Run steps, then send what brokers must learn of them; also where the steps end with an error."""
        try:
            return await self._zookeeper.run(steps, Check(CONTROLLER_EPOCH, term.fence))
        finally:
            await self._tell(term)

    async def _tell(self, term: _Term) -> None:
        """Send what the machine has to say, in turns of the loop, as long as the term lasts."""
        messages: Iterator[Message | None] = iter(())
        if self._term is term:
            term.channels.follow(term.machine.cluster.live)
            term.repetition.forget(term.machine.cluster.live)
            messages = term.machine.take_messages()
        turns = keeper()
        for message in messages:
            for _ in (None,) if message is None else term.channels.send(message):
                await turns.pause()
                if self._term is not term:
                    return

    def elect_again(self) -> None:
        """Elect leaders that a changed config allows. Nothing happens where another broker is the controller."""
        if self._term is not None:
            self._put(lambda machine: machine.lead_everything())

    def _put(self, event: Event) -> None:
        """Take up an event of this broker's own, whose outcome nobody waits for."""
        if self._is_full:
            # It must not be missed: another term begins by reading everything again.
            _log.error("%d events wait for the controller: it starts over", self._events.qsize())
            self.resign()
            self.stand()
            return
        outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        outcome.add_done_callback(_log_error)
        self._events.put_nowait(_Asked(event, outcome))

    # -- What comes back

    def _note_response(self, registration: Registration, message: Message, response: ProtocolMessage) -> None:
        if self._term is None:
            return
        broker, code = registration.broker_id, ErrorCode.of(error_of(response))
        errors = {} if code else errors_of(message, response)
        repetition = self._term.repetition
        level = logging.WARNING if repetition.is_first(broker, message) else logging.DEBUG
        if code:
            request = type(response).__name__.removesuffix("Response")
            _log.log(level, "broker %d rejects %s: %s", broker, request, code.name)
        _log_errors(level, broker, errors)
        repetition.note(registration, message, code, errors)
        if code is ErrorCode.KAFKA_STORAGE_ERROR and isinstance(message, BecomeLeaderOrFollower):
            # It has none of these roles.
            self._note_roles(registration, message, {each.place: int(code) for each in message.updates})
        elif not code and isinstance(message, BecomeLeaderOrFollower):
            self._note_roles(registration, message, errors)
        elif not code and isinstance(message, StopReplicas):
            deleted = [place for place, (_, delete) in message.partitions.items() if delete and place not in errors]
            if deleted:
                self._put(lambda machine: machine.deletion.note_stopped(broker, deleted))

    def _note_roles(
        self, registration: Registration, message: BecomeLeaderOrFollower, errors: Mapping[TopicPartition, int]
    ) -> None:
        """Note which replicas have no log directory, or no room there, and which have again.

        The first is as in Kafka. A controller of Kafka does nothing about the second.
        """
        if self._term is None:
            return
        broker, epoch, cluster = registration.broker_id, registration.epoch, self._term.machine.cluster
        failed = [place for place, code in errors.items() if code == int(ErrorCode.KAFKA_STORAGE_ERROR)]
        full = [place for place, code in errors.items() if code == int(ErrorCode.INELIGIBLE_REPLICA)]
        working = ((broker, each.place) for each in message.updates if each.place not in errors)
        back = [each[1] for each in working if each in cluster.failed or each in cluster.full]
        if failed or back or full:
            self._put(lambda machine: machine.replicas_answered(broker, epoch, failed, back, full))

    def _tell_anew(self, broker: int) -> None:
        self._put(lambda machine: machine.welcome(broker))

    async def _balance(self) -> None:
        while True:
            await asyncio.sleep(self._config.leader_imbalance_check_interval_seconds)
            if self._term is not None:
                self._put(lambda machine: machine.balance(self._config.leader_imbalance_per_broker_percentage))


def _not_controller() -> KafkaError:
    return KafkaError(ErrorCode.NOT_CONTROLLER, "This broker is not the controller.")


def _told(error: Exception) -> KafkaError:
    """Return what is told to those who wait for an event that this error has ended."""
    if isinstance(error, KafkaError):
        return error
    if isinstance(error, (SessionExpired, Fenced)):
        return _not_controller()
    return KafkaError(_FAILED, str(error) if isinstance(error, Refused) else _FAILED.text)


def _log_errors(level: int, broker: int, errors: Mapping[TopicPartition, int]) -> None:
    """Log the errors of partitions in a response, with one partition for each error."""
    for code in sorted(set(errors.values())):
        places = [place for place, found in errors.items() if found == code]
        text = "broker %d cannot do what it is told of %d partitions: %s, the first is %s"
        _log.log(level, text, broker, len(places), ErrorCode.of(code).name, places[0])


def _log_error(outcome: asyncio.Future[Any]) -> None:
    error = None if outcome.cancelled() else outcome.exception()
    if error is not None:
        _log.warning("an event of the controller was dropped: %s", error)


def subject_of(path: str) -> str:
    """Return the path whose event follows a change of `path`: those of one broker and of all brokers are one."""
    if path == CONTROLLER_EPOCH:
        return CONTROLLER
    return BROKER_IDS if path.startswith(f"{BROKER_IDS}/") else path


def event_of(machine: ControllerMachine, path: str) -> Steps[None] | None:
    """Return the steps that follow a change of `path`, or None where it concerns no controller."""
    events = {
        BROKER_IDS: machine.brokers_changed,
        TOPICS: machine.topics_changed,
        DELETE_TOPICS: machine.deletion.take_up,
        REASSIGN_PARTITIONS: machine.reassignment.take_up,
        PREFERRED_REPLICA_ELECTION: machine.elect_as_asked,
        ISR_CHANGES: machine.isr_changed,
        LOG_DIR_EVENTS: machine.log_dirs_failed,
    }
    subject = subject_of(path)
    if subject in events:
        return events[subject]()
    if path.startswith(f"{TOPICS}/") and path.count("/") == TOPICS.count("/") + 1:
        return machine.partitions_changed(path.rpartition("/")[2])
    return None
