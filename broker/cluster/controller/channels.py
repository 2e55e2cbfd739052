"""Channels: the controller's way to each living broker. Messages arrive in order, or the broker is dead.

A message that cannot be delivered is sent again until the broker is no longer registered. A broker that does not keep
up, so that too many messages wait for it, is told everything again in their place.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

from ....protocol.schema import Message as ProtocolMessage
from ...replication.controller_door import OwnBroker
from ...replication.inter_broker import InterBroker, Unreachable
from ...replication.peer import Peer, PeerLost
from ..znodes import Registration
from .outbox import Message, StopReplicas, pieces_of
from .requests import request_of

# Messages that wait for one broker.
MAX_WAITING = 1000
# Partitions from which on a message is made in a thread: it would hold the loop for tens of milliseconds.
LARGE = 1000
# The pause before a message is sent again, as in Kafka.
RETRY_S = 0.1

_log = logging.getLogger(__name__)

# Called with the registration of a broker, what it was sent, and its response.
OnResponse = Callable[[Registration, Message, ProtocolMessage], None]


class Channels:
    """One channel for each living broker, of the controller of one epoch. End it with `close`."""

    def __init__(
        self,
        controller_id: int,
        controller_epoch: int,
        timeout_s: float,
        on_response: OnResponse,
        on_overflow: Callable[[int], None],
        own: OwnBroker,
        inter_broker: InterBroker,
    ) -> None:
        """`own` is the broker that is the controller."""
        self.sender = controller_id, controller_epoch
        self.timeout_s = timeout_s
        self.on_response = on_response
        self._on_overflow = on_overflow
        self._own = own
        self._inter_broker = inter_broker
        self._channels: dict[int, _Channel] = {}

    def follow(self, live: dict[int, Registration]) -> None:
        """Open channels to brokers that have come, and close those to brokers that are gone."""
        for broker, channel in list(self._channels.items()):
            registration = live.get(broker)
            if registration is None or registration.epoch != channel.registration.epoch:
                self._channels.pop(broker).close()
        for broker, registration in live.items():
            if broker not in self._channels:
                peer = self._own if broker == self.sender[0] else self._peer_to(registration)
                self._channels[broker] = _Channel(self, registration, peer)

    def send(self, message: Message) -> Iterator[None]:
        """Send a message when those before it have been answered. One to a broker that is gone is dropped.

        Others may have a turn of the loop at each step.
        """
        channel = self._channels.get(message.broker_id)
        if channel is None:
            return
        for piece in pieces_of(message):
            if not channel.send(piece):
                _log.error("broker %d does not keep up: the controller sends it everything again", message.broker_id)
                self._on_overflow(message.broker_id)
                return
            yield

    def close(self) -> None:
        """Close every channel. What has not been sent is lost."""
        while self._channels:
            self._channels.popitem()[1].close()

    def _peer_to(self, registration: Registration) -> Peer | Unreachable:
        address = self._inter_broker.address_of(registration.addresses)
        if address is None:
            return Unreachable(registration.broker_id, self._inter_broker.listener)
        return self._inter_broker.peer(*address, f"odradek-controller-{self.sender[0]}")


class _Channel:
    """The way to one broker."""

    def __init__(self, channels: Channels, registration: Registration, peer: Peer | OwnBroker | Unreachable) -> None:
        self.registration = registration
        self._channels = channels
        self._peer = peer
        self._waiting: deque[Message] = deque()
        self._has_work = asyncio.Event()
        self._task = asyncio.ensure_future(self._work())

    def send(self, message: Message) -> bool:
        """Queue a message. False, and all that waits is dropped, where too much waits."""
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.clear()
            return False
        self._waiting.append(message)
        self._has_work.set()
        return True

    def close(self) -> None:
        self._task.cancel()
        self._peer.close()

    async def _work(self) -> None:
        while True:
            while self._waiting:
                try:
                    await self._deliver(self._waiting.popleft())
                except Exception as error:  # noqa: BLE001 - logged; the broker must hear of everything else
                    # A bug in this program: a message that cannot be made.
                    _log.error("broker %d is not told of a change", self.registration.broker_id, exc_info=error)
            self._has_work.clear()
            await self._has_work.wait()

    async def _deliver(self, message: Message) -> None:
        is_large = not isinstance(message, StopReplicas) and len(message.updates) > LARGE
        make = partial(request_of, message, *self._channels.sender, self.registration.epoch)
        request, version, response_type = await asyncio.to_thread(make) if is_large else make()
        timeout_s = self._channels.timeout_s
        ask = partial(self._peer.request, request, version, response_type, timeout_s, is_large=is_large)
        is_reported = False
        while True:
            try:
                response = await ask()
            except PeerLost as error:
                if not is_reported:
                    _log.warning("broker %d cannot be told: %s", self.registration.broker_id, error.message)
                is_reported = True
                await asyncio.sleep(RETRY_S)
                continue
            self._channels.on_response(self.registration, message, response)
            return
