"""Idempotent producers on simulated replicas, by seed: nothing is written twice, and none is left out.

Each replica keeps its records in a real log on disk (storage/log.py), with small segments: its state of the producers
comes from appends, from truncations, from snapshots and from what a start reads, as in a broker. A broker ends by a
clean stop or is killed, perhaps in the middle of a write. Two producers have five batches in flight each. A batch that
is not acknowledged is sent again, to any broker that takes itself for the leader; requests may be late, lost, doubled
or in another order. `_check` holds after every event, besides what replica_simulation.py checks:

- in every log the sequences of a producer follow each other: none is doubled, none is missing;
- what a producer is told is written lies where it was told;
- the state of the producers and the leader epochs are what the log says.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from odradek.protocol.errors import KafkaError
from odradek.protocol.records.batch import encode_batch, read_header
from odradek.protocol.records.record import Record
from odradek.storage.config import LogConfig
from odradek.storage.files import Disk, File
from odradek.storage.known_logs import KnownLog
from odradek.storage.log import Log
from odradek.storage.producers import WINDOW_BATCHES, ProducerStates
from odradek.tests.support.simulations.replica_simulation import Node, Simulation

PRODUCERS = (1, 2)
RETRY_MS = 25
# A segment holds some four batches.
CONFIG = LogConfig(segment_bytes=320)


class UnsafeDisk(Disk):
    """Forces nothing to disk: a process that is killed loses nothing that the system has."""

    def fsync(self, file: File) -> None:
        """Do nothing."""

    def fsync_dir(self, path: Path) -> None:
        """Do nothing."""


def encode(offset: int, leader_epoch: int, producer_id: int, sequence: int) -> bytes:
    """Return the batch of one record that a producer sends with this sequence."""
    return encode_batch(
        [Record(timestamp_ms=1000, value=b"%d" % sequence)],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        partition_leader_epoch=leader_epoch,
    )


class StoredNode(Node):
    """A replica whose records, (producer id, sequence), are in a log on disk as well. Each producer has written one."""

    def __init__(self, number: int, directory: Path, chance: random.Random) -> None:
        super().__init__(number)
        self._directory = directory
        self._chance = chance
        self._is_clean = False
        self._point = 0
        self._known: KnownLog | None = None
        self._open()
        for producer_id in PRODUCERS:
            self.append(0, (producer_id, 0))  # type: ignore[arg-type]
        self.high_watermark = self.end

    def _open(self) -> None:
        self.store = Log.open(
            self._directory,
            CONFIG,
            clean=self._is_clean,
            now_ms=1000,
            recovery_point=self._point,
            known=self._known,
            disk=UnsafeDisk(),
        )
        self.epochs = self.store.epochs

    def append(self, epoch: int, value: int) -> None:
        offset = self.end
        super().append(epoch, value)
        data = encode(offset, epoch, *value)  # type: ignore[misc]
        self.store.append(data, read_header(data), 1000)

    def truncate(self, offset: int) -> None:
        super().truncate(offset)
        self.store.truncate_to(offset, self.store.view().producers_before(offset, 1000))
        self._point = self.store.checkpoint()

    def crash(self, chance: random.Random) -> None:
        super().crash(chance)
        self._is_clean, self._known = chance.random() < 0.3, None
        if chance.random() < 0.3:
            self.store.flush()
            self._point = self.store.checkpoint()
        if self._is_clean:
            self.store.close()
            self._point, self._known = self.store.recovery_point, self.store.known()
        elif chance.random() < 0.3:
            self._tear()

    def _tear(self) -> None:
        """Leave a part of a batch behind the end, as a process does that is killed in the middle of a write."""
        data = encode(self.end, self.epochs.latest, PRODUCERS[0], 10**6)
        newest = max(self._directory.glob("*.log"))
        with newest.open("ab") as file:
            file.write(data[: self._chance.randrange(1, len(data))])

    def restart(self) -> None:
        super().restart()
        self._open()


class ForgetfulNode(StoredNode):
    """A replica with one mistake in what it keeps of producers."""

    bug = ""

    def append(self, epoch: int, value: int) -> None:
        super().append(epoch, value)
        if self.bug == "forget the fifth batch":
            for _, producer in self.store.producers.items():
                del producer.window[: -WINDOW_BATCHES + 1]

    def truncate(self, offset: int) -> None:
        before = self.store.producers
        super().truncate(offset)
        if self.bug == "keep the producers over a truncation":
            self.store.producers = before

    def restart(self) -> None:
        super().restart()
        if self.bug == "start without the producers":
            self.store.producers = ProducerStates()


BUGS = ("forget the fifth batch", "keep the producers over a truncation", "start without the producers")


@dataclass
class Sender:
    """A producer: what it has sent and not heard of, oldest first."""

    id: int
    next_sequence: int = 1
    unacknowledged: list[int] = field(default_factory=list[int])

    @property
    def may_send(self) -> bool:
        """Whether fewer than five batches are under way, from the oldest one on."""
        return not self.unacknowledged or self.next_sequence - self.unacknowledged[0] < WINDOW_BATCHES


class ProducerSimulation(Simulation):
    """Three replicas in `folder`, a controller and two producers."""

    def __init__(self, seed: int, folder: Path, bug: str = "", min_isr: int = 1) -> None:
        self._folder = folder
        self.senders = {each: Sender(each) for each in PRODUCERS}
        # How many batches were answered as duplicates.
        self.duplicates = 0
        super().__init__(seed, bug, min_isr=min_isr)
        self.committed = list(self.nodes[1].log)
        for sender in self.senders.values():
            self._later(self.chance.randint(1, RETRY_MS), lambda sender=sender: self._send_again(sender))

    def new_node(self, number: int) -> Node:
        kind = type("Planted", (ForgetfulNode,), {"bug": self.bug}) if self.bug else StoredNode
        return kind(number, self._folder / str(number), self.chance)

    def run(self) -> None:
        super().run()
        for sender in self.senders.values():
            self._require(not sender.unacknowledged, f"producer {sender.id} waits for {sender.unacknowledged}")

    # -- Clients

    def _produce(self) -> None:
        sender = self.chance.choice(list(self.senders.values()))
        if sender.may_send:
            sender.unacknowledged.append(sender.next_sequence)
            sender.next_sequence += 1
            self._request(sender, sender.unacknowledged[-1:])

    def _send_again(self, sender: Sender) -> None:
        self._later(self.chance.randint(RETRY_MS // 2, RETRY_MS), lambda: self._send_again(sender))
        self._request(sender, sender.unacknowledged)

    def _request(self, sender: Sender, sequences: list[int]) -> None:
        """Send batches to a broker that takes itself for the leader, if there is one."""
        leaders = [node for node in self.nodes.values() if node.alive and node.leadership is not None]
        if leaders:
            node = self.chance.choice(leaders)
            for sequence in sequences:
                self._send(self._arrival(node, sender.id, sequence), node)

    def _arrival(self, node: Node, producer_id: int, sequence: int) -> Callable[[], None]:
        return lambda: self._receive(node, producer_id, sequence)

    def _receive(self, node: Node, producer_id: int, sequence: int) -> None:
        """Handle a batch as broker/topics/partition.py does. A producer that hears nothing sends it again."""
        assert isinstance(node, StoredNode)
        leadership = node.leadership
        if leadership is None or leadership.is_under_min_isr or not node.has_room:
            return
        header = read_header(encode(0, -1, producer_id, sequence))
        try:
            duplicate = node.store.producers.check(header)
        except KafkaError:
            return
        value: int = (producer_id, sequence)  # type: ignore[assignment]
        if duplicate is None:
            node.append(leadership.role.leader_epoch, value)
            node.high_watermark = leadership.appended(node.end)
            offset = node.end - 1
        else:
            self.duplicates += 1
            offset = duplicate.base_offset
            is_there = offset < node.end and node.log[offset][1] == value
            self._require(is_there, f"{node.id} says that {value} is a duplicate of offset {offset}")
        node.waiting[offset] = value
        self._acknowledge(node)

    def _commit(self, node: Node, end: int) -> None:
        super()._commit(node, end)
        producer_id, sequence = node.log[end - 1][1]  # type: ignore[misc]
        self._send(lambda: self._tell_written(self.senders[producer_id], sequence))

    def _tell_written(self, sender: Sender, sequence: int) -> None:
        if sequence in sender.unacknowledged:
            sender.unacknowledged.remove(sequence)

    # -- The promises

    def _check(self) -> None:
        super()._check()
        for node in self.nodes.values():
            assert isinstance(node, StoredNode)
            for producer_id in PRODUCERS:
                written = [(at, value[1]) for at, (_, value) in enumerate(node.log) if value[0] == producer_id]  # type: ignore[index]
                sequences = [sequence for _, sequence in written]
                in_order = sequences == list(range(len(sequences)))
                self._require(in_order, f"{node.id} has the sequences {sequences} of producer {producer_id}")
                if node.alive and not self.bug:
                    self._check_state(node, producer_id, written[-WINDOW_BATCHES:])
            if node.alive:
                self._check_epochs(node)

    def _check_state(self, node: StoredNode, producer_id: int, last: list[tuple[int, int]]) -> None:
        """Require that a replica knows exactly these last batches of a producer: (offset, sequence)."""
        self._require(node.store.log_end_offset == node.end, f"the log of {node.id} ends elsewhere")
        state = node.store.producers.get(producer_id)
        known = [(each.last_offset, each.last_sequence) for each in state.batches] if state is not None else []
        self._require(known == last, f"{node.id} knows {known} of producer {producer_id}, and its log has {last}")

    def _check_epochs(self, node: StoredNode) -> None:
        """Require that a replica knows where each epoch in its log begins. One without records may begin at the end."""
        epochs = [epoch for epoch, _ in node.log]
        begun = [(epoch, at) for at, epoch in enumerate(epochs) if at == 0 or epochs[at - 1] != epoch]
        known = [entry for entry in node.epochs.entries if entry[1] < node.end]
        self._require(known == begun, f"{node.id} knows the epochs {known}, and its log has {begun}")
