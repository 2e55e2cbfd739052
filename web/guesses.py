"""Logins by basic authentication. The answer to a wrong one is delayed, and few lines of the log tell of them."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode

from .exchange import Request
from .line_limit import LineLimit

# So a connection, of which each door has a bounded number, tries one password in this time.
DELAY_S = 1.0
MAX_LOG_LINES = 100
WINDOW_MS = 10_000
_MAX_SHOWN = 100

_log = logging.getLogger(__name__)


def login_in(request: Request) -> str:
    """Return the NAME:PASSWORD of basic authentication, "" where a request sends none that can be read."""
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    try:
        return b64decode(text, validate=True).decode() if scheme.lower() == "basic" else ""
    except ValueError:
        return ""


class Guesses:
    """The wrong logins at one door."""

    def __init__(self) -> None:
        self._limit = LineLimit(MAX_LOG_LINES, WINDOW_MS)

    async def refuse(self, request: Request, name: str) -> None:
        """Note a wrong login, and return when its client may be told. A right one does not wait for it."""
        left_out = self._limit.take(int(asyncio.get_running_loop().time() * 1000))
        if left_out is not None:
            more = f"; {left_out} more were left out" if left_out else ""
            shown = repr(name[:_MAX_SHOWN])
            _log.warning("%s: wrong name or password of %s%s", request.address or "a client", shown, more)
        await asyncio.sleep(DELAY_S)
