"""The segments of one log, oldest first, and what happens to them: they are added, retired, replaced, truncated.

The tuple of segments is replaced, never changed: a reader that holds one keeps it. Old segments are opened when they
are read, and only a few of them stay open.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from ..errors import DiskError, TornSwap
from .segment import Segment

# Older segments that keep their files open after a read: enough for some consumers that lag, with few descriptors a
# partition.
OPEN_OLD_SEGMENTS = 8


class SegmentList:
    """See the module's text. The last segment is the active one, which is appended to."""

    __slots__ = ("_appended_before", "_retired", "_warm", "active", "all", "names_dirty")

    def __init__(self, segments: Iterable[Segment], names_dirty: bool) -> None:
        # Invariant: never empty, base offsets ascend.
        self.all: tuple[Segment, ...] = tuple(segments)
        # Invariant: the last of `all`.
        self.active = self.all[-1]
        # What `appended_bytes` has besides the size of the active segment.
        self._appended_before = -self.active.size
        # Whether files were made, renamed or removed since the last fsync of the directory.
        self.names_dirty = names_dirty
        # Segments that have left the log, for `take_retired`.
        self._retired: list[Segment] = []
        # Old segments with open files, the least recently read first. A start opens those that it checks.
        self._warm: deque[Segment] = deque(each for each in self.all[:-1] if each.is_open)

    @property
    def size_bytes(self) -> int:
        """The size of all log files together."""
        return sum(segment.size for segment in self.all)

    @property
    def appended_bytes(self) -> int:
        """How much was appended since the start, whatever has left the log. Sizes tell, so no append has to count."""
        return self._appended_before + self.active.size

    def add(self, segment: Segment) -> None:
        """Make a new segment the active one. It takes the place of an active segment that is empty."""
        old, self.active = self.active, segment
        self._appended_before += old.size - segment.size
        self.names_dirty = True
        if old.size == 0:
            old.unlink()
            self.all = (*self.all[:-1], segment)
        else:
            self.all = (*self.all, segment)

    def dirty_below(self, offset: int, recovery_point: int) -> list[Segment]:
        """Return the segments up to `offset` that need an fsync, also because they were cut, oldest first.

        Oldest first, so that a power cut between two fsyncs leaves no hole before what is on disk. A clean one may lie
        behind a dirty one, because the cleaner forces to disk what it writes. The search ends at a clean segment below
        `recovery_point`: an fsync has covered everything there.
        """
        segments = self.all
        dirty: list[Segment] = []
        following: Segment | None = None
        for segment in reversed(segments):
            if segment.is_dirty and segment.base_offset <= offset:
                dirty.append(segment)
            elif following is not None and following.base_offset <= recovery_point:
                break
            following = segment
        dirty.reverse()
        return dirty

    # -- Open files --------------------------------------------------------------------------------

    def keep_warm(self, segment: Segment) -> None:
        """Note that an old segment is read, and close the least recently read ones where too many are open."""
        warm = self._warm
        if warm and warm[-1] is segment:
            return
        if segment in warm:
            warm.remove(segment)
        warm.append(segment)
        # A segment that waits for its fsync keeps its descriptor: a new one may not be told of a failed write.
        synced = [each for each in warm if not each.is_dirty] if len(warm) > OPEN_OLD_SEGMENTS else []
        for oldest in synced[: len(warm) - OPEN_OLD_SEGMENTS]:
            warm.remove(oldest)
            oldest.release()

    def release(self) -> None:
        """Close all files; the next use opens them again."""
        for segment in self.all:
            segment.release()
        self._warm.clear()

    # -- Removal -----------------------------------------------------------------------------------

    def retire_below(self, offset: int, max_segments: int) -> None:
        """Retire the segments wholly below `offset`, at most `max_segments`, but never the active one."""
        segments, gone = self.all, 0
        while gone < min(len(segments) - 1, max_segments) and segments[gone + 1].base_offset <= offset:
            gone += 1
        # Published first: a segment that keeps its name on a failing disk is below the start all the same.
        self.all = segments[gone:]
        for segment in segments[:gone]:
            self._retire(segment)

    def retire_all(self, create: Callable[[], Segment]) -> None:
        """Retire every segment, and begin with the one that `create` then makes."""
        old, appended = self.all, self.appended_bytes
        for segment in old:
            self._retire(segment)
        self.active = create()
        self._appended_before = appended - self.active.size
        self.all = (self.active,)

    def replace(self, old: tuple[Segment, ...], new: Segment, rename: Callable[[], None]) -> None:
        """Put `new` in the place of `old`, which retire. `rename` then gives the files of `new` their names.

        `old` must lie side by side before the active segment. Raises DiskError: call take_back() then.
        """
        at = self.all.index(old[0])
        assert self.all[at : at + len(old)] == old, "the log no longer has these segments"
        assert self.active not in old, "the active segment stays"
        for segment in old:
            self._retire(segment)
        rename()
        self.all = (*self.all[:at], new, *self.all[at + len(old) :])

    def take_back(self, old: tuple[Segment, ...], unlink: Callable[[], None]) -> TornSwap | None:
        """Undo what a replace() of `old` has begun. Return why that cannot be, None if it is done.

        `unlink` removes the names of the new segment.
        """
        self.names_dirty = True
        try:
            if all(each in self._retired for each in old):
                unlink()
            for segment in old:
                segment.restore()
        except DiskError as error:
            return TornSwap(old[0].directory, error)
        self._retired = [each for each in self._retired if each not in old]
        return None

    def truncate_to(self, offset: int, index_interval_bytes: int) -> None:
        """Remove every batch that holds `offset` or later ones."""
        segments, appended = list(self.all), self.appended_bytes
        while len(segments) > 1 and segments[-1].base_offset >= offset:
            self._drop(segments.pop())
        active = segments[-1]
        active.truncate_to(offset, index_interval_bytes)
        self.all, self.active = tuple(segments), active
        self._appended_before = appended - active.size

    def take_retired(self) -> list[Segment]:
        """Return the segments that have retired since the last call."""
        retired, self._retired = self._retired, []
        return retired

    def _retire(self, segment: Segment) -> None:
        if segment in self._warm:
            self._warm.remove(segment)
            segment.release()
        segment.retire()
        self._retired.append(segment)
        self.names_dirty = True

    def _drop(self, segment: Segment) -> None:
        if segment in self._warm:
            self._warm.remove(segment)
        segment.unlink()
        self.names_dirty = True
