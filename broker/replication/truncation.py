"""Truncation: how far a follower goes back when its log and the leader's diverge (KIP-101, KIP-279).

A fetch names the leader epoch of the follower's last record. Where the leader's log has another end of that epoch, the
response names the largest epoch that the leader knows at or below it, and where that ended. The follower goes back to
where both logs can agree, and fetches again: one round for each epoch that the leader does not know.
"""

from __future__ import annotations

from typing import Protocol

UNDEFINED = -1


class Epochs(Protocol):
    """The leader epochs of the follower's log."""

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]: ...


def truncation_offset(epochs: Epochs, log_end_offset: int, leader_epoch: int, leader_end_offset: int) -> int:
    """Return the offset to truncate to, where the leader's largest epoch at or below ours is `leader_epoch`."""
    epoch, end_offset = epochs.end_offset_for(leader_epoch, log_end_offset)
    if epoch == UNDEFINED:
        return min(leader_end_offset, log_end_offset)
    if epoch != leader_epoch:
        # This log does not know that epoch either: go back to the end of the one before, and ask again.
        return min(end_offset, log_end_offset)
    return min(end_offset, leader_end_offset, log_end_offset)
