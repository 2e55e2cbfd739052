"""Pages and their reader, who saves programs, runs lines and pieces of Python in their order, compares the output."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from odradek.tests.support.documents.shell import run_line

# A start of Spark takes 10 s, on a busy machine longer. Nothing waits for so long otherwise.
WITHIN_S = 300
# What a test does in its own way: it has the packages, and it starts the servers.
STARTS = ("pip install", "odradek serve", "odradek cluster start", "odradek registry")
_BLOCK = re.compile(r"^```(python)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PYTHON = re.compile(r"^```(python|py)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


def begin(code: str, names: dict[str, Any], page: str = "page", line: int = 0) -> Coroutine[Any, Any, None] | None:
    """Do a piece of Python, which stands at a line of a page; one that awaits is returned as a coroutine."""
    compiled = compile("\n" * line + code, page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = eval(compiled, names)
    return cast("Coroutine[Any, Any, None]", done) if inspect.iscoroutine(done) else None


def python_of(text: str, own: Mapping[str, str], language: str = "python") -> Iterator[tuple[int, str]]:
    """Yield the line and the code of each block of Python, with what the reader puts in the place of words."""
    for block in _PYTHON.finditer(text):
        if block[1] == language:
            code = block[2]
            for word, instead in own.items():
                code = code.replace(word, instead)
            yield text[: block.start()].count("\n") + 1, code


async def run_blocks(page: str, text: str, own: Mapping[str, str], names: Mapping[str, Any] | None = None) -> int:
    """Run all blocks of Python in their order; return how many there are."""
    known, blocks = {"__name__": "page", **(names or {})}, list(python_of(text, own))
    for line, code in blocks:
        waiting = begin(code, known, page, line)
        if waiting is not None:
            await waiting
    return len(blocks)


@dataclass(frozen=True)
class Reader:
    """Somebody who does what a page says, in a folder, with servers at other addresses."""

    folder: Path
    # What the page says -> what the reader puts in its place.
    own: dict[str, str]
    # The names of the pieces of Python.
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "page"})

    def follow(self, text: str) -> None:
        """Do what a part of the page says."""
        for language, block in _BLOCK.findall(text):
            if language:
                self._do(self.with_own(block))
                continue
            for line, output in _LINE.findall(block.replace("\\\n", " ")):
                if not line.startswith(STARTS):
                    assert self.run(self.with_own(line)).rstrip("\n") == self.with_own(output).rstrip("\n"), line

    def with_own(self, text: str) -> str:
        """Return a text of the page with what this reader puts in."""
        for word, own in self.own.items():
            text = text.replace(word, own)
        return text

    def run(self, line: str) -> str:
        """Return the output of a line."""
        if line.startswith("python "):
            # Beside the environment's Python, as after its activation: Spark starts `python3` by its name.
            path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
            return subprocess.run(
                [sys.executable, *line.split()[1:]], cwd=self.folder, env={**os.environ, "PATH": path},
                stdout=subprocess.PIPE, text=True, check=True, timeout=WITHIN_S,
            ).stdout  # fmt: skip
        ended = run_line(line, self.folder)
        assert ended.status == 0, (line, ended)
        return ended.out

    def _do(self, code: str) -> None:
        """Save a program, whose first line is its name, or do a piece of Python, which may await."""
        if name := re.match(r"# (\S+\.py)\n", code):
            (self.folder / name[1]).write_text(code[name.end() :])
            return
        waiting = begin(code, self.names)
        if waiting is not None:
            asyncio.run(waiting)
