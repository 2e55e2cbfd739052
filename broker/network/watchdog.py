"""The watchdog: logs what holds the event loop, with the stack of its thread.

Every client waits while one turn of the loop runs. A thread of its own asks the loop for a sign of life a few times a
second. Where none comes in `HELD_MS`, it logs the stack of the loop's thread, and later how long the turn has taken.
While no requests arrive, the thread sleeps without a deadline, so an idle broker wakes for nothing.

A broker on the event loop of somebody else's program has a watchdog that never sleeps (`of_a_program`): what holds such
a loop is usually a client that waits for this broker, whose request is then never read.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback

# A turn of this length is reported. Ordinary ones take less than a millisecond, and large requests some 20.
HELD_MS = 300
# The thread looks this often while requests arrive.
INTERVAL_MS = 250
# At most one turn is reported in this time. The next report counts those between.
REPORT_INTERVAL_MS = 10_000
# After so many looks without a request in between, the thread sleeps until the next one.
_QUIET_LOOKS = 4
# In somebody else's program only what looks like a hang is reported: a program may hold its own loop for a while.
PROGRAM_HELD_MS = 5_000
PROGRAM_INTERVAL_MS = 1_000
_PROGRAM_ADVICE = (
    "\nThe broker runs on this loop and answers nobody meanwhile. If that is a client that waits for this broker, it "
    "waits in vain: run the broker in a thread of its own, by `with Broker(...)` instead of `async with Broker(...)`"
)
# The innermost calls of the stack: what the loop and the dispatcher call on the way there says nothing.
_STACK_DEPTH = 12

_log = logging.getLogger(__name__)


class Watchdog:
    """Watches one event loop from `start` to `stop`. Until it is started it does nothing.

    `sleeps`: while no requests come. `advice` ends each report.
    """

    def __init__(
        self, held_ms: int = HELD_MS, interval_ms: int = INTERVAL_MS, *, sleeps: bool = True, advice: str = ""
    ) -> None:
        self._held_s = held_ms / 1000
        self._interval_s = interval_ms / 1000
        self._sleeps = sleeps
        self._advice = advice
        # No request has come since the last look: the next one calls `note`.
        self.quiet = False
        # Set while the thread sleeps until the next request.
        self.asleep = threading.Event()
        self._request = threading.Event()
        self._stopping = threading.Event()
        # The sign of life that the loop was asked for, which `stop` gives in its place.
        self._ended = threading.Event()
        self._reported_s = -float(REPORT_INTERVAL_MS)
        self._unreported = 0

    @classmethod
    def of_a_program(cls) -> Watchdog:
        """Return a watchdog for the loop of a program that runs a broker among other things."""
        return cls(PROGRAM_HELD_MS, PROGRAM_INTERVAL_MS, sleeps=False, advice=_PROGRAM_ADVICE)

    def start(self) -> None:
        """Watch the running loop, in whose thread this is called."""
        work = self._run, (asyncio.get_running_loop(), threading.get_ident())
        threading.Thread(target=work[0], args=work[1], name="odradek-watchdog", daemon=True).start()

    def stop(self) -> None:
        """End the thread soon. Idempotent."""
        self._stopping.set()
        self._request.set()
        self._ended.set()

    def note(self) -> None:
        """Note that a request has come. Needed only while `quiet`."""
        self.quiet = False
        if self.asleep.is_set():
            self._request.set()

    def _run(self, loop: asyncio.AbstractEventLoop, thread_id: int) -> None:
        looks = 0
        while not self._stopping.is_set():
            looks = looks + 1 if self.quiet and self._sleeps else 0
            self.quiet = True
            if looks >= _QUIET_LOOKS:
                looks = 0
                self._sleep()
            elif not self._look(loop, thread_id):
                return
            self._stopping.wait(self._interval_s)

    def _sleep(self) -> None:
        """Wait for the next request. One that came just now has cleared `quiet`, and the thread goes on."""
        self.asleep.set()
        if self.quiet:
            self._request.wait()
        self.asleep.clear()
        if not self._stopping.is_set():
            self._request.clear()

    def _look(self, loop: asyncio.AbstractEventLoop, thread_id: int) -> bool:
        """Wait for the end of the loop's turn, and report one that takes long. False once the loop is closed."""
        ended = self._ended = threading.Event()
        began_s = time.monotonic()
        try:
            loop.call_soon_threadsafe(ended.set)
        except RuntimeError:  # the loop is closed
            return False
        if self._stopping.is_set() or ended.wait(self._held_s):
            return True
        reports = self._report(thread_id)
        while not ended.wait(self._interval_s) and not self._stopping.is_set():
            pass
        if reports:
            _log.warning("the event loop was held for %d ms", (time.monotonic() - began_s) * 1000)
        return True

    def _report(self, thread_id: int) -> bool:
        """Log what the loop's thread does now; False where the last report is too recent."""
        now_s = time.monotonic()
        if now_s - self._reported_s < REPORT_INTERVAL_MS / 1000:
            self._unreported += 1
            return False
        frame = sys._current_frames().get(thread_id)  # pyright: ignore[reportPrivateUsage]
        stack = "".join(traceback.format_stack(frame)[-_STACK_DEPTH:]).rstrip() if frame is not None else "  unknown"
        before = f" ({self._unreported} more times since the last report)" if self._unreported else ""
        text = "the event loop is held for more than %d ms%s, by\n%s%s"
        _log.warning(text, self._held_s * 1000, before, stack, self._advice)
        self._reported_s, self._unreported = now_s, 0
        return True
