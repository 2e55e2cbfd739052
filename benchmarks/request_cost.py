"""What small requests cost brokers of CPU time, in turn: a figure that holds on a busy machine, too.

Each kind of request goes to each broker in short turns, one after the other, so that whatever else runs disturbs all of
them. The ratio of two brokers is the median of the ratios of turns that follow each other.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

from odradek.protocol.apis import ApiKey
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.heartbeat import HeartbeatRequest

from . import load
from .brokers import Broker
from .groups import HEARTBEAT, Member, prepared
from .load import Wire, check_produced, request

IN_FLIGHT = 64
REQUESTS_A_TURN = 64 * 64
TURNS = 40
# Turns that are not counted: Python specialises code that has run some times.
WARM_UP_TURNS = 4


class Cost(NamedTuple):
    """A kind of request at several brokers."""

    name: str
    # The median of each broker, in microseconds of CPU a request.
    medians_us: list[float]
    # The median of the ratios of each broker to the first one.
    ratios: list[float]


def measure(brokers: list[Broker], turns: int = TURNS) -> list[Cost]:
    """Return what each kind of request costs these brokers, which run."""
    return [_measure(name, prepare, brokers, turns) for name, prepare in KINDS.items()]


def _measure(name: str, prepare: Callable[[Wire, str], bytes], brokers: list[Broker], turns: int) -> Cost:
    topic = f"cost-{time.time_ns()}"
    wires = [prepared(broker.address, 1, topic) for broker in brokers]
    frames = [prepare(wire, topic) for wire in wires]
    found: list[list[float]] = [[] for _ in brokers]
    order = list(range(len(brokers)))
    for turn in range(turns + WARM_UP_TURNS):
        for at in order:
            us = _turn_us(brokers[at], wires[at], frames[at])
            if turn >= WARM_UP_TURNS:
                found[at].append(us)
        order.reverse()
    for wire in wires:
        wire.socket.close()
    ratios = [statistics.median(us / first for us, first in zip(each, found[0], strict=True)) for each in found]
    return Cost(name, [statistics.median(each) for each in found], ratios)


def _turn_us(broker: Broker, wire: Wire, data: bytes) -> float:
    """Return the broker's CPU time for one request, of a turn of them."""
    burst = data * (IN_FLIGHT // 2)
    before_s = broker.cpu_s()
    wire.send(burst)
    for _ in range(REQUESTS_A_TURN // (IN_FLIGHT // 2) - 1):
        wire.send(burst)
        _receive(wire)
    _receive(wire)
    return (broker.cpu_s() - before_s) / REQUESTS_A_TURN * 1e6


def _receive(wire: Wire) -> None:
    for _ in range(IN_FLIGHT // 2):
        wire.receive()


def _produce(wire: Wire, topic: str) -> bytes:
    data = load.produce(topic, 1, 100)
    check_produced(wire, data)
    return data


def _fetch_nothing(wire: Wire, topic: str) -> bytes:
    asked = FetchRequest(max_bytes=1 << 20, topics=[FetchTopic(topic, partitions=[FetchPartition(0, fetch_offset=0)])])
    return request(ApiKey.FETCH, 11, asked)


def _heartbeat(wire: Wire, topic: str) -> bytes:
    member = Member(wire, topic)
    member.join()
    member.sync()
    return request(ApiKey.HEARTBEAT, HEARTBEAT, HeartbeatRequest(member.group, member.generation, member.member_id))


def _metadata(wire: Wire, topic: str) -> bytes:
    return load.metadata(wire, topic)[0]


# Each prepares the topic, and returns the request.
KINDS: dict[str, Callable[[Wire, str], bytes]] = {
    "Produce of one record": _produce,
    "Fetch that finds nothing": _fetch_nothing,
    "Heartbeat": _heartbeat,
    "Metadata of one topic": _metadata,
}
