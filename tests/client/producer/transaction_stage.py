"""A stage for the machine of a transactional producer: commands and responses as lines of text, requests come out.

    init | begin | commit | abort | settled         calls; `settled`: all records are done
    write PLACE                                     the sender would like to write to a partition
    offsets GROUP                                   send offsets of a group
    ok [id=N epoch=N] [version=N]                   the request was answered without an error
    error CODE                                      it was answered with one
    lost                                            it was not answered
    batch CODE [lost]                               a batch failed for good; lost: its sequence was used

After each command: the move, and the request that is sent now. One is under way at a time.
"""

from __future__ import annotations

from odradek.client.errors import KafkaError
from odradek.client.producer.batch import NO_PRODUCER_ID, ProducerIdAndEpoch
from odradek.client.producer.transaction_machine import (
    Action,
    AddGroup,
    AddPartitions,
    CommitOffsets,
    End,
    Initialize,
    TransactionMachine,
)
from odradek.client.record import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from odradek.protocol.errors import ErrorCode

Options = dict[str, str]


class Stage:
    """One machine, and the request that is under way."""

    def __init__(self) -> None:
        self.machine = TransactionMachine("x")
        self.action: Action | None = None
        self.lines: list[str] = []

    def run(self, command: str) -> list[str]:
        self.lines = []
        verb, *words = command.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        before = self.machine.state
        try:
            getattr(self, f"do_{verb}")([word for word in words if "=" not in word], options)
        except KafkaError as error:
            self.lines.append(f"raises {type(error).__name__} {error.code.name}")
        asks = self.action is None
        if asks:
            self.action = self.machine.next_action()
        if self.machine.state is not before:
            self.lines.append(f"{before.value} -> {self.machine.state.value}")
        if asks and self.action is not None:
            self.lines.append(show(self.action))
        return self.lines

    def answered(self) -> Action:
        """Take the request under way, which the command answers."""
        action, self.action = self.action, None
        assert action is not None, "nothing was asked"
        return action

    def do_init(self, _: list[str], __: Options) -> None:
        self.machine.initialize()

    def do_begin(self, _: list[str], __: Options) -> None:
        self.machine.begin()

    def do_commit(self, _: list[str], __: Options) -> None:
        self.machine.commit()

    def do_abort(self, _: list[str], __: Options) -> None:
        self.machine.abort()

    def do_settled(self, _: list[str], __: Options) -> None:
        self.machine.settled()

    def do_write(self, words: list[str], _: Options) -> None:
        self.machine.check_open()
        topic, _, number = words[0].rpartition("-")
        self.lines.append("goes" if self.machine.may_write(TopicPartition(topic, int(number))) else "waits")

    def do_offsets(self, words: list[str], _: Options) -> None:
        offsets = {TopicPartition("in", 0): OffsetAndMetadata(5)}
        self.machine.send_offsets(CommitOffsets(ConsumerGroupMetadata(words[0]), offsets))

    def do_batch(self, words: list[str], _: Options) -> None:
        self.machine.write_failed(KafkaError(ErrorCode[words[0]]), sequence_lost="lost" in words)

    def do_ok(self, _: list[str], options: Options) -> None:
        machine, action = self.machine, self.answered()
        version = int(options.get("version", machine.version))
        producer = NO_PRODUCER_ID
        if "id" in options:
            producer = ProducerIdAndEpoch(int(options["id"]), int(options["epoch"]))
        match action:
            case Initialize():
                machine.initialized(producer, version)
            case AddPartitions():
                machine.partitions_added(action)
            case AddGroup():
                machine.group_added(action)
            case CommitOffsets():
                machine.offsets_committed(action)
            case End():
                machine.ended(producer, version)

    def do_error(self, words: list[str], _: Options) -> None:
        self.lines.append(self.machine.failed(self.answered(), KafkaError(ErrorCode[words[0]])).value)

    def do_lost(self, _: list[str], __: Options) -> None:
        self.machine.unanswered(self.answered())


def show(action: Action) -> str:
    """An action as the request that it stands for."""
    match action:
        case Initialize():
            return f"InitProducerId {action.producer.producer_id}/{action.producer.epoch}"
        case AddPartitions():
            return "AddPartitionsToTxn " + " ".join(f"{topic}-{number}" for topic, number in action.partitions)
        case AddGroup():
            return f"AddOffsetsToTxn {action.group_id}"
        case CommitOffsets():
            return f"TxnOffsetCommit {action.group.group_id}"
        case End():
            return "EndTxn commit" if action.commit else "EndTxn abort"
