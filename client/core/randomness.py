"""Randomness: the one door to it for what the client draws, except secrets of logins.

A simulation draws everything from a seed: `drawn_from` holds for what runs in the present context.
"""

from __future__ import annotations

import random
from contextvars import ContextVar
from uuid import UUID, uuid4

_given: ContextVar[random.Random | None] = ContextVar("randomness", default=None)
_own = random.Random()


def jitter() -> random.Random:
    """Return the source of what only spreads load: pauses, partitions without a key, which broker is asked."""
    return _given.get() or _own


def new_uuid() -> UUID:
    """Return a random UUID (version 4)."""
    given = _given.get()
    return uuid4() if given is None else UUID(bytes=given.randbytes(16), version=4)


def drawn_from(source: random.Random) -> None:
    """Draw everything from `source` in the present context, and in what it starts."""
    _given.set(source)
