"""The source text of a codec: its lines, their depth, and the names that they use.

Adjacent fields of a fixed size form one run, so that one call into the struct module reads or writes them all.
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
        # The pending fields of a fixed size: a letter of the struct module, and its expression or target.
        self.run: list[tuple[str, str]] = []
        self._depth = 0
        self._names = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, opening: str) -> Generator[None]:
        """Write `opening`, and the lines inside one level deeper."""
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
        """Return the name after pack_ and unpack_ for a run of letters, and its size in bytes."""
        name = letters.replace("?", "t")  # no other letter of the struct module in use here
        compiled = struct.Struct(">" + letters)
        self.scope.setdefault(f"pack_{name}", compiled.pack)
        self.scope.setdefault(f"unpack_{name}", compiled.unpack_from)
        return name, compiled.size

    def compile(self, function: str, title: str) -> Callable[..., Any]:
        exec(compile("\n".join(self.lines), f"<{title}>", "exec"), self.scope)
        return self.scope[function]
