"""The wires between the brokers of a cluster in a test: some are cut, some let no Fetch through.

They end at each broker's door, where the client id of a request says which broker has sent it. What brokers ask each
other meets no fault of the test otherwise, and no recording.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from weakref import WeakKeyDictionary

from ..broker.network.connection import CloseConnection, Connection, Dispatch, Pending
from ..broker.network.send_queue import EncodedResponse
from ..protocol.apis import ApiKey

# The client id in a request header, behind key, version, correlation id and its length.
_SENDER = re.compile(rb"(?:broker|odradek-controller)-(\d+)")
_CLIENT_ID_AT = 10


class Links:
    """The wires of one cluster."""

    def __init__(self) -> None:
        # Nodes that no other broker reaches, and that reach none.
        self.isolated: set[int] = set()
        # Nodes whose replicas get no records.
        self.held_back: set[int] = set()
        # Who is at the two ends of each connection.
        self._ends: WeakKeyDictionary[Connection, tuple[int, int]] = WeakKeyDictionary()

    def between(self, node: int, door: Callable[[Dispatch], Dispatch], dispatch: Dispatch) -> Dispatch:
        """Return what handles the frames that a node gets: brokers' go to `dispatch`, clients' through the door."""
        return partial(self._take, node, dispatch, door(dispatch))

    def cut(self, node: int) -> None:
        """Cut the open connections of a node to other brokers, both ways."""
        for each in [each for each, ends in self._ends.items() if node in ends]:
            each.abort()

    def _take(
        self, node: int, dispatch: Dispatch, door: Dispatch, connection: Connection, data: memoryview
    ) -> EncodedResponse | Pending:
        found = _SENDER.match(data, _CLIENT_ID_AT)
        if found is None:
            return door(connection, data)
        sender = int(found[1])
        self._ends[connection] = sender, node
        if self.isolated & {sender, node}:
            raise CloseConnection(f"the test has isolated broker {sender} or {node}")
        if sender in self.held_back and int.from_bytes(data[:2], "big") == ApiKey.FETCH:
            raise CloseConnection(f"the test holds broker {sender} back")
        return dispatch(connection, data)
