"""The replay of a partition of `__share_group_state`: the records that a load of its states needs.

The topic is not compacted. Each state needs its last snapshot and the updates behind it, so everything below the
lowest of these snapshots can be deleted (coordinator.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from ..replay import Ended, Written
from .records import SNAPSHOT_KEY

_SNAPSHOT = SNAPSHOT_KEY.to_bytes(2, "big")


class StateReplay:
    """Takes the entries of a partition one by one, and then yields each state's last snapshot and the updates since."""

    def __init__(self) -> None:
        self._states: dict[bytes, list[Written]] = {}

    def take(self, each: Written | Ended) -> None:
        """Take the next entry of the log. Nothing in it is transactional."""
        if isinstance(each, Ended):
            return
        key = each.key[2:]
        if not each.key.startswith(_SNAPSHOT):
            self._states.setdefault(key, []).append(each)
        elif each.value is None:
            self._states.pop(key, None)
        else:
            self._states[key] = [each]

    def outcome(self) -> Iterator[Written]:
        """Yield the records that lead to the same states."""
        for records in self._states.values():
            yield from records
