"""The client's side of a fetch session (KIP-227): a Fetch names only the partitions that changed.

    FULL (epoch 0) --response with a session id--> INCREMENTAL (epochs 1, 2, 3, ...)
    INCREMENTAL --an error, a lost response, names in place of ids--> FULL, which ends the old session

A broker without room for a session answers with id 0, and each Fetch is a full one. So 1,000 idle partitions cost some
tens of bytes a Fetch, not 30 KB.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...protocol.errors import ErrorCode
from ...protocol.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic
from ..record import by_topic

# Topic name, topic id, partition.
Key = tuple[str, bytes, int]

SESSION_ERRORS = {
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
}
_FULL_EPOCH = 0
_MAX_EPOCH = 0x7FFFFFFF


class FetchSession:
    """The session with one broker. One Fetch at a time: `begin`, then `accepted` or `restart`."""

    def __init__(self) -> None:
        self.id: int = 0
        self.epoch = _FULL_EPOCH
        self._by_id = False
        # Responses in a row that came at once and brought nothing.
        self.in_vain = 0
        # What the broker knows, from the last Fetch on.
        self._known: dict[Key, FetchPartition] = {}

    def begin(
        self, wanted: Mapping[Key, FetchPartition], *, by_id: bool
    ) -> tuple[list[FetchTopic], list[ForgottenTopic]]:
        """Return what the next Fetch names: the partitions that changed, and those to forget."""
        if by_id is not self._by_id:
            self.restart()
            self._by_id = by_id
        if self.epoch == _FULL_EPOCH:
            self._known = dict(wanted)
            return _topics(wanted.items()), []
        changed = [(key, each) for key, each in wanted.items() if self._known.get(key) != each]
        forgotten = self._known.keys() - wanted.keys()
        self._known = dict(wanted)
        return _topics(changed), _forgotten(forgotten)

    def accepted(self, session_id: int) -> None:
        """Take over the session id of a response without an error."""
        if session_id == 0:
            self.id, self.epoch = 0, _FULL_EPOCH
        elif session_id == self.id and self.epoch != _FULL_EPOCH:
            self.epoch = self.epoch + 1 if self.epoch < _MAX_EPOCH else 1
        else:
            self.id, self.epoch = session_id, 1

    def restart(self) -> None:
        """Fetch in full next: it is not known what the broker has."""
        self.epoch = _FULL_EPOCH


def _topics(partitions: Iterable[tuple[Key, FetchPartition]]) -> list[FetchTopic]:
    rows = (((name, topic_id), each) for (name, topic_id, _), each in partitions)
    return [FetchTopic(*topic, some) for topic, some in by_topic(rows).items()]


def _forgotten(keys: Iterable[Key]) -> list[ForgottenTopic]:
    rows = (((name, topic_id), number) for name, topic_id, number in sorted(keys))
    return [ForgottenTopic(*topic, numbers) for topic, numbers in by_topic(rows).items()]
