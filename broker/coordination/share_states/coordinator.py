"""The share coordinator: it keeps the delivery states of share groups, and answers the requests about them.

A state belongs to a partition of `__share_group_state` (shards.py) by its group, topic id and partition, and has an
actor around its machine (machine.py). Leaders of partitions and the group coordinator reach it by routed_persister.py.
"""

from __future__ import annotations

import base64
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ....protocol.errors import ErrorCode, KafkaError
from ...clock import Clock
from ...configs.broker_config import BrokerConfig
from ...timers import Timers
from ...topics.topic_names import SHARE_STATE_TOPIC
from ...turns import keeper
from ..actor import Actor, Pairs, Runtime
from ..alarms import Sweep
from ..calls import Call, Eventual
from ..coordinator_log import CoordinatorLog
from ..interfaces import Aside, Topics, at_once
from ..machine import Machine, append_error
from ..replay import Written
from ..shards import Shards
from . import events, machine, records
from .kept_state import KeptState
from .records import StateRecord
from .share_state import ShareKey
from .state_replay import StateReplay

_log = logging.getLogger(__name__)

# A snapshot is not renewed before so many records of its partition are behind it.
MIN_BEHIND = 100


class StateActor(Actor[KeptState, events.Event, events.Outcome]):
    """The actor of one state, which knows where its record is written."""

    __slots__ = ()

    def _append(self, outcome: events.Outcome, many: Pairs | None = None) -> None:
        # The log appends within this turn, so the record gets its present end.
        self.state.written_offset = self._runtime.log.end_offset(self.partition)
        super()._append(outcome, many)


def key_text(key: ShareKey) -> str:
    """Return a key as FindCoordinator names it. Its hash decides on the partition of `__share_group_state`."""
    topic_id = base64.urlsafe_b64encode(key.topic_id).decode().rstrip("=")
    return f"{key.group_id}:{topic_id}:{key.partition}"


