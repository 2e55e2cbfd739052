"""The open connections of a running broker, as its processors know them."""

from __future__ import annotations

from odradek.broker import Broker
from odradek.broker.network.acceptor import Acceptor
from odradek.broker.network.connection import Connection


def acceptor(broker: Broker) -> Acceptor:
    found = broker.acceptor
    assert found is not None
    return found


def connections(broker: Broker) -> list[Connection]:
    return [each for processor in acceptor(broker).processors for each in processor.connections]


def requests_wait(broker: Broker) -> bool:
    return any(each.waiting for each in acceptor(broker).processors)
