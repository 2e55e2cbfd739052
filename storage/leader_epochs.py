"""The leader epochs of a partition and the offsets where they began: `leader-epoch-checkpoint` (KIP-101, KIP-320).

A follower or consumer whose log diverges from this one asks where an epoch ended, and truncates to there. Entries
ascend in both epoch and start offset. The file is written when the log is flushed. After a crash the headers behind the
recovery point tell the epochs that it lacks; they are replayed.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter
from pathlib import Path

from .checkpoints import LEADER_EPOCH, parse_int, read_entries, write_entries
from .errors import DamagedFile
from .files import DISK, Disk

UNDEFINED = -1

_EPOCH = itemgetter(0)


class LeaderEpochs:
    """The epochs of one partition."""

    def __init__(self, path: Path, entries: tuple[tuple[int, int], ...] = (), disk: Disk = DISK) -> None:
        self.path = path
        # (epoch, start offset). Invariant: both ascend strictly. Replaced as a whole, so that a flush in a thread
        # sees one state.
        self.entries = entries
        self.latest = entries[-1][0] if entries else UNDEFINED
        self._saved: tuple[tuple[int, int], ...] = entries
        self._disk = disk

    @classmethod
    def load(cls, directory: Path, disk: Disk = DISK) -> LeaderEpochs:
        """Read the partition's file; return no epochs where it is missing. Raises DamagedFile."""
        path = directory / LEADER_EPOCH
        entries: list[tuple[int, int]] = []
        for line, words in enumerate(read_entries(path, 2, disk), 3):
            entry = parse_int(path, line, words[0]), parse_int(path, line, words[1])
            if entries and (entry[0] <= entries[-1][0] or entry[1] < entries[-1][1]):
                raise DamagedFile(path, line, f"epoch and offset {entry} do not follow {entries[-1]}")
            entries.append(entry)
        return cls(path, tuple(entries), disk)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that `epoch` wrote at `start_offset`; does nothing unless the epoch is newer than the latest."""
        if epoch > self.latest:
            # An epoch that wrote nothing before the next one began is left out.
            kept = tuple(entry for entry in self.entries if entry[1] < start_offset)
            self._replace((*kept, (epoch, start_offset)))

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return (epoch, end offset) of the largest known epoch at or below `epoch`, as OffsetsForLeaderEpoch does.

        (-1, -1) for -1 and for an epoch newer than all known ones. An epoch older than all ends where the first begins.
        """
        if epoch == UNDEFINED or epoch > self.latest:
            return UNDEFINED, UNDEFINED
        if epoch == self.latest:
            return epoch, log_end_offset
        slot = bisect_right(self.entries, epoch, key=_EPOCH)
        end_offset = self.entries[slot][1]
        return (self.entries[slot - 1][0] if slot else epoch), end_offset

    def divergence(self, offset: int, last_epoch: int, log_end_offset: int) -> tuple[int, int] | None:
        """Return (epoch, its end offset) to which a reader with records of `last_epoch` before `offset` must go back.

        None where this log has these records too; (-1, -1) where it knows nothing of that epoch.
        """
        epoch, end_offset = self.end_offset_for(last_epoch, log_end_offset)
        if epoch == UNDEFINED:
            return UNDEFINED, UNDEFINED
        return (epoch, end_offset) if epoch < last_epoch or end_offset < offset else None

    def epoch_for(self, offset: int) -> int:
        """Return the epoch that wrote `offset`, -1 if it is older than all known."""
        slot = bisect_right(self.entries, offset, key=itemgetter(1))
        return self.entries[slot - 1][0] if slot else UNDEFINED

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget the epochs that began at or after `end_offset`."""
        self._replace(tuple(entry for entry in self.entries if entry[1] < end_offset))

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget the epochs that ended before `start_offset`; the one that holds it begins there now."""
        slot = bisect_right(self.entries, start_offset, key=itemgetter(1))
        if slot:
            self._replace(((self.entries[slot - 1][0], start_offset), *self.entries[slot:]))

    def save(self, *, durable: bool = True) -> bool:
        """Write the file if it is not up to date. Return whether the caller must force the directory to disk.

        Not `durable`: the caller must force the file to disk, too.
        """
        entries = self.entries
        if entries == self._saved:
            return False
        lines = [f"{epoch} {offset}" for epoch, offset in entries]
        write_entries(self.path, lines, self._disk, durable=durable, sync_directory=False)
        self._saved = entries
        return True

    def _replace(self, entries: tuple[tuple[int, int], ...]) -> None:
        self.entries = entries
        self.latest = entries[-1][0] if entries else UNDEFINED