class ShareCoordinator:
    """The share states of one broker, from `start` to `stop`."""

    def __init__(
        self,
        config: BrokerConfig,
        log: CoordinatorLog,
        timers: Timers,
        clock: Clock,
        topics: Topics,
        logger: logging.Logger = _log,
        aside: Aside = at_once,
    ) -> None:
        """`aside` runs steps of very many batches in a thread."""
        self._config = config
        self._clock = clock
        self._topics = topics
        self._log = log
        self.shards: Shards[StateActor, StateRecord] = Shards(
            *(SHARE_STATE_TOPIC, log, timers, clock, logger, self._new_actor, _decode),
            new_replay=StateReplay,
            aside=aside,
        )
        interval_ms = config.share_coordinator_state_topic_prune_interval_ms
        self._pruning = Sweep(timers, clock, lambda: interval_ms, self._prune)
        cold_ms = config.share_coordinator_cold_partition_snapshot_interval_ms
        self._cold = Sweep(timers, clock, lambda: cold_ms, self._snapshot_cold)

    def start(self, *, load: bool = True) -> None:
        """Load every partition."""
        if load:
            self.shards.start()
        self._pruning.start()
        self._cold.start()

    def stop(self) -> None:
        """Send clients that wait to another coordinator. Idempotent."""
        self._pruning.stop()
        self._cold.stop()
        self.shards.stop()

    def _new_actor(self, key: str, partition: int, runtime: Runtime) -> StateActor:
        return StateActor(key, partition, self._state(key_of(key)), _STATES, runtime)

    def _state(self, key: ShareKey) -> KeptState:
        return KeptState(key, self._topics, self._config.share_coordinator_snapshot_update_records_per_snapshot)

    # -- Requests

    def ask(
        self,
        key: ShareKey,
        event: Callable[[Call[events.Answer, Any]], events.Request],
        respond: Callable[[events.Answer], Any],
    ) -> Eventual[Any]:
        """Feed an event to a state, and return what `respond` makes of the answer."""
        text = key_text(key)
        error = self.shards.check(text)
        if error is not ErrorCode.NONE:
            return respond(KafkaError(error))
        call: Call[events.Answer, Any] = Call(respond)
        asked = event(call)
        actor = self.shards.actors.get(text)
        if actor is None and isinstance(asked, events.Initialize):
            actor = self.shards.add(text)
        if actor is not None:
            actor.feed(asked)
        else:
            # A state that does not exist only rejects, or says so: there is nothing to write.
            for token, answer in machine.step(self._state(key), asked, self._clock.now_ms()).replies:
                token.answer(answer)
        return call.result()

    # -- What becomes of states

    def forget_topic(self, topic_id: bytes) -> None:
        """Delete the states of a topic that was deleted, some of them in each turn of the event loop."""
        keeper().run(self._forget_topic(topic_id))

    def _forget_topic(self, topic_id: bytes) -> Iterator[None]:
        actors = [each for each in self.shards.actors.values() if each.state.key.topic_id == topic_id]
        for actor in actors:
            actor.feed(events.Forget())
            yield

    def drop_lost_topics(self) -> None:
        """Delete the states of topics that are not there any more. Call this at a start, once every topic is known."""
        for actor in list(self.shards.actors.values()):
            if self._topics.by_id(actor.state.key.topic_id) is None:
                actor.feed(events.Forget())

    def _prune(self) -> Iterator[None]:
        """Delete what no state needs. A partition that this broker lost and leads again meanwhile keeps everything."""
        needed = {index: end for index in self.shards.owned if (end := self._log.end_offset(index))}
        epochs = {index: self._log.coordinator_epoch(index) for index in needed}
        for actor in list(self.shards.actors.values()):
            offset = actor.state.needed_from
            if offset is not None and actor.partition in needed:
                needed[actor.partition] = min(needed[actor.partition], offset)
            yield
        for index in needed.keys() & self.shards.owned:
            if self._log.coordinator_epoch(index) == epochs[index]:
                offset = self.shards.unreadable_from.get(index, needed[index])
                self._log.delete_before(index, min(offset, needed[index]))

    def _snapshot_cold(self) -> Iterator[None]:
        """Write states again that have not changed for long, where many records of others are behind them."""
        before_ms = self._clock.now_ms() - self._config.share_coordinator_cold_partition_snapshot_interval_ms
        states = Counter(actor.partition for actor in self.shards.actors.values())
        # More records behind it than there are states are many.
        bounds = {index: self._log.end_offset(index) - max(MIN_BEHIND, 2 * count) for index, count in states.items()}
        for actor in list(self.shards.actors.values()):
            kept = actor.state
            is_far = kept.snapshot_offset is not None and kept.snapshot_offset < bounds.get(actor.partition, 0)
            if is_far and kept.written_ms <= before_ms:
                actor.feed(events.TakeSnapshot())
            yield


def key_of(text: str) -> ShareKey:
    """Return the key that FindCoordinator names so. INVALID_REQUEST if it is none."""
    group_id, _, rest = text.rpartition(":")[0].rpartition(":")
    try:
        topic_id = base64.b64decode(rest.encode() + b"=" * (-len(rest) % 4), b"-_", validate=True)
        partition = int(text.rpartition(":")[2])
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None
    if not group_id or len(topic_id) != 16 or not -(2**31) <= partition < 2**31:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a key is a group id, a topic id and a partition, with : between")
    return ShareKey(group_id, topic_id, partition)


def _decode(written: Written, partition: int) -> tuple[str, StateRecord] | None:
    record = records.decode_record(written.key, written.value)
    return None if record is None else (key_text(record.key), record._replace(offset=written.offset))


def _reject(event: events.Event, error: ErrorCode) -> None:
    if isinstance(event, events.Request):
        event.token.answer(KafkaError(error))


_STATES: Machine[KeptState, events.Event, events.Outcome] = Machine(
    noun="share state",
    step=machine.step,
    apply=KeptState.apply,
    encode=records.encode,
    is_blank=KeptState.is_blank,
    timer_events=(),
    long_events=(events.Read, events.TakeSnapshot, events.Write),
    is_long=machine.is_long,
    append_error=partial(append_error, default=None),
    reject=_reject,
    error_answer=lambda answer, error: KafkaError(error),
)
