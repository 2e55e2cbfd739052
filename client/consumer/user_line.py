"""The line of the user's code at which a task waits, for warnings about a user that does not poll."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import FrameType
from typing import Any

_OURS = str(Path(__file__).parents[1])
_LOOP = str(Path(asyncio.__file__).parent)


def user_line(task: asyncio.Task[Any] | None) -> str:
    """Return "FILE:LINE in FUNCTION" of the innermost frame that is the user's, "" if none is found."""
    if task is None or task.done():
        return ""
    found, awaited = "", task.get_coro()
    while awaited is not None:
        frame: FrameType | None = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None and not frame.f_code.co_filename.startswith((_OURS, _LOOP)):
            found = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return found
