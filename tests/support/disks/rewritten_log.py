"""A log on a faulty disk, as torn_log.py has it, whose closed segments are written again by somebody at times.

- Kafka's cleaner has been at work while no broker of ours ran: it leaves offsets out between segments, and whole
  segments empty. The partition may come without a recovery point (an import, a checkpoint that was lost or damaged).
- Segments are rewritten and replaced while others before them are not on disk yet. `Log.replace_segments` allows that,
  though our cleaner flushes first: what is in their place is on disk, and what is before it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from odradek.storage.segments import swap
from odradek.storage.segments.names import CLEANED_SUFFIX, INDEX_SUFFIXES
from odradek.storage.segments.segment import Segment
from odradek.tests.support.disks.torn_log import TornLog, records_of


class RewrittenLog(TornLog):
    """See the module's text."""

    def __init__(self, directory: Path, seed: int) -> None:
        super().__init__(directory, seed)
        # Offsets are missing between batches: another offset of a batch may be right as well.
        self.is_cleaned_at_times = True
        # Whether segments that are on disk may lie behind others that are not, until the next flush.
        self.has_rewritten = False

    def steps(self) -> list[Callable[[], None]]:
        return [*super().steps(), self.roll, self.rewrite, self.rewrite, self.leave_gaps]

    def flush(self) -> None:
        super().flush()
        self.has_rewritten = False

    def rewrite(self) -> None:
        """Write some adjacent closed segments again, into one, whether they are on disk or not."""
        closed = self.log.segments[:-1]
        if not closed:
            return
        first = self.chance.randrange(len(closed))
        old = closed[first : first + self.chance.randint(1, 2)]
        if not old[-1].size:
            # A cleaning keeps the last batch, which tells what it has replaced.
            return
        new = Segment.create(self.directory, old[0].base_offset, 1000, self.disk, CLEANED_SUFFIX)
        for segment in old:
            for _, header, batch in segment.sound_batches(0):
                new.append(batch, header, self.config.index_interval_bytes)
        if not new.size:
            # Damage is all that they hold.
            new.unlink()
            return
        new.seal()
        new.sync()
        self.has_rewritten = True
        swap.prepare(self.directory, new.base_offset, self.disk)
        self.log.replace_segments(old, new.base_offset, new.size, 0, 1000)
        swap.finish(self.directory, new.base_offset, self.disk)
        self.remove_retired()

    def leave_gaps(self) -> None:
        """Stop, and let Kafka's cleaner remove the last batches of closed segments. The recovery point may be lost."""
        if self.has_damage:
            return
        self.log.close()
        # What another program does is whole.
        self.disk.keep_going()
        may_be_gone = self.cleaned_away(self.records)
        for segment in self.log.segments[:-1]:
            if self.chance.random() < 0.5:
                self._cut_end(segment)
        self.disk.fsync_dir(self.directory)
        self.flushed = self.point = self.log.log_end_offset
        self.clean = self.chance.random() < 0.5
        self.is_point_known = self.chance.random() < 0.3
        self.log = self.open()
        self.clean = False
        held = records_of(self.log)
        assert self.log.log_end_offset == self.flushed, "a gap has cost what lies behind it"
        lost = {offset for offset in self.records.keys() - held.keys() if offset >= self.start}
        assert lost <= may_be_gone, "a gap has cost records"
        self.records = held
        self.disk.stop_after(int(2 ** self.chance.uniform(0, 13)))

    def _cut_end(self, segment: Segment) -> None:
        batches = list(segment.sound_headers())
        position, header = self.chance.choice(batches) if batches else (0, None)
        if header is None or segment.damages:
            return
        end = batches[-1][1].next_offset
        for offset in range(header.base_offset, end):
            self.records.pop(offset, None)
        segment.truncate(position)
        for suffix in INDEX_SUFFIXES:
            self.disk.unlink(segment.path(suffix))
        segment.sync()

    def offsets_on_disk(self) -> dict[Path, set[int]]:
        # What lies behind a hole goes with it, on disk or not.
        return {} if self.has_rewritten else super().offsets_on_disk()


def run(directory: Path, seed: int) -> None:
    """Run all lives of a seed. Raises AssertionError if the log differs from the list."""
    RewrittenLog(directory, seed).run()
