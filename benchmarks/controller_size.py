"""What a controller costs in a large cluster: a take-over and the death of a broker, against a model of ZooKeeper.

    python benchmarks/controller_size.py [BROKERS] [PARTITIONS]

Prints the controller's own time (processor time, without ZooKeeper's), the longest turn of the event loop, in which
nothing else is served, the requests to ZooKeeper, and the messages to brokers. A sample of these is encoded.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

from odradek.broker.cluster.controller.machine import ControllerMachine
from odradek.broker.cluster.controller.outbox import Message
from odradek.broker.cluster.controller.requests import request_of
from odradek.broker.cluster.znodes import (
    CONTROLLER_EPOCH,
    Assignment,
    LeaderAndIsr,
    Registration,
    Replicas,
    TopicPartition,
    broker_path,
    encode_assignment,
    encode_registration,
    encode_state,
    state_path,
    topic_path,
)
from odradek.protocol import frame
from odradek.testing.zookeeper import FakeZookeeper
from odradek.zookeeper.operations import Operation, ReadAll, ReadChildren, Steps, WriteAll

PARTITIONS_A_TOPIC = 100
REPLICAS = 3
# Messages that are encoded: most are alike.
SAMPLE = 9


def fill(zookeeper: FakeZookeeper, brokers: int, partitions: int) -> None:
    """Register brokers, and make topics whose partitions are spread over them."""
    zookeeper.make(CONTROLLER_EPOCH, b"1")
    for number in range(brokers):
        at = Registration(number, (f"PLAINTEXT://host-{number}:9092",), {"PLAINTEXT": "PLAINTEXT"})
        zookeeper.make(broker_path(number), encode_registration(at))
    for first in range(0, partitions, PARTITIONS_A_TOPIC):
        topic = f"topic-{first}"
        spread: dict[int, Replicas] = {}
        for index in range(min(PARTITIONS_A_TOPIC, partitions - first)):
            chosen = tuple((first + index + shift) % brokers for shift in range(REPLICAS))
            spread[index] = Replicas(chosen)
            state = LeaderAndIsr(chosen[0], 0, chosen, 1, 0)
            zookeeper.make(state_path(TopicPartition(topic, index)), encode_state(state))
        zookeeper.nodes[topic_path(topic)].data = encode_assignment(Assignment(first.to_bytes(16), spread))


class Meter:
    """Runs steps, and counts what they cost."""

    def __init__(self, zookeeper: FakeZookeeper) -> None:
        self._zookeeper = zookeeper
        self._session = zookeeper.connect()

    def run(self, what: str, machine: ControllerMachine, steps: Steps[Any]) -> None:
        """Run steps and send what they leave in the outbox. Prints what it took."""
        slices: list[float] = []
        asked, result = 0, None
        while True:
            began = time.process_time()
            try:
                operation = steps.send(result)
            except StopIteration:
                slices.append(time.process_time() - began)
                break
            slices.append(time.process_time() - began)
            asked += _requests(operation)
            result = self._zookeeper.run(self._session, operation)
        messages, turns = _gather(machine)
        sizes, encoded = [], []
        for message in messages[:: max(len(messages) // SAMPLE, 1)]:
            began = time.process_time()
            request, version, _ = request_of(message, 0, 2, 1)
            key = type(request).KEY
            assert key is not None
            sizes.append(sum(map(len, frame.encode_request(key, version, 1, "c", request))))
            encoded.append(time.process_time() - began)
        print(f"{what}: {asked} requests to ZooKeeper")
        print(f"  decisions {sum(slices):.2f} s, the longest at a time {max(slices):.3f} s")
        print(f"  {len(messages)} messages, gathered in {sum(turns):.2f} s, the longest at a time {max(turns):.3f} s")
        print(f"  each {statistics.mean(sizes) / 1e6:.2f} MB, encoded in {statistics.mean(encoded):.3f} s")


def _gather(machine: ControllerMachine) -> tuple[list[Message], list[float]]:
    """Return what brokers are told, and the seconds of each turn of the loop in which it was gathered."""
    messages: list[Message] = []
    turns: list[float] = []
    began = time.process_time()
    for message in machine.take_messages():
        if message is not None:
            messages.append(message)
            continue
        turns.append(time.process_time() - began)
        began = time.process_time()
    return messages, [*turns, time.process_time() - began]


def _requests(operation: Operation) -> int:
    if isinstance(operation, ReadAll):
        return len(operation.paths)
    if isinstance(operation, WriteAll):
        return len(operation.groups)
    return 1 if isinstance(operation, ReadChildren) else 0


def main(brokers: int, partitions: int) -> None:
    zookeeper = FakeZookeeper()
    fill(zookeeper, brokers, partitions)
    machine = ControllerMachine(0, 2, lambda: False)
    meter = Meter(zookeeper)
    print(f"{brokers} brokers, {partitions} partitions, {REPLICAS} replicas each")
    meter.run("a controller takes over", machine, machine.take_over())
    zookeeper.delete_by_hand(broker_path(brokers - 1))
    meter.run("a broker dies", machine, machine.brokers_changed())


if __name__ == "__main__":
    main(*(int(each) for each in (sys.argv[1:] or ("100", "100000"))))
