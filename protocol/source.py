"""The text of a codec while it is being written: lines, their depth, and what they refer to.

Adjacent fields of a fixed size are held back as one run, so that one call into the struct module moves them all.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any


class Source:
    """Lines of Python and the scope that they run in."""

    def __init__(self, scope: dict[str, Any]) -> None:
        self.scope = scope
        self.lines: list[str] = []
        self.run: list[tuple[str, str]] = []
        """The pending fields of a fixed size: letter of the struct module and the expression or target behind it."""
        self._depth = 0
        self._names = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, opening: str) -> Generator[None]:
        """`opening` and what is written inside, one level deeper."""
        self.line(opening)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, letter: str) -> str:
        """Return a local name that no other line uses."""
        self._names += 1
        return f"{letter}{self._names}"

    def constant(self, value: Any, name: str) -> str:
        """Return a name for value in the scope; the same for the same object."""
        known = self.scope.setdefault(name, value)
        if known is not value:
            name = f"{name}_{len(self.scope)}"
            self.scope[name] = value
        return name

    def packer(self, letters: str) -> tuple[str, int]:
        """Return the name behind pack_ and unpack_ for a run of letters, and its size in bytes."""
        name = letters.replace("?", "t")  # no other letter of the struct module in use here
        compiled = struct.Struct(">" + letters)
        self.scope.setdefault(f"pack_{name}", compiled.pack)
        self.scope.setdefault(f"unpack_{name}", compiled.unpack_from)
        return name, compiled.size

    def compile(self, function: str, title: str) -> Callable[..., Any]:
        exec(compile("\n".join(self.lines), f"<{title}>", "exec"), self.scope)
        return self.scope[function]
