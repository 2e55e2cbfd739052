"""Clients of simulated coordinators (coordinator_simulation.py): group members, a transactional producer, a leader.

They do what clients of Kafka do about each error: look for the coordinator again, repeat the request, or join again. A
client has one request under way; a response that comes after it has given up is dropped, as with a closed connection.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek.broker.coordination.share_states import events
from odradek.broker.coordination.share_states.persister import (
    UNINITIALIZED_OFFSET,
    ShareKey,
    ShareState,
    StateBatch,
)
from odradek.broker.share_partitions.stretches import RecordState
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

if TYPE_CHECKING:
    from odradek.tests.support.simulations.coordinator_simulation import Coordinators, CoordinatorSimulation

REQUEST_TIMEOUT_MS = 120
# A join waits for the other members.
JOIN_TIMEOUT_MS = 600
PAUSE_MS = 4
SESSION_MS = 100_000
# Errors after which a client looks for the coordinator again.
_ELSEWHERE = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
_AGAIN = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.REBALANCE_IN_PROGRESS,
}


class Context(NamedTuple):
    """The sender of a request."""

    api_version: int
    client_id: str = "c"
    client_host: str = "/127.0.0.1"


class Client:
    """One request at a time to the coordinator; `act` decides what comes next."""

    def __init__(self, simulation: CoordinatorSimulation) -> None:
        self.simulation = simulation
        self._coordinator: Any = None
        self._request = 0
        simulation.later(simulation.chance.randint(1, 30), self.act)

    def act(self) -> None:
        """Send the next request."""
        raise NotImplementedError

    def ask(
        self,
        handle: Callable[[Coordinators], Any],
        answered: Callable[[Any], None],
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        """Send a request to the coordinator; without a response in time look for it again."""
        if self._coordinator is None:
            self._coordinator = self.simulation.find_coordinator()
        if self._coordinator is None:
            self.simulation.later(PAUSE_MS, self.act)
            return
        self._request += 1
        number = self._request

        def answer(response: Any) -> None:
            if number == self._request:
                self._request += 1
                answered(response)

        def give_up() -> None:
            if number == self._request:
                self._request += 1
                self._coordinator = None
                self.act()

        def arrive(coordinators: Coordinators) -> Any:
            # A broker drops what comes over a connection that its client has closed.
            return handle(coordinators) if number == self._request else None

        self.simulation.request(self._coordinator, arrive, answer)
        self.simulation.later(timeout_ms, give_up)

    def is_refused(self, code: int) -> bool:
        """Look for the coordinator again, or wait, where an error asks for that; then `act`."""
        if code in _ELSEWHERE:
            self._coordinator = None
        if code in _ELSEWHERE | _AGAIN:
            self.pause()
            return True
        return False

    def pause(self) -> None:
        """Act a little later."""
        self.simulation.later(PAUSE_MS, self.act)


class Member(Client):
    """A member of the group `g`, which commits ever higher offsets of the partitions that it has."""

    def __init__(self, simulation: CoordinatorSimulation, number: int) -> None:
        super().__init__(simulation)
        self.number = number
        self.id = ""
        self.generation = -1
        # None until a sync was answered.
        self.assignment: list[int] | None = None
        self.is_joined = False
        # What a member that was told its assignment must not be told.
        self.lost = ""
        self._was_synced = False
        # Whether the request under way has reached the broker that leads, not one that does not know better.
        self._was_in_charge = False
        self._others: list[str] = []
        self._is_leader = False
        self._next = 0

    def __str__(self) -> str:
        return f"member {self.number}"

    def act(self) -> None:
        if not self.is_joined:
            self._join()
        elif self.assignment is None:
            self._sync()
        elif self.simulation.chance.random() < 0.5 and self.assignment:
            self._commit(self.simulation.chance.choice(self.assignment))
        else:
            self._beat()

    def _ask(self, method: str, version: int, request: Any, answered: Callable[[Any], None], timeout_ms: int) -> None:
        def handle(found: Coordinators) -> Any:
            self._was_in_charge = self.simulation.in_charge() is found
            return getattr(found.groups, method)(Context(version), request)

        self.ask(handle, answered, timeout_ms)

    # -- Joining

    def _join(self) -> None:
        protocols = [JoinGroupRequestProtocol("range", b"x")]
        request = JoinGroupRequest("g", SESSION_MS, SESSION_MS, self.id, None, "consumer", protocols)
        self._ask("join", 5, request, self._joined, JOIN_TIMEOUT_MS)

    def _joined(self, response: Any) -> None:
        code = response.error_code
        if self.is_refused(code):
            return
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.id = response.member_id
        elif code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._leave(code)
        else:
            assert code == 0, code
            self.id, self.generation, self.is_joined = response.member_id, response.generation_id, True
            self._is_leader = response.leader == self.id
            self._others = sorted(each.member_id for each in response.members)
        self.act()

    def _sync(self) -> None:
        given = []
        if self._is_leader:
            shares = {member: [] for member in self._others}
            for index in range(2):
                shares[self._others[index % len(self._others)]].append(index)
            given = [SyncGroupRequestAssignment(member, bytes(share)) for member, share in shares.items()]
        request = SyncGroupRequest("g", self.generation, self.id, assignments=given)
        self._ask("sync", 3, request, self._synced, REQUEST_TIMEOUT_MS)

    def _synced(self, response: Any) -> None:
        code = response.error_code
        if code in _ELSEWHERE:
            # As Java's client does: join again.
            self.is_joined = False
        if code != ErrorCode.REBALANCE_IN_PROGRESS and self.is_refused(code):
            return
        if code:
            self._leave(code)
        else:
            self.assignment = list(response.assignment)
            self._was_synced = True
        self.act()

    def _leave(self, code: int) -> None:
        """Join again. A member that was synced once is in the log, and must not be unknown."""
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            if self._was_synced and self._was_in_charge:
                self.lost = "UNKNOWN_MEMBER_ID"
            self.id, self._was_synced = "", False
        self.is_joined, self.assignment = False, None

    # -- Stable

    def _beat(self) -> None:
        request = HeartbeatRequest("g", self.generation, self.id)
        self._ask("heartbeat", 3, request, lambda each: self._noted(each.error_code), REQUEST_TIMEOUT_MS)

    def _commit(self, index: int) -> None:
        self._next = offset = max(self._next, self.simulation.told.get(("t", index), 0)) + 1
        topic = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(index, offset)])
        request = OffsetCommitRequest("g", self.generation, self.id, topics=[topic])

        def answered(response: Any) -> None:
            code = response.topics[0].partitions[0].error_code
            if not code:
                self.simulation.note_committed(("t", index), offset)
            self._noted(code)

        self._ask("commit_offsets", 7, request, answered, REQUEST_TIMEOUT_MS)

    def _noted(self, code: int) -> None:
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._leave(code)
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            if self._was_in_charge:
                self.lost = ErrorCode(code).name
            self._leave(code)
        elif self.is_refused(code):
            return
        self.pause()


class TransactionalProducer(Client):
    """A producer with a transactional id: each transaction writes two data partitions, and may commit an offset."""

    def __init__(self, simulation: CoordinatorSimulation, name: str, number: int, *, commits_offsets: bool) -> None:
        """Transactions are numbered from `number` on."""
        super().__init__(simulation)
        self._name = name
        self.id = self.epoch = -1
        self.number = number
        offsets = (self._add_offsets, self._commit_offset) if commits_offsets else ()
        self._steps = (self._begin, self._add, self._write, *offsets, self._end)
        # Transaction -> whether it was committed, as far as the producer was told.
        self.told: dict[int, bool] = {}
        self.is_over = False
        self._step = 0
        self._commits = True

    def act(self) -> None:
        self._steps[self._step]()

    def _next(self, response_code: int) -> None:
        """Go on to the next step; after a fatal error, or now and then for no reason, begin as a new producer."""
        if self.is_refused(response_code):
            return
        if response_code or self.simulation.chance.random() < 0.05:
            self._step = 0
        else:
            self._step += 1
        self.pause()

    def _begin(self) -> None:
        request = InitProducerIdRequest(self._name, SESSION_MS)

        def answered(response: Any) -> None:
            self.id, self.epoch = response.producer_id, response.producer_epoch
            self._next(response.error_code)
            self._start_transaction()

        self.ask(lambda found: found.transactions.initialize(Context(4), request), answered)

    def _start_transaction(self) -> None:
        self.number += 1
        self._commits = self.simulation.chance.random() < 0.7

    def _add(self) -> None:
        if self.is_over:
            return
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._name,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic("data", [0, 1])],
        )

        def answered(response: Any) -> None:
            result = response.results_by_topic_v3_and_below[0].results_by_partition[0]
            self._next(result.partition_error_code)

        self.ask(lambda found: found.transactions.add_partitions(Context(3), request), answered)

    def _write(self) -> None:
        """Both data partitions live all the time: what is under test are markers."""
        for partition in self.simulation.data.all:
            if not partition.write(self.id, self.epoch, self.number):
                self._step = -1
        self._next(0)

    def _add_offsets(self) -> None:
        request = AddOffsetsToTxnRequest(self._name, self.id, self.epoch, "g")
        self.ask(
            lambda found: found.transactions.add_offsets(Context(3), request), lambda each: self._next(each.error_code)
        )

    def _commit_offset(self) -> None:
        topic = TxnOffsetCommitRequestTopic("input", partitions=[TxnOffsetCommitRequestPartition(0, self.number)])
        request = TxnOffsetCommitRequest(self._name, "g", self.id, self.epoch, topics=[topic])

        def handle(found: Coordinators) -> Any:
            return found.groups.commit_in_transaction(Context(3), request, lambda _: ErrorCode.NONE)

        self.ask(handle, lambda each: self._next(each.topics[0].partitions[0].error_code))

    def _end(self) -> None:
        request = EndTxnRequest(self._name, self.id, self.epoch, self._commits)

        def answered(response: Any) -> None:
            if not response.error_code:
                self.told[self.number] = self._commits
            if self.is_refused(response.error_code):
                return
            self._step = 0 if response.error_code else 1
            self._start_transaction()
            self.pause()

        self.ask(lambda found: found.transactions.end(Context(3), request), answered)


class ShareLeader(Client):
    """The leader of a partition that a share group reads: it has the share coordinator write what was accepted.

    It loads the state again now and then, as the next leader or as the same one. A request may arrive a second time,
    late and over another connection than those that came after it.
    """

    KEY = ShareKey("s", bytes(16), 0)

    def __init__(self, simulation: CoordinatorSimulation) -> None:
        super().__init__(simulation)
        # What the coordinator has said that it is written.
        self.told: set[int] = set()
        self._is_begun = False
        self._epoch = 0
        self._is_loaded = False

    @property
    def _start(self) -> int:
        return next(offset for offset in count() if offset not in self.told)

    def act(self) -> None:
        """Begin the state, load it, or write that a record behind the start was accepted."""
        if not self._is_begun:
            self._ask(partial(events.Initialize, state_epoch=1, start_offset=UNINITIALIZED_OFFSET), self._begun)
        elif not self._is_loaded:
            self._ask(partial(events.Read, leader_epoch=self._epoch), self._loaded)
        else:
            start = self._start
            offset = self.simulation.chance.choice([each for each in range(start, start + 5) if each not in self.told])
            batches = [StateBatch(offset, offset, RecordState.ACKNOWLEDGED, 1)]
            write = partial(
                events.Write,
                state_epoch=1,
                leader_epoch=self._epoch,
                start_offset=start,
                delivery_complete_count=0,
                batches=batches,
            )
            self._ask(write, partial(self._written, offset))

    def _begun(self, answer: events.Answer) -> None:
        self._is_begun = answer is None
        self.pause()

    def _loaded(self, answer: events.Answer) -> None:
        self._is_loaded = isinstance(answer, ShareState)
        self.pause()

    def _written(self, offset: int, answer: events.Answer) -> None:
        chance = self.simulation.chance
        if answer is None:
            self.told.add(offset)
        if answer is not None or chance.random() < 0.1:
            self._is_loaded, self._epoch = False, self._epoch + chance.randint(0, 1)
        self.pause()

    def _ask(self, make: Callable[[Any], events.Request], answered: Callable[[events.Answer], None]) -> None:
        def handle(coordinators: Coordinators) -> Any:
            return coordinators.share_states.ask(self.KEY, make, lambda answer: (answer,))

        def unpacked(response: tuple[events.Answer]) -> None:
            (answer,) = response
            if not (isinstance(answer, KafkaError) and self.is_refused(answer.code)):
                answered(answer)

        self.ask(handle, unpacked)
        simulation, coordinator = self.simulation, self._coordinator
        if coordinator is not None and simulation.chance.random() < 0.3:
            late_ms = simulation.chance.randint(0, REQUEST_TIMEOUT_MS)
            simulation.later(late_ms, lambda: simulation.request(coordinator, handle, lambda _: None))

    def lacks(self, state: ShareState | None) -> set[int]:
        """Return what a state does not have of what this leader was told."""
        if state is None:
            return self.told
        done = {offset for each in state.batches for offset in range(each.first_offset, each.last_offset + 1)}
        return {offset for offset in self.told if offset >= state.start_offset and offset not in done}
