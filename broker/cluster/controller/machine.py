"""The controller's machine: what it does when something happens in the cluster.

It reaches ZooKeeper by yielding, and has no clock, socket or loop. Only the ids of topics, and the broker with which a
placement begins, are drawn at random here.

Each method is one event and runs to its end before the next begins. It changes what ZooKeeper holds, then `cluster`,
then the outbox; `take_messages` returns what brokers are to be told. The shell (`controller.py`) runs the steps, fences
every write with the controller's epoch, and sends the messages. A step that fails half-way is no harm: a new election
begins with `take_over`, which reads everything again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping

from ....protocol.errors import ErrorCode, KafkaError
from ....zookeeper import operations
from ....zookeeper.operations import (
    Delete,
    Put,
    Steps,
    TooLarge,
    children,
    portions,
    read,
    read_all,
    select,
    write,
    write_all,
)
from ...topics.topic_names import new_topic_id
from ..znodes import (
    BROKER_IDS,
    ISR_CHANGES,
    LOG_DIR_EVENTS,
    NO_LEADER,
    PREFERRED_REPLICA_ELECTION,
    TOPICS,
    Assignment,
    LeaderAndIsr,
    Registration,
    TopicPartition,
    broker_path,
    config_path,
    decode_assignment,
    decode_config,
    decode_log_dir_event,
    decode_places,
    decode_registration,
    decode_state,
    encode_assignment,
    sound,
    state_path,
    topic_path,
)
from .cluster_state import ClusterState
from .deletion import Deletion
from .election import (
    Election,
    elect_for_shutdown,
    elect_in_sync,
    elect_preferred,
    elect_unclean,
    elect_with_room,
)
from .outbox import Message, Outbox
from .partition_states import PartitionStates
from .reassignment import Reassignment, Target

# Topics that are read in one turn of the event loop: some have hundreds of partitions.
TOPICS_A_TURN = 10
UNCLEAN = "unclean.leader.election.enable"

_log = logging.getLogger(__name__)


class ControllerMachine:
    """The controller of one epoch."""

    def __init__(self, broker_id: int, epoch: int, unclean_elections: Callable[[], bool] = lambda: False) -> None:
        """`unclean_elections` returns the broker's setting, which a topic may override."""
        self.cluster = ClusterState(broker_id, epoch)
        self._outbox = Outbox()
        self._unclean = unclean_elections
        self._states = PartitionStates(self.cluster, self._outbox)
        self.deletion = Deletion(self.cluster, self._outbox)
        self.reassignment = Reassignment(self.cluster, self._outbox, self._states)

    def take_messages(self) -> Iterator[Message | None]:
        """Yield what brokers must be told since the last call, and None where others may have a turn of the loop.

        No event may begin before the end.
        """
        return self._outbox.take(self.cluster)

    # -- Taking over

    def take_over(self) -> Steps[None]:
        """Read the whole cluster, tell every broker of it, and do what the last controller left undone."""
        yield from self._read_brokers()
        written = yield from self._read_topics()
        for broker in self.cluster.live:
            self._outbox.welcome(broker)
        # The last controller may have died together with others, or be one of the dead itself.
        yield from self._replicas_died((yield from self._dead_in_isr()))
        yield from self._replicas_restarted(written)
        yield from self.reassignment.take_up()
        yield from self.deletion.take_up()
        yield from self.elect_as_asked()
        yield from self.isr_changed()
        yield from self.log_dirs_failed()
        known = self.cluster.epoch, sorted(self.cluster.live), len(self.cluster.replicas)
        _log.info("controller of epoch %d: brokers %s, %d partitions", *known)

    def _read_brokers(self) -> Steps[dict[int, Registration]]:
        """Read who is alive, and watch for changes. Returns the brokers as they were known before."""
        before = dict(self.cluster.live)
        ids = [int(each) for each in (yield from children(BROKER_IDS, watch=True)) if each.isdecimal()]
        znodes = yield from read_all((broker_path(each) for each in ids), watch=True)
        found = (
            sound(decode_registration, broker, znode.data, znode.czxid)
            for broker, znode in zip(ids, znodes, strict=True)
            if znode is not None
        )
        self.cluster.live = {each.broker_id: each for each in found if each is not None}
        return before

    def _read_topics(self) -> Steps[dict[TopicPartition, int | None]]:
        """Read the topics that are not known yet, with the states of their partitions.

        Returns the partitions, each with the zxid that wrote its state, None without a state.
        """
        names = yield from children(TOPICS, watch=True)
        new = [each for each in names if each not in self.cluster.topic_ids]
        places: list[TopicPartition] = []
        for some in portions(new, TOPICS_A_TURN):
            znodes = yield from read_all((topic_path(each) for each in some), watch=True)
            for topic, znode in zip(some, znodes, strict=True):
                assignment = sound(decode_assignment, topic, znode.data) if znode is not None else None
                self.cluster.unread.discard(topic)
                if znode is not None and assignment is not None:
                    places += yield from self._add_topic(topic, assignment, znode.version)
                elif znode is not None:
                    self.cluster.unread.add(topic)
        written: dict[TopicPartition, int | None] = dict.fromkeys(places)
        for some in portions(places, operations.PARTITIONS_A_TURN):
            states = yield from read_all(state_path(each) for each in some)
            for place, znode in zip(some, states, strict=True):
                state = sound(decode_state, place, znode.data, znode.version) if znode is not None else None
                if znode is not None and state is not None:
                    self.cluster.states[place] = state
                    written[place] = znode.mzxid
        return written

    def _registered_since(self, zxid: int, brokers: Iterable[int]) -> list[int]:
        live = self.cluster.live
        return sorted(each for each in brokers if each in live and live[each].epoch > zxid)

    def _add_topic(self, topic: str, assignment: Assignment, version: int) -> Steps[list[TopicPartition]]:
        """Take a topic into the cluster. One that an older broker made is given an id."""
        topic_id = assignment.topic_id
        if topic_id is None:
            topic_id = new_topic_id()
            given = Assignment(topic_id, assignment.partitions)
            try:
                yield from write(Put(topic_path(topic), encode_assignment(given), version))
            except TooLarge as error:
                _log.error("topic %s gets another id with each controller: %s", topic, error.message)
        self.cluster.topic_ids[topic] = topic_id
        places = [TopicPartition(topic, index) for index in sorted(assignment.partitions)]
        self.cluster.replicas.update((each, assignment.partitions[each.partition]) for each in places)
        return places

    def _dead_in_isr(self) -> Steps[dict[int, list[TopicPartition]]]:
        """Return the brokers that are dead, with the partitions whose ISR they are in."""
        states, live = self.cluster.states, self.cluster.live.keys()
        found: dict[int, list[TopicPartition]] = {}
        for place in (yield from select(states, lambda each: not live >= set(states[each].isr))):
            for broker in set(states[place].isr) - live:
                found.setdefault(broker, []).append(place)
        return found

    def lead_everything(self) -> Steps[None]:
        """Give a leader to every partition that has none and can have one."""
        yield from self._states.begin((yield from self.cluster.never_led()))
        dead = yield from self.cluster.without_leader()
        unclean = yield from self._unclean_topics({each.topic for each in dead})

        def election_of(place: TopicPartition) -> Election:
            return elect_unclean if place.topic in unclean else elect_in_sync

        yield from self._states.elect(dead, election_of)

    def _unclean_topics(self, topics: Iterable[str]) -> Steps[set[str]]:
        """Return those topics that let a replica lead that is not in sync."""
        names = sorted(topics)
        znodes = yield from read_all(config_path("topics", each) for each in names)
        found: set[str] = set()
        for topic, znode in zip(names, znodes, strict=True):
            configs = sound(decode_config, config_path("topics", topic), znode.data) if znode is not None else {}
            if (configs or {}).get(UNCLEAN, str(self._unclean())).lower() == "true":
                found.add(topic)
        return found

    # -- Brokers come and go

    def brokers_changed(self) -> Steps[None]:
        """Note who came, who went, and who did both between two looks."""
        before = yield from self._read_brokers()
        now = self.cluster.live
        bounced = {each for each in before if each in now and now[each].epoch != before[each].epoch}
        gone = (set(before) - set(now)) | bounced
        came = (set(now) - set(before)) | bounced
        if gone:
            # A broker that did both is gone first: its replicas are out of sync until they have caught up again.
            self.cluster.live = {each: broker for each, broker in now.items() if each not in bounced}
            yield from self._brokers_went(gone)
            self.cluster.live = now
        if came:
            yield from self._brokers_came(came)
        if not gone and not came and before != now:
            self._outbox.tell_everybody()

    def _brokers_went(self, gone: set[int]) -> Steps[None]:
        _log.info("brokers %s are gone", sorted(gone))
        self.cluster.shutting_down -= gone
        self.cluster.failed = {each for each in self.cluster.failed if each[0] not in gone}
        self.cluster.full = {each for each in self.cluster.full if each[0] not in gone}
        self._outbox.tell_everybody()
        held: dict[int, list[TopicPartition]] = {}
        for broker in gone:
            held[broker] = yield from self.cluster.on_broker(broker)
        yield from self._replicas_died(held)
        for broker in gone:
            self.deletion.note_failed(broker)

    def _replicas_died(self, dead: Mapping[int, list[TopicPartition]]) -> Steps[None]:
        """Elect leaders where the dead led, and take the dead out of ISRs."""
        yield from self.lead_everything()
        for broker, places in dead.items():
            in_isr = [each for each in places if broker in self.cluster.states.get(each, _NOBODY).isr]
            yield from self._states.remove_from_isr(broker, in_isr)

    def _replicas_restarted(self, written: Mapping[TopicPartition, int | None]) -> Steps[None]:
        """Elect again where members of an ISR went and came back while there was no controller.

        A power cut may have taken the end of their logs. In the same leader epoch they would write other records at
        offsets that followers hold already. So they leave the ISR, as if the last controller had seen them go; where
        nobody else is in it, a new leader epoch makes the others truncate. `written` has the zxid of each state as
        it was read.
        """
        states = self.cluster.states

        def restarted(place: TopicPartition) -> list[int]:
            zxid = written[place]
            return [] if zxid is None else self._registered_since(zxid, states[place].isr)

        alone: list[TopicPartition] = []
        gone: dict[int, list[TopicPartition]] = {}
        for place in (yield from select(written, lambda each: bool(restarted(each)))):
            brokers = restarted(place)
            if len(brokers) == len(states[place].isr):
                alone.append(place)
                continue
            for broker in brokers:
                gone.setdefault(broker, []).append(place)
        out_of_sync = {(broker, each) for broker, places in gone.items() for each in places}
        # As replicas without a disk they may not lead, until all of them are out of their ISRs.
        self.cluster.failed |= out_of_sync
        yield from self._replicas_died(gone)
        self.cluster.failed -= out_of_sync
        yield from self._states.elect(alone, lambda _: elect_in_sync)

    def _brokers_came(self, came: set[int]) -> Steps[None]:
        _log.info("brokers %s have come", sorted(came))
        for broker in came:
            self._outbox.welcome(broker)
        self._outbox.tell_everybody()
        yield from self.lead_everything()
        yield from self._complete((yield from self.reassignment.moving()))

    def welcome(self, broker: int) -> Steps[None]:
        """Tell a broker everything, also what it was told before."""
        self._outbox.welcome(broker)
        self.deletion.ask_again(broker)
        yield from ()

    def tell_everything(self, broker: int, broker_epoch: int) -> Steps[None]:
        """Tell a broker everything again, because it could not do what it was told; not after a new start."""
        if self._is_registered(broker, broker_epoch):
            yield from self.welcome(broker)

    def tell_again(
        self,
        broker: int,
        broker_epoch: int,
        roles: Mapping[TopicPartition, bool],
        stops: Mapping[TopicPartition, tuple[int, bool]],
    ) -> Steps[None]:
        """Tell a broker again which replicas it has, new ones or not, and which it has to stop, if that still holds."""
        if self._is_registered(broker, broker_epoch):
            held = self.cluster.replicas
            for place, is_new in roles.items():
                if place in self.cluster.states and broker in held[place].replicas:
                    self._outbox.tell_role([broker], place, is_new=is_new)
            for place, (leader_epoch, delete) in stops.items():
                has_moved = place not in held or broker not in held[place].replicas
                if has_moved or self.deletion.waits_for(broker, place):
                    self._outbox.stop(broker, place, leader_epoch, delete=delete)
        yield from ()

    def _is_registered(self, broker: int, broker_epoch: int) -> bool:
        registration = self.cluster.live.get(broker)
        return registration is not None and registration.epoch == broker_epoch

    def log_dirs_failed(self) -> Steps[None]:
        """Ask the brokers whose log directories failed, are full or have room again: the answer comes as a response."""
        names = yield from children(LOG_DIR_EVENTS, watch=True)
        paths = [f"{LOG_DIR_EVENTS}/{each}" for each in names]
        znodes = yield from read_all(paths)
        for path, znode in zip(paths, znodes, strict=True):
            broker = sound(decode_log_dir_event, path, znode.data) if znode is not None else None
            if broker in self.cluster.live:
                _log.warning("replicas of broker %d are offline, full, or have room again: it is asked which", broker)
                yield from self.welcome(broker)
        yield from write_all((Delete(each),) for each in paths)

    def replicas_answered(
        self,
        broker: int,
        broker_epoch: int,
        failed: Iterable[TopicPartition],
        back: Iterable[TopicPartition],
        full: Iterable[TopicPartition] = (),
    ) -> Steps[None]:
        """Note whose log directory is offline or full, and whose works again, as a response to LeaderAndIsr says.

        A broker that has registered again since is asked again: its disk may work now.
        """
        if not self._is_registered(broker, broker_epoch):
            return
        known, offline = self.cluster.failed, {(broker, each) for each in failed}
        without_room = {(broker, each) for each in full}
        working = {(broker, each) for each in back}
        new = sorted(each for _, each in offline - known)
        is_back = bool(known & (working | without_room))
        self.cluster.failed = (known - working - without_room) | offline
        self.cluster.full = (self.cluster.full - working - offline) | without_room
        if new:
            yield from self._replicas_died({broker: new})
        elif is_back:
            yield from self.lead_everything()
        yield from self._lead_with_room(sorted(each for _, each in working | without_room))

    def _lead_with_room(self, places: Iterable[TopicPartition]) -> Steps[None]:
        """Have partitions led by a replica that has room, where one is in sync, and those without leave the ISR."""
        cluster = self.cluster

        def is_better(place: TopicPartition) -> bool:
            state = cluster.states.get(place)
            if state is None or place.topic in cluster.deleting:
                return False
            can_write = [cluster.can_write(each, place) for each in state.isr]
            return any(can_write) and any((each, place) in cluster.full for each in state.isr)

        yield from self._states.elect([each for each in places if is_better(each)], lambda _: elect_with_room)

    def shut_down(self, broker: int, broker_epoch: int) -> Steps[list[TopicPartition]]:
        """Move leaders away from a broker that is about to stop. Returns the partitions that it still leads.

        Raises BROKER_NOT_AVAILABLE for a broker that is not alive, STALE_BROKER_EPOCH.
        """
        registration = self.cluster.live.get(broker)
        if registration is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker {broker} is not alive.")
        if broker_epoch not in (-1, registration.epoch):
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
        self.cluster.shutting_down.add(broker)
        held = yield from self.cluster.on_broker(broker)
        replicated = [each for each in held if len(self.cluster.replicas[each].replicas) > 1]
        led = [each for each in replicated if self._leader_of(each) == broker]
        yield from self._states.elect(led, lambda _: elect_for_shutdown)
        followed = [each for each in replicated if self._leader_of(each) != broker]
        yield from self._states.remove_from_isr(broker, followed)
        # Last, because the other steps would have it follow on: the leader would ask for it to be in sync again.
        for place in followed:
            if place in self.cluster.states:
                self._outbox.stop(broker, place, self.cluster.states[place].leader_epoch, delete=False)
        return [each for each in led if self._leader_of(each) == broker]

    def _leader_of(self, place: TopicPartition) -> int:
        return self.cluster.states.get(place, _NOBODY).leader

    # -- Topics

    def topics_changed(self) -> Steps[None]:
        """Note topics that were created, and those whose znodes somebody removed by hand."""
        names = set((yield from children(TOPICS, watch=True)))
        for topic in set(self.cluster.topic_ids) - names:
            self.cluster.forget_topic(topic)
        self.cluster.unread &= names
        places = yield from self._read_topics()
        yield from self._states.begin(each for each in places if each not in self.cluster.states)

    def partitions_changed(self, topic: str) -> Steps[None]:
        """Note the partitions that a topic was given."""
        znode = yield from read(topic_path(topic), watch=True)
        if znode is None or topic in self.cluster.deletions:
            return
        if topic not in self.cluster.topic_ids:
            # Its znode could not be read before.
            yield from self.topics_changed()
            return
        assignment = sound(decode_assignment, topic, znode.data)
        if assignment is None:
            return
        places = [TopicPartition(topic, index) for index in sorted(assignment.partitions)]
        new = [each for each in places if each not in self.cluster.replicas]
        self.cluster.replicas.update((each, assignment.partitions[each.partition]) for each in new)
        yield from self._states.begin(new)

    # -- Elections

    def elect_as_asked(self) -> Steps[None]:
        """Elect the preferred leaders that `/admin/preferred_replica_election` asks for."""
        znode = yield from read(PREFERRED_REPLICA_ELECTION, watch=True)
        if znode is not None:
            yield from self.elect(sound(decode_places, PREFERRED_REPLICA_ELECTION, znode.data) or (), unclean=False)
            yield from write(Delete(PREFERRED_REPLICA_ELECTION))

    def elect(self, places: Iterable[TopicPartition], *, unclean: bool) -> Steps[dict[TopicPartition, ErrorCode]]:
        """Elect the preferred leaders, or where `unclean` any living replica. Returns the error of each, or NONE."""
        results: dict[TopicPartition, ErrorCode] = {}
        wanted: list[TopicPartition] = []
        for place in places:
            results[place] = self._reason_not_to_elect(place, unclean=unclean)
            if results[place] is ErrorCode.NONE:
                wanted.append(place)
        election: Election = elect_unclean if unclean else elect_preferred
        errors = yield from self._states.elect(wanted, lambda _: election)
        if not unclean:
            none_left = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
            preferred = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            errors = {place: preferred if error is none_left else error for place, error in errors.items()}
        return results | errors

    def _reason_not_to_elect(self, place: TopicPartition, *, unclean: bool) -> ErrorCode:
        replicas = self.cluster.replicas.get(place)
        if replicas is None or place.topic in self.cluster.deletions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if place not in self.cluster.states:
            return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        is_fine = self.cluster.is_led(place) if unclean else self._leader_of(place) == replicas.replicas[0]
        return ErrorCode.ELECTION_NOT_NEEDED if is_fine else ErrorCode.NONE

    def balance(self, imbalance_percent: int) -> Steps[None]:
        """Make preferred replicas leaders again, of each broker that leads too few of those that it should lead."""
        by_broker: dict[int, list[TopicPartition]] = {}
        for place, replicas in self.cluster.replicas.items():
            if place.topic not in self.cluster.deletions and place in self.cluster.states:
                by_broker.setdefault(replicas.replicas[0], []).append(place)
        for broker, places in by_broker.items():
            away = [each for each in places if self._leader_of(each) != broker]
            if len(away) * 100 > imbalance_percent * len(places):
                yield from self._states.elect(self._may_return(broker, away), lambda _: elect_preferred)

    def _may_return(self, broker: int, places: list[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions that a broker can lead again at once."""
        return [
            each
            for each in places
            if self.cluster.can_write(broker, each)
            and broker in self.cluster.states[each].isr
            and not self.cluster.replicas[each].is_moving
        ]

    # -- In-sync replicas

    def isr_changed(self) -> Steps[None]:
        """Note the ISRs that brokers have written themselves, as those before AlterPartition do."""
        names = yield from children(ISR_CHANGES, watch=True)
        paths = [f"{ISR_CHANGES}/{each}" for each in names]
        znodes = yield from read_all(paths)
        found = [(path, znode) for path, znode in zip(paths, znodes, strict=True) if znode is not None]
        places = {each for path, znode in found for each in sound(decode_places, path, znode.data) or ()}
        known = [each for each in sorted(places) if each in self.cluster.replicas]
        yield from self._states.refresh(known)
        if not all(self.cluster.is_led(each) for each in known):
            # A leader that has lost records has left its ISR.
            yield from self.lead_everything()
        yield from self._lead_with_room(known)
        yield from write_all((Delete(path),) for path in paths)
        yield from self._complete(known)

    def alter_partitions(
        self, broker: int, broker_epoch: int, wanted: Mapping[TopicPartition, LeaderAndIsr]
    ) -> Steps[dict[TopicPartition, ErrorCode]]:
        """Write the ISRs that a leader asks for. Each names the epochs that the leader knows. Returns the errors.

        Raises STALE_BROKER_EPOCH where another start of the broker is registered.
        """
        if not self._is_registered(broker, broker_epoch):
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
        errors = {place: self._check_alteration(broker, place, state) for place, state in wanted.items()}
        sound = {
            place: LeaderAndIsr(broker, state.leader_epoch, state.isr, self.cluster.epoch, state.partition_epoch)
            for place, state in wanted.items()
            if errors[place] is ErrorCode.NONE and state.isr != self.cluster.states[place].isr
        }
        errors |= yield from self._states.set_isr(sound)
        yield from self._lead_with_room(sound)
        yield from self._complete(sound)
        return errors

    def _complete(self, places: Iterable[TopicPartition]) -> Steps[None]:
        """Complete the reassignments whose new replicas are in sync by now, and the deletions that waited for them."""
        yield from self.reassignment.complete(places)
        yield from self.deletion.resume()

    def _check_alteration(self, broker: int, place: TopicPartition, wanted: LeaderAndIsr) -> ErrorCode:
        state = self.cluster.states.get(place)
        if state is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if wanted.leader_epoch > state.leader_epoch or wanted.partition_epoch > state.partition_epoch:
            return ErrorCode.NOT_CONTROLLER
        if wanted.leader_epoch < state.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if wanted.partition_epoch < state.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        if broker != state.leader or broker not in wanted.isr:
            return ErrorCode.INVALID_REQUEST
        if not set(wanted.isr) <= set(self.cluster.replicas[place].replicas):
            return ErrorCode.INVALID_REQUEST
        joining = set(wanted.isr) - set(state.isr)
        may_join = all(self.cluster.can_write(each, place) for each in joining)
        return ErrorCode.NONE if may_join else ErrorCode.INELIGIBLE_REPLICA

    # -- Reassignments

    def reassign(
        self, wanted: Mapping[TopicPartition, Target], *, may_change_factor: bool = True
    ) -> Steps[dict[TopicPartition, KafkaError]]:
        """Begin or cancel reassignments. Returns the errors of those that cannot be."""
        errors = yield from self.reassignment.begin(wanted, may_change_factor=may_change_factor)
        yield from self.deletion.resume()
        return errors


_NOBODY = LeaderAndIsr(NO_LEADER, -1, (), -1)
