"""The lines of the log about clients that are denied, refused or closed: so many in a window, then their number.

Strangers cause them. One that tries a password a thousand times a second would otherwise fill the disk of the log, and
hide what others do.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Any, Final

from ...web.line_limit import LineLimit
from ..clock import Clock
from ..security.principals import ANONYMOUS, Principal
from ..timers import Timers

# Denials of one user, or of one address whose clients have not logged in.
DENIALS_PER_SECOND: Final = 20
# Users and addresses whose denials are counted: those of the latest.
MAX_DENIED: Final = 10_000
# Clients of one processor, or of one listener's door, that are refused or closed.
MAX_LOG_LINES: Final = 100
WINDOW_MS: Final = 10_000

_log = logging.getLogger(__name__)


class Denials:
    """The lines of the audit log about denials: of each user, whatever connections it opens."""

    def __init__(self) -> None:
        # What denied somebody last stands last.
        self._limits: OrderedDict[str, LineLimit] = OrderedDict()

    def take(self, principal: Principal, host: str, now_ms: int) -> int | None:
        """Return None where a line is one too many; otherwise how many were left out before it, and not told."""
        who = host if principal == ANONYMOUS else str(principal)
        limit = self._limits.get(who)
        if limit is None:
            limit = self._limits[who] = LineLimit(DENIALS_PER_SECOND, 1_000)
            if len(self._limits) > MAX_DENIED:
                self._limits.popitem(last=False)
        self._limits.move_to_end(who)
        return limit.take(now_ms)


class Rejections:
    """The lines about clients that are refused or closed. A timer tells how many more there were."""

    def __init__(self, clock: Clock, timers: Timers) -> None:
        self._clock = clock
        self._timers = timers
        self._limit = LineLimit(MAX_LOG_LINES, WINDOW_MS)

    def warn(self, log: logging.Logger, text: str, *values: object, extra: dict[str, Any] | None = None) -> None:
        """Write a line to `log`, or count it."""
        now_ms = self._clock.monotonic_ms()
        left_out = self._limit.take(now_ms)
        if left_out is not None:
            self._tell(left_out)
            log.warning(text, *values, extra=extra)
        elif self._limit.left_out == 1:
            end_ms = self._limit.began_ms + WINDOW_MS
            self._timers.after(end_ms - now_ms, lambda: self._tell(self._limit.tell()))

    def _tell(self, left_out: int) -> None:
        if left_out:
            _log.warning("%d more clients were refused or closed within %d s", left_out, WINDOW_MS // 1000)
