"""The console: a web page over any Kafka, `from odradek.console import Console, ConsoleConfig`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import lazily

if TYPE_CHECKING:
    from .server import Console, ConsoleConfig

__all__ = ["Console", "ConsoleConfig"]

__getattr__, __dir__ = lazily(__name__, {"server": "Console ConsoleConfig"})
