"""Transcripts of a state machine: commands and their outcomes, as readable text.

A line that begins with `> ` is a command, and the lines below it are the outcome that it must have.
`ODRADEK_RENEW_TRANSCRIPTS=1` writes the present outcomes into the files; read them in the diff.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

FOLDER = Path(__file__).parents[2] / "transcripts"
RENEW = os.environ.get("ODRADEK_RENEW_TRANSCRIPTS") == "1"


class Stage(Protocol):
    """A machine, and the commands that a transcript may give it."""

    def run(self, command: str) -> list[str]: ...


def transcripts(name: str) -> list[Path]:
    """Return the transcripts of a machine, by name."""
    return sorted((FOLDER / name).glob("*.txt"))


def check(path: Path, stage: Stage) -> None:
    """Check that the commands of the transcript have the written outcomes on a new `stage`."""
    written = path.read_text()
    played = play(written, stage)
    if RENEW:
        path.write_text(played)
    assert played == written or RENEW


def play(text: str, stage: Stage) -> str:
    """Return the transcript with the present outcome of each command. Comments and empty lines stay."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("> "):
            lines.append(line)
            lines.extend(f"  {said}" for said in stage.run(line[2:]))
        elif not line.startswith("  "):
            lines.append(line)
    return "\n".join(lines) + "\n"
