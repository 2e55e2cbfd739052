"""A service with a start that takes time, and a stop that may come during it."""

from __future__ import annotations

import asyncio


class StoppedEarly(OSError):
    """Something was stopped while it started."""


class Startable:
    """Open from `start` to `stop`."""

    _starting: asyncio.Task[None] | None = None

    async def _open(self) -> None:
        """Open. Where that fails, nothing is left open."""
        raise NotImplementedError

    async def _close(self) -> None:
        """Close. May be called again."""
        raise NotImplementedError

    async def start(self) -> None:
        """Open. Raises StoppedEarly where `stop` is called meanwhile, OSError, and what else prevents it."""
        starting = self._starting = asyncio.create_task(self._open())
        try:
            await starting
        except asyncio.CancelledError as error:
            # It may have come to its end in the turn in which it was cancelled.
            await self._close()
            caller = asyncio.current_task()
            if caller is None or caller.cancelling():
                raise
            raise StoppedEarly("it was stopped before it had started") from error
        finally:
            self._starting = None

    async def stop(self) -> None:
        """Close, also what is starting. May be called again."""
        if self._starting is not None:
            # Only once: a second time would interrupt what closes it.
            if not self._starting.cancelling():
                self._starting.cancel()
            await asyncio.wait([self._starting])
        await self._close()
