"""The command `odradek`: a table of commands, each in a module that is loaded on use.

Python loads these names at their first use, because a health check (`odradek ping -b HOST:PORT`) needs none of them.
"""

from __future__ import annotations

# Not that of `typing`: its import takes longer than a health check does.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from .command_line import COMMANDS, main

__all__ = ["COMMANDS", "main"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import command_line

    return getattr(command_line, name)
