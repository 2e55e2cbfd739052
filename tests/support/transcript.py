"""Transcripts of a state machine: commands and their outcomes, as readable text.

A line that begins with `> ` is a command; the lines below it are what it must bring. `ODRADEK_RENEW_TRANSCRIPTS=1`
writes what it does bring, to be read in the diff.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

FOLDER = Path(__file__).parents[1] / "transcripts"
RENEW = os.environ.get("ODRADEK_RENEW_TRANSCRIPTS") == "1"


class Stage(Protocol):
    """A machine with what a command may ask of it."""

    def run(self, command: str) -> list[str]: ...


def transcripts(name: str) -> list[Path]:
    """Those of a machine, by name."""
    return sorted((FOLDER / name).glob("*.txt"))


def check(path: Path, stage: Stage) -> None:
    """The transcript brings on `stage`, which is new, what is written."""
    written = path.read_text()
    played = play(written, stage)
    if RENEW:
        path.write_text(played)
    assert played == written or RENEW


def play(text: str, stage: Stage) -> str:
    """The transcript with the outcome of each command as it is today; comments and empty lines stay."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("> "):
            lines.append(line)
            lines.extend(f"  {said}" for said in stage.run(line[2:]))
        elif not line.startswith("  "):
            lines.append(line)
    return "\n".join(lines) + "\n"
